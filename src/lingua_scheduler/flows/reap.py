"""reap: settle everything overdue in a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

#: A settled entry costs 10 to 60 µs of the engine's time: a full reap holds it up for a few milliseconds, and for
#: longer where jobs wait, since an entry may look at 64 of them or find them a node.
REAP_LIMIT: Final = 100


class Settled(Answer, frozen=True, tag="SETTLED"):
    """How many entries were settled, and whether more are due."""

    number: int
    more: bool


_REAP: Final = Face("flows/reap", Settled)


async def reap(engine: Engine, cell: str, limit: int = REAP_LIMIT) -> Settled | Refusal:
    """Settle at most `limit` entries of the cell's due-list. Any number of reapers may do so at once."""
    try:
        item = pack((check_int("limit", limit, 1, 10_000),))
        cell = check_cell(cell)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _REAP(engine, cell, item)
    assert isinstance(answer, Settled)  # noqa: S101 - it refuses nothing
    return answer
