"""seal: the job that a request id stands for exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import cell_of, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.flows.requests import check_digest, check_request
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

MAX_TTL_MS: Final = 31 * 86_400_000


class Sealed(Answer, frozen=True, tag="SEALED"):
    """The request stands for this job as long as its record can live."""


_SEAL: Final = Face("flows/seal", Sealed, refuses=("IDEMPOTENCY_CONFLICT",))


async def seal(
    engine: Engine, principal: str, request_id: str, digest: str, job_id: str, ttl_ms: int, found_id: str = ""
) -> Sealed | Refusal:
    """Keep the binding for `ttl_ms`. Safe to repeat; refused when the lease was over and the id is another job's.

    `found_id` is the job's id in the cell to which it went; "": it stayed.
    """
    try:
        tag = check_request(principal, request_id)
        cell_of(job_id)
        cell_of(found_id or job_id)
        item = pack((check_digest(digest), job_id, check_int("ttl_ms", ttl_ms, 1, MAX_TTL_MS), found_id or job_id))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _SEAL(engine, tag, item)
    return refuse(answer.code, request_id=request_id) if isinstance(answer, No) else answer
