"""homes: the nodes that have a home, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cursor, check_int
from lingua_scheduler.core.records import Home
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

HOMES_PER_PAGE: Final = 200


class Homes(Answer, frozen=True, tag="HOMES"):
    """A page; the last one's cursor is "0"."""

    cursor: str
    homes: list[tuple[str, Home]]


_HOMES: Final = Face("views/homes", Homes)


async def read_homes(engine: Engine, cursor: str = "0", count: int = HOMES_PER_PAGE) -> Homes | Refusal:
    """Look at about `count` nodes, from `cursor` on."""
    try:
        item = pack((check_cursor(cursor), check_int("count", count, 1, 10_000)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _HOMES(engine, DIRECTORY, item)
    assert isinstance(answer, Homes)  # noqa: S101 - it refuses nothing
    return answer
