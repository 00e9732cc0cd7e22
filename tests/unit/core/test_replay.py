"""What is kept for a client that may come back, and for how long."""

from __future__ import annotations

from lingua_scheduler.core.order import CaughtUp, Order, OrderLimits
from lingua_scheduler.core.replay import Missing, Replayed, Result


def spoken(*sizes: int, limits: OrderLimits | None = None, every_ms: int = 0) -> Order:
    """An order of which results of these sizes went out, one after the other."""
    order = Order(limits or OrderLimits())
    for index, size in enumerate(sizes):
        order.expect(index, 10**9, index * every_ms)
        order.settle(index, Result(bytes(size)), index * every_ms)
        order.take(index * every_ms)
    return order


def ids(replayed: Replayed) -> list[int]:
    return [event.event_id for event in replayed.events]


def due(order: Order) -> int | None:
    return order.due_ms


def test_what_is_not_confirmed_is_given_again_in_order_with_its_old_number() -> None:
    order = spoken(1, 2, 3)
    assert order.confirm(1) == [0]
    assert order.confirm(1) == []
    replayed = order.replay(1)
    assert [(event.event_id, event.index, event.outcome) for event in replayed.events] == [
        (2, 1, Result(bytes(2))),
        (3, 2, Result(bytes(3))),
    ]
    assert replayed.lost_to == 0
    assert order.replay(1) == replayed
    assert order.replay(2) == Replayed(replayed.events[1:])
    assert order.confirm(3) == [1, 2]
    assert order.replay(0) == Replayed([])


def test_a_number_that_was_never_given_confirms_nothing() -> None:
    order = spoken(1, 2)
    assert order.confirm(3) == []
    assert order.confirm(-1) == []
    assert ids(order.replay(0)) == [1, 2]
    assert ids(order.replay(99)) == []


def test_who_is_ahead_is_followed_unless_so_much_cannot_have_been_forgotten() -> None:
    order = spoken(1, 2, limits=OrderLimits(max_events=3))
    order.expect(2, 10**9, 0)
    assert order.catch_up(2, 3) == CaughtUp([], [], 3)
    assert order.catch_up(6, 3) == CaughtUp([], [], 3)
    order.expect(3, 10**9, 0)
    order.settle(3, Missing("cancelled"), 0)
    assert order.catch_up(5, 4) == CaughtUp([2, 3], [2], 5)
    assert (order.pending, order.passed) == (0, 4)
    order.expect(5, 10**9, 0)
    order.settle(5, Missing("cancelled"), 0)
    assert [(event.event_id, event.index) for event in order.take(0).events] == [(6, 5)]


def test_who_never_confirms_has_the_window_and_then_it_counts_as_heard() -> None:
    order = spoken(1, 1, every_ms=50_000)
    assert due(order) == 120_000
    assert order.take(119_999).forgotten == []
    assert ids(order.replay(0)) == [1, 2]
    assert order.take(120_000).forgotten == [0]
    assert order.replay(0).lost_to == 1
    assert order.replay(1).lost_to == 0
    assert due(order) == 170_000
    assert order.take(170_000).forgotten == [1]
    assert (order.replay(1).lost_to, order.replay(2).lost_to) == (2, 0)
    assert due(order) is None


def test_who_is_away_finds_everything_until_the_window_closes() -> None:
    """Also what went out long before, and may have been lost with the socket."""
    order = spoken(1, 1, every_ms=100_000)
    order.away(110_000)
    order.away(150_000)
    assert due(order) == 230_000
    assert order.take(229_999).forgotten == []
    assert ids(order.replay(0)) == [1, 2]
    assert order.take(230_000).forgotten == [0, 1]
    assert order.back(0, 230_001) == Replayed([], lost_to=2)


def test_who_is_back_has_the_window_again_for_what_was_written_again() -> None:
    order = spoken(1, 1, every_ms=100_000)
    order.away(110_000)
    assert ids(order.back(1, 220_000)) == [2]
    assert due(order) == 340_000
    assert order.take(339_999).forgotten == []
    order.away(339_999)
    assert due(order) == 459_999
    assert ids(order.back(0, 459_998)) == [1, 2]


def test_nothing_more_is_kept_for_who_stayed_away_too_long() -> None:
    order = spoken(1)
    order.away(0)
    order.expect(5, 10**9, 0)
    order.settle(5, Result(b"late"), 200_000)
    taken = order.take(200_000)
    assert [event.index for event in taken.events] == [5]
    assert taken.forgotten == [0, 5]
    assert due(order) is None


def test_beyond_so_many_the_oldest_are_dropped_and_a_replay_says_so() -> None:
    order = spoken(1, 1, 1, 1, 1, limits=OrderLimits(max_events=3))
    assert order.replay(0).lost_to == 2
    assert ids(order.replay(0)) == [3, 4, 5]
    assert order.replay(2).lost_to == 0
    order.expect(9, 10**9, 0)
    order.settle(9, Missing("cancelled"), 0)
    assert order.take(0).forgotten == [2]


def test_beyond_so_many_bytes_the_oldest_are_announced_as_missing() -> None:
    order = spoken(40, 40, 20, limits=OrderLimits(max_bytes=100))
    assert [event.outcome for event in order.replay(0).events] == [Result(bytes(size)) for size in (40, 40, 20)]
    order.expect(3, 10**9, 0)
    order.settle(3, Result(bytes(41)), 0)
    assert [event.outcome for event in order.take(0).events] == [Result(bytes(41))]
    replayed = order.replay(0)
    assert [event.outcome for event in replayed.events] == [
        Missing("forgotten"),
        Missing("forgotten"),
        Result(bytes(20)),
        Result(bytes(41)),
    ]
    assert (ids(replayed), replayed.lost_to) == ([1, 2, 3, 4], 0)
    assert order.confirm(4) == [0, 1, 2, 3]


def test_what_was_confirmed_or_lost_its_content_leaves_its_room_to_others() -> None:
    limits = OrderLimits(max_bytes=100)
    order = spoken(40, 40, 20, 40, limits=limits)
    assert order.confirm(2) == [0, 1]
    order = Order.load(limits, order.save())
    for index, size in ((5, 40), (6, 1)):
        order.expect(index, 10**9, 0)
        order.settle(index, Result(bytes(size)), 0)
        order.take(0)
    # 20, 40 and 40 just fit; one more byte, and the oldest of them has to go.
    assert [event.outcome for event in order.replay(0).events] == [
        Missing("forgotten"),
        Result(bytes(40)),
        Result(bytes(40)),
        Result(bytes(1)),
    ]


def test_what_is_too_large_to_be_kept_goes_out_once() -> None:
    order = spoken(limits=OrderLimits(max_bytes=100))
    order.expect(0, 10**9, 0)
    order.settle(0, Result(bytes(101)), 0)
    assert [event.outcome for event in order.take(0).events] == [Result(bytes(101))]
    assert [event.outcome for event in order.replay(0).events] == [Missing("forgotten")]
