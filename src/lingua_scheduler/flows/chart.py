"""chart: how the fleet is now, for the curves of the last hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.store.face import Answer, Face
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from lingua_scheduler.core.history import Point
    from lingua_scheduler.store.engine import Engine


class Charted(Answer, frozen=True, tag="CHARTED"):
    """It is kept for an hour."""


_CHART: Final = Face("flows/chart", Charted)


async def chart(engine: Engine, point: Point) -> Charted:
    """Say how the fleet is; whoever says it last in a stretch of time is right, but for the slowest dispatch."""
    answer = await _CHART(engine, DIRECTORY, msgspec.msgpack.encode(point))
    assert isinstance(answer, Charted)  # noqa: S101 - it refuses nothing
    return answer
