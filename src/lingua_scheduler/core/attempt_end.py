"""How an attempt can end without a result, and what that costs: the table that every flow obeys.

The rows are the contract with operators: docs/job-states.md is generated from them, and the Lua scripts are composed
with them (`CAUSE.ack_timeout`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Cause:
    """One way for an attempt to end. `limbo`: the node may still be at work, so the slot stays taken."""

    name: str
    event: str
    lease: Literal["released", "limbo"]
    costs_try: bool
    counts: Literal["", "undelivered", "overloaded", "lost"] = ""
    #: It tells against the node. Of a node that is lost with all it has, that is counted once, and not for each job.
    blames: bool = False


CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "undelivered",
        "the assignment could not be written to the node's socket",
        "released",
        False,
        "undelivered",
        True,
    ),
    Cause(
        "overloaded",
        "the node refused with `NODE_OVERLOADED`; it rests for a moment",
        "released",
        False,
        "overloaded",
    ),
    Cause("failed", "the node refused or failed the job", "released", True, blames=True),
    Cause("stopped", "the node stopped working on it without a result", "released", True, blames=True),
    Cause("dropped", "the node came back and no longer has the job", "released", True, blames=True),
    Cause("ack_timeout", "no ack in time", "limbo", True, blames=True),
    Cause(
        "unsent",
        "no ack in time, and nobody said that the assignment was written to the node",
        "limbo",
        False,
        "undelivered",
    ),
    Cause("run_timeout", "no result in time", "limbo", True, blames=True),
    Cause("lost_early", "the node was lost before it accepted", "limbo", False),
    Cause("lost", "the node was lost", "limbo", True, "lost"),
    Cause("died_early", "a new process of the node registered before the old one accepted", "released", False),
    Cause("died", "a new process of the node registered", "released", True, "lost"),
    Cause("left_early", "the node went offline before it accepted", "released", False),
    Cause("left", "the node went offline", "released", True),
    Cause("evicted", "the operator evicted the node", "limbo", False),
    Cause("cancelled", "the job was cancelled", "limbo", False),
    Cause("expired", "the job's deadline passed", "limbo", False),
)
