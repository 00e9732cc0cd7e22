"""unroute: a cell does not serve these pairs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.store.engine import Engine


class Unrouted(Answer, frozen=True, tag="UNROUTED"):
    """So many pairs the directory does not name the cell for any more."""

    number: int


_UNROUTE: Final = Face("flows/unroute", Unrouted)


async def unroute(engine: Engine, cell: str, seen: int, pairs: Sequence[str]) -> Unrouted | Refusal:
    """Take a cell out of the ways to these pairs. `seen` was read before the cell was looked at."""
    try:
        item = pack((check_cell(cell), check_int("seen", seen, 0, 2**53), list(pairs)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _UNROUTE(engine, DIRECTORY, item)
    assert isinstance(answer, Unrouted)  # noqa: S101 - it refuses nothing
    return answer
