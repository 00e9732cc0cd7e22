"""The surveyor: compares the directory with the cells, and puts right what somebody, or an engine, has lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.loops.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Surveyor(Loop):
    """A part at a time. Every instance runs one; any of them is enough."""

    def __init__(self, interval_ms: int, survey: Callable[[], Awaitable[None]]) -> None:
        super().__init__(interval_ms)
        self._survey = survey

    async def turn(self) -> bool:
        """The next part."""
        await self._survey()
        return False
