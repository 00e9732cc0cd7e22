"""The snapshot maker: looks at the fleet now and then, so that those who want to see it need not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.loops.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class SnapshotMaker(Loop):
    """One look after the other. What was seen last stays while nobody can look."""

    def __init__(self, interval_ms: int, make: Callable[[], Awaitable[object]]) -> None:
        super().__init__(interval_ms)
        self._make = make

    async def turn(self) -> bool:
        """One look."""
        await self._make()
        return False
