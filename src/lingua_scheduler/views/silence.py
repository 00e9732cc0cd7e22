"""silence: how many nodes of a cell are silent, and how many are heard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Silence(Answer, frozen=True, tag="SILENCE"):
    """Those who are lost are neither."""

    silent: int
    heard: int


_SILENCE: Final = Face("views/silence", Silence)


async def read_silence(engine: Engine, cell: str) -> Silence | Refusal:
    """Who of a cell is heard."""
    try:
        cell = check_cell(cell)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _SILENCE(engine, cell, pack(()))
    assert isinstance(answer, Silence)  # noqa: S101 - it refuses nothing
    return answer
