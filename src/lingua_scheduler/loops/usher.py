"""The usher: finds a place in another cell for a job that lost its node and finds no other at home."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.loops.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Usher(Loop):
    """A look at a few cells at a time. Every instance runs one; any of them is enough."""

    def __init__(self, interval_ms: int, look: Callable[[], Awaitable[None]]) -> None:
        super().__init__(interval_ms)
        self._look = look

    async def turn(self) -> bool:
        """The next cells."""
        await self._look()
        return False
