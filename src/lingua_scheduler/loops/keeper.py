"""The keeper: beats for every node whose socket is open here, because a live socket is a live node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.loops.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Keeper(Loop):
    """However seldom the nodes themselves beat."""

    def __init__(self, interval_ms: int, keep_all: Callable[[], Awaitable[None]]) -> None:
        super().__init__(interval_ms)
        self._keep_all = keep_all

    async def turn(self) -> bool:
        """One beat for each of them."""
        await self._keep_all()
        return False
