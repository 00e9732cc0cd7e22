"""release: the client has the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import cell_of
from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Released(Answer, frozen=True, tag="RELEASED"):
    """The job's text is erased; its record stays for a while."""

    state: State
    released_at_ms: int


_RELEASE: Final = Face("flows/release", Released, refuses=("UNKNOWN_JOB", "NOT_ENDED"))


async def release(engine: Engine, job_id: str) -> Released | Refusal:
    """Erase what was said and what came of it, now that the client has confirmed it."""
    try:
        cell = cell_of(job_id)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _RELEASE(engine, cell, pack((job_id,)))
    return refuse(answer.code, job_id=job_id) if isinstance(answer, No) else answer
