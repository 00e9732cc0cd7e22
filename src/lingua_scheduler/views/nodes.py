"""nodes: the cell's nodes with their ledgers, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.cell import Ledger
from lingua_scheduler.core.ids import check_cell, check_cursor, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

NODES_PER_PAGE: Final = 200


class Nodes(Answer, frozen=True, tag="NODES"):
    """A page. The last one's cursor is "0"."""

    now_ms: int
    cursor: str
    nodes: list[Ledger]


_NODES: Final = Face("views/nodes", Nodes)


async def read_nodes(engine: Engine, cell: str, cursor: str = "0", count: int = NODES_PER_PAGE) -> Nodes | Refusal:
    """Look at about `count` nodes, from `cursor` on."""
    try:
        cell = check_cell(cell)
        item = pack((check_cursor(cursor), check_int("count", count, 1, 10_000)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _NODES(engine, cell, item)
    assert isinstance(answer, Nodes)  # noqa: S101 - it refuses nothing
    return answer
