"""fail: the node refuses the job or could not do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_bool, check_int, check_text
from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.attempts import ATTEMPT_REFUSALS, check_attempt, refused
from lingua_scheduler.logs import code_in, get_log
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)

MAX_REASON_CHARS: Final = 512


class Failed(Answer, frozen=True, tag="MOVED"):
    """`RETRYING` as `attempt_id`, or the job's end. `reserved`: it has its next node already, and this is it."""

    state: State
    attempt_id: int
    reserved: bool
    node_id: str = ""
    epoch: str = ""
    acks: int = 0


_FAIL: Final = Face("flows/fail", Failed, refuses=ATTEMPT_REFUSALS)


async def fail(
    engine: Engine,
    job_id: str,
    attempt_id: int,
    node_id: str,
    epoch: str = "",
    *,
    reason: str,
    overloaded: bool = False,
    retry_after_ms: int = 0,
) -> Failed | Refusal:
    """Free the slot and move the job on. `overloaded`: it costs no try, and the node rests for `retry_after_ms`."""
    try:
        cell, attempt = check_attempt(job_id, attempt_id, node_id, epoch)
        text = check_text("reason", reason, MAX_REASON_CHARS)
        rests = check_bool("overloaded", overloaded)
        after_ms = check_int("retry_after_ms", retry_after_ms, 0, 86_400_000)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _FAIL(engine, cell, pack((*attempt, text, rests, after_ms)))
    if log.is_debug:
        why = code_in(reason)
        log.debug("fail", job_id=job_id, attempt=attempt_id, node_id=node_id, detail=why, answer=answer)
    return refused(answer, job_id, attempt_id, node_id) if isinstance(answer, No) else answer
