"""disconnect: a node's socket is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_id
from lingua_scheduler.core.node import check_parting
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.core.node import Parting
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)


class Away(Answer, frozen=True, tag="AWAY"):
    """The node has until then to come back; 0: it was lost already."""

    until_ms: int


class Replaced(Answer, frozen=True, tag="REPLACED"):
    """A newer connection has taken its place: this close changes nothing."""


_DISCONNECT: Final = Face[Away | Replaced]("flows/disconnect", Away, Replaced, refuses=("UNKNOWN_NODE",))


async def disconnect(
    engine: Engine, cell: str, node_id: str, connection: str, how: Parting = "closed"
) -> Away | Replaced | Refusal:
    """Begin the node's grace: a long one if the scheduler closed the socket itself."""
    try:
        cell = check_cell(cell)
        item = pack(
            (
                check_id("node_id", node_id),
                check_id("connection", connection),
                check_parting(how),
            )
        )
    except Invalid as invalid:
        return invalid.refusal
    answer = await _DISCONNECT(engine, cell, item)
    log.info("disconnect", node_id=node_id, reason=how, answer=answer)
    return refuse(answer.code, node_id=node_id) if isinstance(answer, No) else answer
