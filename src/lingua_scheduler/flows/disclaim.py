"""disclaim: the job that a request id was to stand for was not made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import cell_of
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.requests import check_request
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Freed(Answer, frozen=True, tag="FREED"):
    """Whether the id stands for nothing any more. If not, somebody else is about to make the same job."""

    freed: bool


_DISCLAIM: Final = Face("flows/disclaim", Freed)


async def disclaim(engine: Engine, principal: str, request_id: str, job_id: str, offered: str) -> Freed | Refusal:
    """Give the claim back that was taken with `offered`. Safe to repeat."""
    try:
        tag = check_request(principal, request_id)
        cell_of(job_id)
        cell_of(offered)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _DISCLAIM(engine, tag, pack((job_id, offered)))
    assert isinstance(answer, Freed)  # noqa: S101 - it refuses nothing
    return answer
