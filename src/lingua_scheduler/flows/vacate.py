"""vacate: a cell that does not know a node does not let it in any more by an old stamp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_id, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Vacated(Answer, frozen=True, tag="VACATED"):
    """Nobody is there, and nobody comes by this stamp."""


class Occupied(Answer, frozen=True, tag="OCCUPIED"):
    """The node is there, or what an operator wants of it."""


_VACATE: Final = Face[Vacated | Occupied]("flows/vacate", Vacated, Occupied)


async def vacate(engine: Engine, cell: str, node_id: str, stamp: int) -> Vacated | Occupied | Refusal:
    """The first of two steps by which a home is given up; the second is to forget it."""
    try:
        cell = check_cell(cell)
        item = pack((check_id("node_id", node_id), check_int("stamp", stamp, 0, 2**53)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _VACATE(engine, cell, item)
    assert isinstance(answer, Vacated | Occupied)  # noqa: S101 - it refuses nothing
    return answer
