"""The life of a job: one table of legal moves. The Lua scripts are composed with this very table."""

from __future__ import annotations

from typing import Final, Literal, get_args

State = Literal[
    "CREATED",
    "RESERVED",
    "DISPATCHED",
    "ACCEPTED",
    "RUNNING",
    "WAITING",
    "RETRYING",
    "FINISHED",
    "FAILED",
    "CANCELLED",
    "EXPIRED",
]

STATES: Final[tuple[State, ...]] = get_args(State)

#: An attempt holds a slot that the node has not confirmed yet, and one that it has.
RESERVED_STATES: Final[tuple[State, ...]] = ("RESERVED", "DISPATCHED")
RUNNING_STATES: Final[tuple[State, ...]] = ("ACCEPTED", "RUNNING")
LIVE_STATES: Final[tuple[State, ...]] = RESERVED_STATES + RUNNING_STATES
#: Without a node: never had one, or lost it.
WAITING_STATES: Final[tuple[State, ...]] = ("WAITING", "RETRYING")
ENDS: Final[tuple[State, ...]] = ("FINISHED", "FAILED", "CANCELLED", "EXPIRED")

#: From each state to the states it may move to, with the event that moves it. Each message implies the
#: earlier ones: ack, started and done are legal from RESERVED on. Ends absorb.
MOVES: Final[dict[State, dict[State, str]]] = {
    "CREATED": {"RESERVED": "dispatch", "WAITING": "dispatch, no room"},
    "RESERVED": {
        "DISPATCHED": "deliver",
        "ACCEPTED": "deliver (implicit ack), ack",
        "RUNNING": "started",
        "FINISHED": "done",
        "RETRYING": "send failed, nack, fail, ack timeout, node lost",
        "FAILED": "tries spent, poison",
        "CANCELLED": "cancel",
        "EXPIRED": "deadline",
    },
    "DISPATCHED": {
        "ACCEPTED": "ack",
        "RUNNING": "started",
        "FINISHED": "done",
        "RETRYING": "send failed, nack, fail, ack timeout, node lost",
        "FAILED": "tries spent, poison",
        "CANCELLED": "cancel",
        "EXPIRED": "deadline",
    },
    "ACCEPTED": {
        "RUNNING": "started",
        "FINISHED": "done",
        "RETRYING": "nack, fail, run timeout, node lost",
        "FAILED": "tries spent, poison",
        "CANCELLED": "cancel",
        "EXPIRED": "deadline",
    },
    "RUNNING": {
        "FINISHED": "done",
        "RETRYING": "fail, run timeout, node lost",
        "FAILED": "tries spent, poison",
        "CANCELLED": "cancel",
        "EXPIRED": "deadline",
    },
    "WAITING": {"RESERVED": "a slot is free", "CANCELLED": "cancel"},
    "RETRYING": {"RESERVED": "a slot is free", "CANCELLED": "cancel", "EXPIRED": "deadline"},
    "FINISHED": {},
    "FAILED": {},
    "CANCELLED": {},
    "EXPIRED": {},
}


def sources_of(target: State) -> tuple[State, ...]:
    """The states from which a job may move to `target`."""
    return tuple(state for state, moves in MOVES.items() if target in moves)
