"""doubt: another server serves, and may have forgotten what the last one knew."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_bool, check_cell, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lingua_scheduler.store.engine import Engine


class Doubted(Answer, frozen=True, tag="DOUBTED"):
    """So many nodes are not chosen until they were heard of anew."""

    nodes: int


_DOUBT: Final = Face("flows/doubt", Doubted)


async def doubt(engine: Engine, cell: str, reign: str, *, is_back: bool = False) -> Doubted | Refusal:
    """The cell is served under this reign. If it is another than before, every node must be heard of anew.

    `is_back`: whoever says so had lost the engine, and has things to tell that he could not. So no job is taken for
    late for a moment (`nodes.confirm_after_ms`).
    """
    try:
        cell = check_cell(cell)
        item = _item(check_text("reign", reign, 128), is_back=check_bool("is_back", is_back))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _DOUBT(engine, cell, item)
    assert isinstance(answer, Doubted)  # noqa: S101 - it refuses nothing
    return answer


def doubt_first(engine: Engine, cells: Callable[[], Iterable[str]]) -> None:
    """From now on every new connection of this client asks that, of each of these cells, before anything else."""
    engine.enter_with(_DOUBT.script, cells, lambda reign: (_item(reign, is_back=True),))


def _item(reign: str, *, is_back: bool) -> bytes:
    return pack((_number_of(reign), is_back))


def _number_of(reign: str) -> int:
    """As it is kept among the counts of a cell: never 0, and exact in Lua."""
    return int(hashlib.sha256(reign.encode()).hexdigest()[:13], 16) | 1
