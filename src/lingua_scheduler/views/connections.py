"""connections: which nodes have a socket at an instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_cursor, check_int
from lingua_scheduler.core.letter import check_instance
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.views.nodes import NODES_PER_PAGE

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Connections(Answer, frozen=True, tag="CONNECTIONS"):
    """A page: nodes, and the connections that speak for them. The last one's cursor is "0"."""

    cursor: str
    found: list[tuple[str, str]]


_CONNECTIONS: Final = Face("views/connections", Connections)


async def read_connections(
    engine: Engine, cell: str, instance_id: str, cursor: str = "0", count: int = NODES_PER_PAGE
) -> Connections | Refusal:
    """Look at about `count` nodes, from `cursor` on, for those whose socket is, or was last, at an instance."""
    try:
        cell = check_cell(cell)
        item = pack((check_instance(instance_id), check_cursor(cursor), check_int("count", count, 1, 10_000)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _CONNECTIONS(engine, cell, item)
    assert isinstance(answer, Connections)  # noqa: S101 - it refuses nothing
    return answer
