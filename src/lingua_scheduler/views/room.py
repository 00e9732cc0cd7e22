"""room: how many nodes of a cell could take a job of a pair now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.store.engine import Engine


class Room(Answer, frozen=True, tag="ROOM"):
    """So many nodes for each pair that was asked for; and whether anybody there is alive who serves it."""

    numbers: list[int]
    live: list[bool]


_ROOM: Final = Face("views/room", Room)


async def read_room(engine: Engine, cell: str, pairs: Sequence[str]) -> Room | Refusal:
    """Look at the sizes of kept sets: a hint, for it changes with every job."""
    try:
        cell = check_cell(cell)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _ROOM(engine, cell, pack((list(pairs),)))
    assert isinstance(answer, Room)  # noqa: S101 - it refuses nothing
    return answer
