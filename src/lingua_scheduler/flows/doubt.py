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
    """So many nodes are not chosen until they were heard of anew. `next`: there are more, behind this cursor."""

    nodes: int
    next: str = ""


_DOUBT: Final = Face("flows/doubt", Doubted)

#: So many nodes at once: each takes some 10 us in which the engine serves nobody.
PAGE: Final = 100
_FIRST: Final = "0"


async def doubt(engine: Engine, cell: str, reign: str, *, is_back: bool = False) -> Doubted | Refusal:
    """The cell is served under this reign. If it is another than before, every node must be heard of anew.

    `is_back`: whoever says so had lost the engine, and has things to tell that he could not. So no job is taken for
    late for a moment (`nodes.confirm_after_ms`).
    """
    try:
        cell, reign = check_cell(cell), check_text("reign", reign, 128)
        is_back = check_bool("is_back", is_back)
    except Invalid as invalid:
        return invalid.refusal
    nodes, cursor = 0, _FIRST
    while cursor:
        answer = await _DOUBT(engine, cell, _item(reign, cursor, is_back=is_back))
        assert isinstance(answer, Doubted)  # noqa: S101 - it refuses nothing
        nodes, cursor = nodes + answer.nodes, answer.next
    return Doubted(nodes)


def doubt_first(engine: Engine, cells: Callable[[], Iterable[str]]) -> None:
    """From now on every new connection of this client asks that, of each of these cells, before anything else."""

    def next_item(reign: str, answer: bytes | None) -> tuple[bytes] | None:
        cursor = _FIRST if answer is None else _DOUBT.read(answer).next  # type: ignore[union-attr]  # it refuses nothing
        return (_item(reign, cursor, is_back=True),) if cursor else None

    engine.enter_with(_DOUBT.script, cells, next_item)


def _item(reign: str, cursor: str, *, is_back: bool) -> bytes:
    return pack((_number_of(reign), is_back, cursor, PAGE))


def _number_of(reign: str) -> int:
    """As it is kept among the counts of a cell: never 0, and exact in Lua."""
    return int(hashlib.sha256(reign.encode()).hexdigest()[:13], 16) | 1
