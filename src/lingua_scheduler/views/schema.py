"""schema: which layout a cell's records have, whether it was begun anew, and the time there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Schema(Answer, frozen=True, tag="SCHEMA"):
    """The number that was written when the cell was begun; 0: it was not, or the engine has lost it.

    The birth was written with it, and is another one each time the cell is begun anew. The reign is that of the server
    under which it was last asked who is to be doubted.
    """

    written: int
    birth: int
    now_ms: int
    reign: int = 0


_SCHEMA: Final = Face("views/schema", Schema)


async def read_schema(engine: Engine, cell: str) -> Schema | Refusal:
    """The layout, the birth, and the engine's time."""
    try:
        cell = check_cell(cell)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _SCHEMA(engine, cell, pack(()))
    assert isinstance(answer, Schema)  # noqa: S101 - it refuses nothing
    return answer
