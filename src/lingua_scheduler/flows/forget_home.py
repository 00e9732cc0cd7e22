"""forget_home: a node that has left its cell gives its place back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_id, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Forgotten(Answer, frozen=True, tag="FORGOTTEN"):
    """Whether this very home was there."""

    was_there: bool


_FORGET_HOME: Final = Face("flows/forget_home", Forgotten)


async def forget_home(engine: Engine, node_id: str, cell: str, stamp: int) -> Forgotten | Refusal:
    """Forget a home that was vacated, unless somebody has asked for it since."""
    try:
        item = pack((check_id("node_id", node_id), check_cell(cell), check_int("stamp", stamp, 0, 2**53)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _FORGET_HOME(engine, DIRECTORY, item)
    assert isinstance(answer, Forgotten)  # noqa: S101 - it refuses nothing
    return answer
