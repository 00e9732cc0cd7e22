"""What the operator's three flows have in common: they name a node and are told how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.core.ids import check_cell, check_id
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)


class Intended(Answer, frozen=True, tag="INTENDED"):
    """The intent is written down; so many slots of the node are still taken."""

    intent: str
    standing: Standing
    used: int


def intent_face(path: str) -> Face[Intended]:
    """The face of one of the operator's scripts."""
    return Face(path, Intended, refuses=("UNKNOWN_NODE",))


async def intend(face: Face[Intended], engine: Engine, cell: str, node_id: str) -> Intended | Refusal:
    """Check the names, run the script, say what came of it."""
    try:
        cell = check_cell(cell)
        item = pack((check_id("node_id", node_id),))
    except Invalid as invalid:
        return invalid.refusal
    answer = await face(engine, cell, item)
    log.info(face.script.name, node_id=node_id, answer=answer)
    return refuse(answer.code, node_id=node_id) if isinstance(answer, No) else answer
