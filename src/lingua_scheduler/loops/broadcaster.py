"""The broadcaster: tells whoever watches the fleet what has changed, while anybody does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.loops.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Broadcaster(Loop):
    """One look for all of them."""

    def __init__(self, interval_ms: int, step: Callable[[], Awaitable[None]]) -> None:
        super().__init__(interval_ms)
        self._step = step

    async def turn(self) -> bool:
        """One look, if anybody watches."""
        await self._step()
        return False
