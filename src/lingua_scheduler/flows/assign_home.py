"""assign_home: a node has one home, the cell in which it registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_id, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.store.engine import Engine

#: By so many of its pairs a cell is found for a node that serves more.
MAX_ASKED: Final = 64
#: A cell's name has room for this, and the number behind it.
_MAX_STEM: Final = 10


class Home(Answer, frozen=True, tag="HOME"):
    """The cell, and the stamp with which the node is sent there. `is_new`: the directory knew no home of it."""

    cell: str
    stamp: int
    is_new: bool = False


_ASSIGN_HOME: Final = Face("flows/assign_home", Home)


async def assign_home(
    engine: Engine, node_id: str, pairs: Sequence[str] = (), *, first: str = "c0", full: Home | None = None
) -> Home | Refusal:
    """Where the node is to register.

    `first` names the first cell of all, and the others are named like it. `full`: it was sent there, and there was no
    room.
    """
    try:
        turned_away = ("", 0) if full is None else (check_cell(full.cell), check_int("stamp", full.stamp, 0, 2**53))
        stem = check_cell(first).rstrip("0123456789")[:_MAX_STEM]
        item = pack((check_id("node_id", node_id), list(pairs[:MAX_ASKED]), first, stem, *turned_away))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _ASSIGN_HOME(engine, DIRECTORY, item)
    assert isinstance(answer, Home)  # noqa: S101 - it refuses nothing
    return answer
