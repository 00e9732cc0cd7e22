"""enter_homes: nodes that were seen in a cell have their home there, if the directory knows of no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_id
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.store.engine import Engine


class HomesEntered(Answer, frozen=True, tag="ENTERED"):
    """How many had none, and whose home is another cell."""

    number: int
    elsewhere: list[str]


_ENTER_HOMES: Final = Face("flows/enter_homes", HomesEntered)


async def enter_homes(engine: Engine, cell: str, node_ids: Sequence[str]) -> HomesEntered | Refusal:
    """Tell the directory again what it may have lost."""
    try:
        item = pack((check_cell(cell), [check_id("node_id", node_id) for node_id in node_ids]))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _ENTER_HOMES(engine, DIRECTORY, item)
    assert isinstance(answer, HomesEntered)  # noqa: S101 - it refuses nothing
    return answer
