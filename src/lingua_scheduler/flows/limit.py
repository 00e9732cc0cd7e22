"""limit: the operator lets a node have no more than so many slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_id
from lingua_scheduler.core.node import check_slots
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)


class Limited(Answer, frozen=True, tag="LIMITED"):
    """So many slots the node has now, and so many it says that it has.

    Of a node that is gone nobody knows what it will say (0); then the first is the limit alone, 0 without one.
    """

    max_concurrent_jobs: int
    reported: int


_LIMIT: Final = Face("flows/limit", Limited, refuses=("UNKNOWN_NODE",))


async def limit(engine: Engine, cell: str, node_id: str, max_concurrent_jobs: int | None) -> Limited | Refusal:
    """Let the node have at most so many jobs at once, and never more than it says itself; None: as many as it says.

    What it already has stays there. A node cannot undo it, by whatever it says.
    """
    try:
        cell = check_cell(cell)
        most = 0 if max_concurrent_jobs is None else check_slots(max_concurrent_jobs)
        item = pack((check_id("node_id", node_id), most))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _LIMIT(engine, cell, item)
    log.info("limit", node_id=node_id, most=most or None, answer=answer)
    return refuse(answer.code, node_id=node_id) if isinstance(answer, No) else answer
