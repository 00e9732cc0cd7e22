from __future__ import annotations

from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.job_state import (
    ENDS,
    LIVE_STATES,
    MOVES,
    RESERVED_STATES,
    RUNNING_STATES,
    STATES,
    WAITING_STATES,
    State,
    sources_of,
)


def test_the_table_speaks_of_every_state_and_of_no_other() -> None:
    assert set(MOVES) == set(STATES)
    assert {target for moves in MOVES.values() for target in moves} <= set(STATES)


def test_ends_absorb_and_nothing_else_does() -> None:
    assert {state for state, moves in MOVES.items() if not moves} == set(ENDS)


def test_no_state_moves_to_itself_and_none_returns_to_the_beginning() -> None:
    assert all(state not in moves for state, moves in MOVES.items())
    assert sources_of("CREATED") == ()


def test_every_state_can_be_reached_and_every_job_can_end() -> None:
    def reachable(start: State) -> set[State]:
        found: set[State] = set()
        frontier = {start}
        while frontier:
            found |= frontier
            frontier = {target for state in frontier for target in MOVES[state]} - found
        return found

    assert reachable("CREATED") == set(STATES)
    assert all(reachable(state) & set(ENDS) for state in STATES)


def test_a_live_attempt_is_reserved_or_running_and_never_both() -> None:
    assert set(LIVE_STATES) == set(RESERVED_STATES) | set(RUNNING_STATES)
    assert not set(RESERVED_STATES) & set(RUNNING_STATES)
    assert not set(LIVE_STATES) & set(ENDS)


def test_every_message_implies_the_earlier_ones() -> None:
    assert sources_of("ACCEPTED") == RESERVED_STATES
    assert sources_of("RUNNING") == (*RESERVED_STATES, "ACCEPTED")
    assert sources_of("FINISHED") == LIVE_STATES


def test_every_job_can_be_cancelled_and_every_job_under_way_can_expire() -> None:
    """One that waits for its first node is not accepted yet: it is refused when it has waited long enough."""
    assert set(sources_of("CANCELLED")) == set(STATES) - set(ENDS) - {"CREATED"}
    assert set(sources_of("EXPIRED")) == set(sources_of("CANCELLED")) - {"WAITING"}


def test_a_job_without_a_node_waits_for_one() -> None:
    assert set(WAITING_STATES) == set(STATES) - set(ENDS) - set(LIVE_STATES) - {"CREATED"}
    assert sources_of("WAITING") == ("CREATED",)


def test_a_job_fails_and_retries_only_with_an_attempt() -> None:
    assert sources_of("FAILED") == LIVE_STATES
    assert sources_of("RETRYING") == LIVE_STATES
    assert sources_of("RESERVED") == ("CREATED", "WAITING", "RETRYING")


def test_no_two_ways_to_end_an_attempt_share_a_name() -> None:
    assert len({cause.name for cause in CAUSES}) == len(CAUSES)


def test_the_table_of_ends_is_the_one_of_the_design() -> None:
    """(lease, costs a try, counts towards a bound of its own), as the contract with operators has it."""
    assert {cause.name: (cause.lease, cause.costs_try, cause.counts) for cause in CAUSES} == {
        "undelivered": ("released", False, "undelivered"),
        "overloaded": ("released", False, "overloaded"),
        "failed": ("released", True, ""),
        "stopped": ("released", True, ""),
        "dropped": ("released", True, ""),
        "ack_timeout": ("limbo", True, ""),
        "unsent": ("limbo", False, "undelivered"),
        "run_timeout": ("limbo", True, ""),
        "lost_early": ("limbo", False, ""),
        "lost": ("limbo", True, "lost"),
        "died_early": ("released", False, ""),
        "died": ("released", True, "lost"),
        "left_early": ("released", False, ""),
        "left": ("released", True, ""),
        "evicted": ("limbo", False, ""),
        "cancelled": ("limbo", False, ""),
        "expired": ("limbo", False, ""),
    }
