"""overhear: a cell is told who is silent, and who is heard, in all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Overheard(Answer, frozen=True, tag="OVERHEARD"):
    """It counts for twenty seconds."""


_OVERHEAR: Final = Face("flows/overhear", Overheard)


async def overhear(engine: Engine, cell: str, silent: int, heard: int) -> Overheard | Refusal:
    """More than half of the *fleet* must be silent before nobody is given up for it, and no less."""
    try:
        cell = check_cell(cell)
        item = pack((check_int("silent", silent, 0, 2**53), check_int("heard", heard, 0, 2**53)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _OVERHEAR(engine, cell, item)
    assert isinstance(answer, Overheard)  # noqa: S101 - it refuses nothing
    return answer
