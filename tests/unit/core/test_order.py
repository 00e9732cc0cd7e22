"""The order of results, on virtual time: gaps, graces and late words."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.order import Order, OrderLimits, Settled, Taken
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.core.replay import Missing, Outcome, Result

FAR = 60_000
GAP = Missing("gap_timeout")


def new_order(*expected: int, deadline_ms: int = FAR) -> Order:
    order = Order(OrderLimits())
    for index in expected:
        order.expect(index, deadline_ms, 0)
    return order


def word(index: int) -> Result:
    return Result(b"said %d" % index)


def out(taken: Taken) -> list[tuple[int, int, Outcome]]:
    return [(event.event_id, event.index, event.outcome) for event in taken.events]


def due(order: Order) -> int | None:
    return order.due_ms


def test_the_defaults_are_those_of_the_product() -> None:
    limits = OrderLimits()
    assert (limits.gap_ms, limits.window_ms, limits.max_events, limits.max_bytes) == (10_000, 120_000, 1_024, 8_388_608)


def test_results_go_out_by_index_however_they_come() -> None:
    order = new_order(0, 1, 2)
    assert order.settle(2, word(2), 10) is Settled.kept
    assert out(order.take(10)) == []
    assert order.settle(0, word(0), 20) is Settled.kept
    assert out(order.take(20)) == [(1, 0, word(0))]
    assert order.settle(1, Missing("job_failed"), 30) is Settled.kept
    taken = order.take(30)
    assert out(taken) == [(2, 1, Missing("job_failed")), (3, 2, word(2))]
    assert [event.at_ms for event in taken.events] == [30, 30]
    assert (taken.cancel, taken.forgotten, order.pending) == ([], [], 0)
    assert out(order.take(40)) == []


def test_what_is_ready_is_due_at_once() -> None:
    order = new_order(0)
    order.settle(0, word(0), 10)
    assert due(order) == 0
    assert out(order.take(0)) == [(1, 0, word(0))]


def test_indexes_may_have_holes_but_may_not_be_used_twice_or_come_too_late() -> None:
    order = new_order(7, 3)
    with pytest.raises(Invalid, match="utterance_index 7 is already in use"):
        order.expect(7, FAR, 0)
    order.settle(7, word(7), 0)
    with pytest.raises(Invalid, match="utterance_index 7 is already in use"):
        order.expect(7, FAR, 0)
    assert out(order.take(0)) == []
    order.expect(5, FAR, 0)
    order.settle(3, word(3), 0)
    assert out(order.take(0)) == [(1, 3, word(3))]
    for index in (2, 3):
        with pytest.raises(Invalid, match=f"utterance_index {index} comes too late: 3 has been answered"):
            order.expect(index, FAR, 0)
    order.expect(4, FAR, 0)
    order.settle(5, word(5), 0)
    order.settle(4, word(4), 0)
    assert out(order.take(0)) == [(2, 4, word(4)), (3, 5, word(5)), (4, 7, word(7))]


def test_a_gap_counts_from_the_moment_a_later_result_is_ready() -> None:
    order = new_order(0, 1, 2, 3)
    assert due(order) == 70_000
    order.settle(2, word(2), 5_000)
    order.settle(3, word(3), 9_000)
    assert due(order) == 15_000
    assert order.take(14_999) == Taken([], [], [])
    taken = order.take(15_000)
    assert out(taken) == [(1, 0, GAP), (2, 1, GAP), (3, 2, word(2)), (4, 3, word(3))]
    assert taken.cancel == [0, 1]


def test_an_earlier_result_starts_no_clock() -> None:
    order = new_order(0, 1)
    order.settle(0, word(0), 5_000)
    order.take(5_000)
    assert out(order.take(69_999)) == []


def test_an_utterance_that_comes_after_a_later_result_has_its_own_time() -> None:
    order = new_order(0, 2)
    order.settle(2, word(2), 5_000)
    order.expect(1, FAR, 8_000)
    order.settle(0, word(0), 8_000)
    assert out(order.take(17_999)) == [(1, 0, word(0))]
    assert due(order) == 18_000
    assert order.take(18_000).cancel == [1]


def test_a_gap_behind_a_gap_is_not_announced_before_its_turn_and_may_still_be_filled() -> None:
    order = new_order(0, 1, 2)
    order.hold(0, 8_000, 0)
    order.settle(2, word(2), 5_000)
    assert out(order.take(15_000)) == []
    assert order.settle(1, word(1), 17_000) is Settled.kept
    assert out(order.take(18_000)) == [(1, 0, GAP), (2, 1, word(1)), (3, 2, word(2))]


def test_a_hold_before_the_gap_counts_only_for_what_is_left_of_it() -> None:
    order = new_order(0, 1)
    order.hold(0, 7_000, 1_000)
    order.settle(1, word(1), 5_000)
    assert due(order) == 17_000
    assert order.take(16_999).cancel == []
    assert order.take(17_000).cancel == [0]


def test_a_hold_that_was_over_before_the_gap_does_not_count() -> None:
    order = new_order(0, 1)
    order.hold(0, 4_000, 1_000)
    order.settle(1, word(1), 5_000)
    assert due(order) == 15_000


def test_a_hold_within_the_gap_stops_its_clock() -> None:
    order = new_order(0, 1)
    order.settle(1, word(1), 5_000)
    order.hold(0, 9_000, 7_000)
    assert due(order) == 17_000
    order.hold(0, 22_000, 12_000)
    assert due(order) == 27_000


def test_the_last_word_about_a_hold_counts() -> None:
    """It is prolonged without counting twice, or ends early because the node is back."""
    order = new_order(0, 1)
    order.settle(1, word(1), 5_000)
    order.hold(0, 9_000, 7_000)
    order.hold(0, 12_000, 8_000)
    assert due(order) == 20_000
    order.hold(0, 0, 9_000)
    assert due(order) == 17_000
    order.hold(0, 0, 10_000)
    assert due(order) == 17_000


def test_a_hold_that_ends_before_anybody_waits_is_none() -> None:
    order = new_order(0, 1)
    order.hold(0, 9_000, 1_000)
    order.hold(0, 2_000, 2_000)
    order.settle(1, word(1), 5_000)
    assert due(order) == 15_000


def test_no_hold_is_stronger_than_the_deadline_of_the_job() -> None:
    order = new_order(0, 1, deadline_ms=6_000)
    order.settle(1, word(1), 5_000)
    order.hold(0, 1_000_000, 5_000)
    assert due(order) == 16_000
    assert order.take(16_000).cancel == [0]


def test_what_nobody_waits_for_is_given_up_after_the_deadline_of_its_job() -> None:
    order = new_order(0, deadline_ms=6_000)
    order.hold(0, 1_000_000, 5_000)
    assert order.take(15_999) == Taken([], [], [])
    taken = order.take(16_000)
    assert (out(taken), taken.cancel) == ([(1, 0, GAP)], [0])


def test_no_hold_revives_what_is_given_up() -> None:
    order = new_order(0, 1)
    order.settle(1, word(1), 0)
    order.hold(0, 30_000, 10_000)
    assert due(order) == 10_000
    assert out(order.take(10_000)) == [(1, 0, GAP), (2, 1, word(1))]


def test_a_hold_of_what_is_settled_gone_or_unknown_does_nothing() -> None:
    order = new_order(0, 1)
    order.settle(0, word(0), 0)
    order.hold(0, 9_000, 0)
    order.hold(5, 9_000, 0)
    assert out(order.take(0)) == [(1, 0, word(0))]
    order.hold(0, 9_000, 0)
    assert order.pending == 1


def test_a_late_result_of_an_announced_gap_is_dropped_and_known_as_one() -> None:
    order = new_order(0, 1)
    order.settle(1, word(1), 0)
    order.take(10_000)
    assert order.settle(0, word(0), 10_001) is Settled.late
    assert order.settle(0, word(0), 10_002) is Settled.repeated
    assert out(order.take(10_003)) == []
    assert [event.outcome for event in order.replay(0).events] == [GAP, word(1)]


def test_only_so_many_announced_gaps_are_remembered_the_last_ones() -> None:
    order = Order(OrderLimits(max_events=2))
    for index in range(4):
        order.expect(index, FAR, 0)
    order.settle(3, word(3), 0)
    order.take(10_000)
    answers = [order.settle(index, word(index), 10_001) for index in range(3)]
    assert answers == [Settled.repeated, Settled.late, Settled.late]


def test_an_announced_gap_is_remembered_for_the_window() -> None:
    for now, answer in ((129_999, Settled.late), (130_000, Settled.repeated)):
        order = new_order(0, 1)
        order.settle(1, word(1), 0)
        order.take(10_000)
        order.take(now)
        assert order.settle(0, word(0), now) is answer


def test_the_first_word_counts() -> None:
    order = new_order(0, 1)
    order.settle(0, word(0), 0)
    assert order.settle(0, Missing("cancelled"), 0) is Settled.repeated
    assert out(order.take(0)) == [(1, 0, word(0))]
    assert order.settle(0, word(9), 0) is Settled.repeated


def test_what_is_withdrawn_keeps_nobody_waiting_and_may_come_again() -> None:
    order = new_order(0, 1, 2)
    order.settle(1, word(1), 10)
    order.withdraw(0)
    assert out(order.take(10)) == [(1, 1, word(1))]
    assert order.settle(0, word(0), 20) is Settled.repeated
    order.withdraw(2)
    assert order.settle(2, word(2), 20) is Settled.unknown
    order.expect(2, FAR, 20)
    order.settle(2, word(2), 20)
    order.withdraw(2)
    assert out(order.take(20)) == [(2, 2, word(2))]


def test_what_nobody_expects_is_dropped() -> None:
    order = new_order(0)
    assert order.settle(1, word(1), 0) is Settled.unknown
    assert due(order) == 70_000
    assert out(order.take(0)) == []


def test_it_goes_on_elsewhere_in_the_middle_of_anything() -> None:
    order = new_order(0, 1, 2, 3, 4)
    order.settle(0, word(0), 0)
    order.settle(2, Missing("cancelled"), 1_000)
    order.take(1_000)
    order.hold(1, 3_000, 2_000)
    order.settle(2, word(2), 2_000)
    order.take(12_000)
    order.away(12_500)
    order.settle(4, word(4), 13_000)
    copy = Order.load(OrderLimits(), order.save())
    assert copy.save() == order.save()
    for each in (order, copy):
        assert due(each) == 23_000
        assert out(each.take(23_000)) == [(4, 3, GAP), (5, 4, word(4))]
        assert each.settle(1, word(1), 23_000) is Settled.late
        assert [event.event_id for event in each.back(2, 23_000).events] == [3, 4, 5]


def test_event_ids_go_on_where_the_client_says_they_were() -> None:
    order = Order(OrderLimits(), next_event_id=51)
    order.expect(0, FAR, 0)
    order.settle(0, word(0), 0)
    assert out(order.take(0)) == [(51, 0, word(0))]
