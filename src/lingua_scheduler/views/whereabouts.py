"""whereabouts: where a job is, for those who ask often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import cell_of
from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Waits(Answer, frozen=True, tag="WAITS"):
    """The job waits for its first node. With nothing left, or less, the next sweep refuses it."""

    waited_ms: int
    left_ms: int


class At(Answer, frozen=True, tag="AT"):
    """The job is, or was at its end, with this node. `had`: the nodes of all its attempts, in their order."""

    state: State
    node_id: str
    epoch: str
    attempt_id: int
    acks: int
    had: list[str]


_WHEREABOUTS: Final = Face[Waits | At]("views/whereabouts", Waits, At, refuses=("UNKNOWN_JOB",))


async def read_whereabouts(engine: Engine, job_id: str) -> Waits | At | Refusal:
    """Where a job is. Much lighter than `read_job`: neither what was asked for nor any text is read."""
    try:
        cell = cell_of(job_id)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _WHEREABOUTS(engine, cell, pack((job_id,)))
    return refuse(answer.code, job_id=job_id) if isinstance(answer, No) else answer
