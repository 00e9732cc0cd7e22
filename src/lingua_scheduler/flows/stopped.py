"""stopped: the node no longer works on an attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.attempts import ATTEMPT_REFUSALS, check_attempt, refused
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)


class Stopped(Answer, frozen=True, tag="MOVED"):
    """The current attempt was given up: the job goes on as `attempt_id`, or ended with it."""

    state: State
    attempt_id: int


_STOPPED: Final = Face("flows/stopped", Stopped, refuses=ATTEMPT_REFUSALS)


async def stopped(engine: Engine, job_id: str, attempt_id: int, node_id: str, epoch: str = "") -> Stopped | Refusal:
    """Of a fenced attempt: `STALE_ATTEMPT`, and its slot is free. Of the current one: a failure."""
    try:
        cell, attempt = check_attempt(job_id, attempt_id, node_id, epoch)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _STOPPED(engine, cell, pack(attempt))
    if log.is_debug:
        log.debug("stopped", job_id=job_id, attempt=attempt_id, node_id=node_id, answer=answer)
    return refused(answer, job_id, attempt_id, node_id) if isinstance(answer, No) else answer
