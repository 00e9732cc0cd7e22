"""done: the node has the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_int, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.attempts import ATTEMPT_REFUSALS, Moved, check_attempt, refused
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.face import Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)

#: A result is text (audio goes by reference); this is the largest message a node may send.
MAX_RESULT_CHARS: Final = 4 * 1024 * 1024
#: A session has at most a day to come back for it, and it may have to wait for an earlier one.
MAX_TTL_MS: Final = 2 * 86_400_000
#: Nobody takes longer to tell of an end.
MAX_LEASE_MS: Final = 600_000
DEFAULT_TTL_MS: Final = Rules().result_ttl_ms

_DONE: Final = Face("flows/done", Moved, refuses=ATTEMPT_REFUSALS)


async def done(
    engine: Engine,
    job_id: str,
    attempt_id: int,
    node_id: str,
    epoch: str = "",
    *,
    result: str = "",
    result_ttl_ms: int = DEFAULT_TTL_MS,
    lease_ms: int = 0,
) -> Moved | Refusal:
    """End the job with its result, which is stored once and stays for `result_ttl_ms` or until it is released.

    `lease_ms`: whoever calls tells of the end himself, and confirms that to a relay within this time, or others do.
    """
    try:
        cell, attempt = check_attempt(job_id, attempt_id, node_id, epoch)
        ttl_ms = check_int("result_ttl_ms", result_ttl_ms, 1, MAX_TTL_MS)
        lease_ms = check_int("lease_ms", lease_ms, 0, MAX_LEASE_MS)
        text = check_text("result", result, MAX_RESULT_CHARS)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _DONE(engine, cell, pack((*attempt, ttl_ms, lease_ms)), text.encode())
    if log.is_debug:
        log.debug("done", job_id=job_id, attempt=attempt_id, node_id=node_id, answer=answer)
    return refused(answer, job_id, attempt_id, node_id) if isinstance(answer, No) else answer
