"""history: how the fleet was in the last hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.history import STRETCH_MS, Point
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class _History(Answer, frozen=True, tag="HISTORY"):
    now_ms: int
    points: list[tuple[int, Point]]


_HISTORY: Final = Face("views/history", _History)


async def read_history(engine: Engine) -> list[tuple[int, Point]]:
    """When each stretch of time began, and how the fleet was then, the oldest first. Stretches may be missing."""
    answer = await _HISTORY(engine, DIRECTORY, pack(()))
    assert isinstance(answer, _History)  # noqa: S101 - it refuses nothing
    return [(stretch * STRETCH_MS, point) for stretch, point in sorted(answer.points, key=lambda one: one[0])]
