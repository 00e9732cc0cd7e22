"""counts: what a cell has counted since it began."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import asdict

from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.ids import check_cell
from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

#: How a job can be refused by a cell.
REFUSED: Final = (
    "NO_CAPABLE_NODE",
    "ALL_CANDIDATES_FULL_OR_FAILED",
    "PREFERRED_NODE_NOT_CAPABLE",
    "PREFERRED_NODE_UNAVAILABLE",
)


class Counts(msgspec.Struct, frozen=True):
    """Each number only grows. Rates are for whoever looks twice.

    A new job is accepted, refused, or still waits for its first node. A node is looked for when a job comes, when it
    has lost its node, and when one is free after it waited: each is a try, and it reserves a slot or does not.
    """

    accepted: int
    #: Jobs that ended, by how.
    ended: dict[str, int]
    #: Jobs that were refused, by code.
    refused: dict[str, int]
    #: Of these with `NO_CAPABLE_NODE`: no registered node serves the pair at all. The others lack something.
    pool_empty: int
    #: Of these: they waited in vain. The others were not allowed to wait, or it would have been no use.
    waited_in_vain: int
    #: How often a node was looked for.
    tries: int
    #: How often one was reserved: first attempts and retries.
    reserved: int
    #: Tries that found nobody, so that the job waits: new jobs, and jobs that lost their node.
    waited: int
    waited_again: int
    #: Attempts that ended without a result, by why.
    attempts: dict[str, int]
    #: Of these: another was to follow.
    retries: dict[str, int]
    #: Attempts after the first that got their node.
    retried: int


class _Counts(Answer, frozen=True, tag="COUNTS"):
    flat: list[str]


_COUNTS: Final = Face("views/counts", _Counts)


async def read_counts(engine: Engine, cell: str) -> Counts | Refusal:
    """Look at a cell's counters."""
    try:
        cell = check_cell(cell)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _COUNTS(engine, cell, pack(()))
    assert isinstance(answer, _Counts)  # noqa: S101 - it refuses nothing
    return _counts({name: int(number) for name, number in zip(answer.flat[::2], answer.flat[1::2], strict=True)})


def _counts(found: dict[str, int]) -> Counts:
    def number(name: str) -> int:
        return found.get(name, 0)

    def by_cause(kind: str) -> dict[str, int]:
        return {cause.name: number(f"{kind}.{cause.name}") for cause in CAUSES}

    accepted, retried, last, retries = (
        number("accepted"),
        number("attempt.again"),
        by_cause("attempt"),
        by_cause("retry"),
    )
    waited, waited_again, late, empty = map(
        number, ("wait.first", "wait.again", "refused.waited", "refused.pool_empty")
    )
    refused = {code: number(f"refused.{code}") for code in REFUSED}
    # A job that was cancelled while it waited for its first node was accepted, and never got one.
    reserved = accepted - number("attempt.none") + retried
    refused["NO_CAPABLE_NODE"] += empty
    tries = reserved + waited + waited_again + sum(refused.values()) - late
    return Counts(
        accepted=accepted,
        ended={state: number(state) for state in ENDS},
        refused=refused,
        pool_empty=empty,
        waited_in_vain=late,
        tries=tries,
        reserved=reserved,
        waited=waited,
        waited_again=waited_again,
        attempts={cause: last[cause] + retries[cause] for cause in last},
        retries=retries,
        retried=retried,
    )


def add_counts(one: Counts, other: Counts) -> Counts:
    """What two cells have counted together. A job that the one refused and the other took counts in both."""
    sums: dict[str, Any] = {}
    for name, number in asdict(one).items():
        more = getattr(other, name)
        sums[name] = {key: number[key] + more[key] for key in number} if isinstance(number, dict) else number + more
    return Counts(**sums)
