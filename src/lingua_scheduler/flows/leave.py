"""leave: a node says that it is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_id, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)


class Left(Answer, frozen=True, tag="LEFT"):
    """The node is out of its pools; so many of its attempts went to others."""

    moved: int


_LEAVE: Final = Face("flows/leave", Left, refuses=("UNKNOWN_NODE", "STALE_ATTEMPT"))


async def leave(engine: Engine, cell: str, node_id: str, epoch: str = "") -> Left | Refusal:
    """Take the node out of its pools at once; its own word that it works on nothing any more."""
    try:
        cell = check_cell(cell)
        item = pack((check_id("node_id", node_id), check_text("epoch", epoch, 64)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _LEAVE(engine, cell, item)
    log.info("leave", node_id=node_id, answer=answer)
    return refuse(answer.code, node_id=node_id) if isinstance(answer, No) else answer
