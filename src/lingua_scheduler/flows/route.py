"""route: a cell serves these pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.store.engine import Engine


class Routed(Answer, frozen=True, tag="ROUTED"):
    """It is in the directory, which has this version now."""

    version: int


_ROUTE: Final = Face("flows/route", Routed)


async def route(engine: Engine, cell: str, pairs: Sequence[str]) -> Routed | Refusal:
    """Write into the directory that a cell serves these pairs, or is about to."""
    try:
        item = pack((check_cell(cell), list(pairs)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _ROUTE(engine, DIRECTORY, item)
    assert isinstance(answer, Routed)  # noqa: S101 - it refuses nothing
    return answer
