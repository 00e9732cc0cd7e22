"""counts: what a cell has counted since it began."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.ids import check_cell
from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Counts(msgspec.Struct, frozen=True):
    """Each number only grows. Rates are for whoever looks twice."""

    accepted: int
    #: Jobs that ended, by how.
    ended: dict[str, int]
    #: Attempts that ended without a result, by why.
    attempts: dict[str, int]
    #: Attempts after the first that got their node.
    retried: int
    #: Jobs that were refused: nobody could ever take them, or nobody could now.
    refused_incapable: int
    refused_full: int
    #: Jobs that waited in vain.
    refused_waited: int


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
    found = {name: int(number) for name, number in zip(answer.flat[::2], answer.flat[1::2], strict=True)}
    return Counts(
        accepted=found.get("accepted", 0),
        ended={state: found.get(state, 0) for state in ENDS},
        attempts={cause.name: found.get(f"attempt.{cause.name}", 0) for cause in CAUSES},
        retried=found.get("attempt.again", 0),
        refused_incapable=found.get("refused.incapable", 0),
        refused_full=found.get("refused.full", 0),
        refused_waited=found.get("refused.waited", 0),
    )
