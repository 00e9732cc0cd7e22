"""routes: all cells, and which of them serve a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_cursor, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.store.engine import Engine

ROUTES_PER_PAGE: Final = 500


class Routes(Answer, frozen=True, tag="ROUTES"):
    """The directory at one instant: each cell with its nodes, and for each pair that was asked for its cells."""

    version: int
    cells: list[tuple[str, int]]
    routes: list[list[str]]


class RoutedPairs(Answer, frozen=True, tag="ROUTED"):
    """A page of the pairs of a cell; the last one's cursor is "0". `seen`: how often nodes had come to it."""

    cursor: str
    seen: int
    pairs: list[str]


_ROUTES: Final = Face("views/routes", Routes)
_ROUTED: Final = Face("views/routed", RoutedPairs)


async def read_routes(engine: Engine, pairs: Sequence[str] = ()) -> Routes:
    """All cells, and the ways to these pairs."""
    answer = await _ROUTES(engine, DIRECTORY, pack((list(pairs),)))
    assert isinstance(answer, Routes)  # noqa: S101 - it refuses nothing
    return answer


async def read_routed(
    engine: Engine, cell: str, cursor: str = "0", count: int = ROUTES_PER_PAGE
) -> RoutedPairs | Refusal:
    """A page of what a cell serves, as the directory has it."""
    try:
        item = pack((check_cell(cell), check_cursor(cursor), check_int("count", count, 1, 10_000)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _ROUTED(engine, DIRECTORY, item)
    assert isinstance(answer, RoutedPairs)  # noqa: S101 - it refuses nothing
    return answer
