"""claim: a request id comes to stand for a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import cell_of, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.core.ticket import MAX_TIMEOUT_MS
from lingua_scheduler.flows.requests import check_digest, check_request
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Claimed(Answer, frozen=True, tag="CLAIMED"):
    """The job that the request stands for: the one that was offered, or an earlier one. `sealed`: it exists."""

    job_id: str
    sealed: bool


_CLAIM: Final = Face("flows/claim", Claimed, refuses=("IDEMPOTENCY_CONFLICT",))


async def claim(
    engine: Engine,
    principal: str,
    request_id: str,
    digest: str,
    offered: str,
    *,
    instead_of: str = "",
    timeout_ms: int = 0,
) -> Claimed | Refusal:
    """Bind the request to the job `offered`, or learn what it stands for. `instead_of`: that job's record is gone.

    `timeout_ms` is how long the job may take: the claim outlasts that, by its lease.
    """
    try:
        tag = check_request(principal, request_id)
        cell_of(offered)
        if instead_of:
            cell_of(instead_of)
        timeout_ms = check_int("timeout_ms", timeout_ms, 0, MAX_TIMEOUT_MS)
        item = pack((check_digest(digest), offered, instead_of, timeout_ms))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _CLAIM(engine, tag, item)
    return refuse(answer.code, request_id=request_id) if isinstance(answer, No) else answer
