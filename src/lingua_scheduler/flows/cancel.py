"""cancel: nobody wants the result any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_text
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.face import Face, No
from lingua_scheduler.store.following import GoneOn, follow

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)

_CANCEL: Final = Face[Moved | GoneOn]("flows/cancel", Moved, GoneOn, refuses=("UNKNOWN_JOB",))


async def cancel(engine: Engine, job_id: str, reason: str = "cancelled") -> Moved | Refusal:
    """End the job without a result; one that has ended stays as it is, and its state is the answer."""
    try:
        found = await follow(_CANCEL, engine, job_id, 0, check_text("reason", reason, 512))
    except Invalid as invalid:
        return invalid.refusal
    answer = found.answer
    assert not isinstance(answer, GoneOn)  # noqa: S101 - it was followed
    if log.is_debug:
        log.debug("cancel", job_id=job_id, answer=answer)
    return refuse(answer.code, job_id=job_id) if isinstance(answer, No) else answer
