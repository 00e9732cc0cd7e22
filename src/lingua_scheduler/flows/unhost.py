"""unhost: a guest's attempt is over, or its home asks for it no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_id
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.guests import HOW, check_deadline, check_end, check_guest
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Unhosted(Answer, frozen=True, tag="UNHOSTED"):
    """`was_here`: it had a slot until now."""

    was_here: bool


_UNHOST: Final = Face("flows/unhost", Unhosted)


async def unhost(
    engine: Engine, cell: str, job_id: str, attempt_id: int, node_id: str, how: str, deadline_at_ms: int
) -> Unhosted | Refusal:
    """Let a guest go, however often that is told. Until the deadline nobody takes a slot for it any more."""
    try:
        cell = check_cell(cell)
        _, attempt = check_guest(job_id, attempt_id)
        node = "" if node_id == "" else check_id("node_id", node_id)
        item = pack((*attempt, node, check_end("how", how, HOW), check_deadline(deadline_at_ms)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _UNHOST(engine, cell, item)
    assert isinstance(answer, Unhosted)  # noqa: S101 - it refuses nothing
    return answer
