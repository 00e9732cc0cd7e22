"""stranded: which jobs that wait in a cell could go to a node of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_int, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

#: Of each that waits its record is read.
STRANDED_PER_PAGE: Final = 100
_MAX_CURSOR: Final = 512


class Stranded(Answer, frozen=True, tag="STRANDED"):
    """A page: each job with its pair. The last one's cursor is ""."""

    cursor: str
    jobs: list[tuple[str, str]]


_STRANDED: Final = Face("views/stranded", Stranded)


async def read_stranded(
    engine: Engine, cell: str, cursor: str = "", count: int = STRANDED_PER_PAGE
) -> Stranded | Refusal:
    """Look at the next `count` who wait, by pair and deadline."""
    try:
        cell = check_cell(cell)
        item = pack((check_text("cursor", cursor, _MAX_CURSOR), check_int("count", count, 1, 10_000)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _STRANDED(engine, cell, item)
    assert isinstance(answer, Stranded)  # noqa: S101 - it refuses nothing
    return answer
