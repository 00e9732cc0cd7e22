"""home: the cell in which a node is at home, as the directory has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_id
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class HomeView(Answer, frozen=True, tag="HOME"):
    """The cell, and the stamp of the last who asked for it."""

    cell: str
    stamp: int


class Nowhere(Answer, frozen=True, tag="NOWHERE"):
    """No node of this name has a home."""


_HOME: Final = Face[HomeView | Nowhere]("views/home", HomeView, Nowhere)


async def read_home(engine: Engine, node_id: str) -> HomeView | Nowhere | Refusal:
    """Where a node is at home."""
    try:
        item = pack((check_id("node_id", node_id),))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _HOME(engine, DIRECTORY, item)
    assert isinstance(answer, HomeView | Nowhere)  # noqa: S101 - it refuses nothing
    return answer
