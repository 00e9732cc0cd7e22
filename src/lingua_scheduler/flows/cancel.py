"""cancel: nobody wants the result any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import cell_of, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.store.face import Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

_CANCEL: Final = Face("flows/cancel", Moved, refuses=("UNKNOWN_JOB",))


async def cancel(engine: Engine, job_id: str, reason: str = "cancelled") -> Moved | Refusal:
    """End the job without a result; one that has ended stays as it is, and its state is the answer."""
    try:
        cell = cell_of(job_id)
        item = pack((job_id, check_text("reason", reason, 512)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _CANCEL(engine, cell, item)
    return refuse(answer.code, job_id=job_id) if isinstance(answer, No) else answer
