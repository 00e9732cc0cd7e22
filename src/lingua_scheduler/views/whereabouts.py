"""whereabouts: where a job is, for those who ask often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No
from lingua_scheduler.store.following import GoneOn, follow

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Waits(Answer, frozen=True, tag="WAITS"):
    """The job waits for its first node. With nothing left, or less, the next sweep refuses it."""

    waited_ms: int
    left_ms: int
    #: How often it had gone on from cell to cell when it came here.
    hop: int = 0


class At(Answer, frozen=True, tag="AT"):
    """The job is, or was at its end, with this node. `had`: the nodes of all its attempts, in their order."""

    state: State
    node_id: str
    epoch: str
    attempt_id: int
    acks: int
    had: list[str]


_WHEREABOUTS: Final = Face[Waits | At | GoneOn]("views/whereabouts", Waits, At, GoneOn, refuses=("UNKNOWN_JOB",))


async def seek(engine: Engine, job_id: str, hop: int = 0) -> tuple[str, int, Waits | At | Refusal]:
    """Where a job is, its id there, and how often it went on. `hop`: how often it had, when it was in this cell.

    Much lighter than `read_job`: neither what was asked for nor any text is read.
    """
    try:
        found = await follow(_WHEREABOUTS, engine, job_id, hop)
    except Invalid as invalid:
        return job_id, hop, invalid.refusal
    answer = found.answer
    assert not isinstance(answer, GoneOn)  # noqa: S101 - it was followed
    if isinstance(answer, No):
        return found.job_id, found.hop, refuse(answer.code, job_id=job_id)
    return found.job_id, answer.hop if isinstance(answer, Waits) else found.hop, answer


async def read_whereabouts(engine: Engine, job_id: str) -> Waits | At | Refusal:
    """Where a job is."""
    return (await seek(engine, job_id))[2]
