"""The watcher: notices that the engine came back empty, and has everything entered again that this instance holds.

It also hears what time it is there.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from lingua_scheduler.loops.loop import Loop
from lingua_scheduler.views.schema import Schema, read_schema

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.core.clock import Clock
    from lingua_scheduler.store.engine import Engine

log = logging.getLogger(__name__)


class Watcher(Loop):
    """A cell has a birth. One with another birth than the one we knew was emptied, whoever did that.

    Each instance compares for itself: the one that sees it first begins the cell anew, and all of them see that.
    With each look the clock is set.
    """

    def __init__(
        self,
        engine: Engine,
        cell: str,
        interval_ms: int,
        *,
        begin: Callable[[], Awaitable[int]],
        refill: Callable[[], Awaitable[None]],
        clock: Clock,
        settle_ms: int = 0,
    ) -> None:
        """`settle_ms`: for so long nodes may come back by themselves that nobody here holds."""
        super().__init__(interval_ms)
        self._engine = engine
        self._cell = cell
        self._begin = begin
        self._refill = refill
        self._clock = clock
        self._settle_ms = settle_ms
        self._birth: int | None = None
        self._entering = asyncio.Lock()
        #: Until when, on this machine, not all that was there may be there again.
        self._settled_ms = 0

    async def is_refilling(self) -> bool:
        """Whether the cell was emptied just now: what is not in it may be on its way. Asked before a final no."""
        await self.turn()
        return self._clock.local() < self._settled_ms

    async def turn(self) -> bool:
        """Look once. `begin` marks a cell that is empty and says its birth; the first one that is seen is ours.

        A birth is known when everything is entered again: what `refill` could not do is left to the next turn.
        """
        asked_ms = self._clock.local()
        schema = await read_schema(self._engine, self._cell)
        assert isinstance(schema, Schema)  # noqa: S101 - the cell has a name
        self._clock.heard(schema.now_ms, asked_ms)
        if schema.birth != self._birth:
            async with self._entering:
                await self._enter()
        return False

    async def _enter(self) -> None:
        birth = await self._begin()
        if birth == self._birth:
            # Somebody who saw it, too, was faster.
            return
        if self._birth is not None:
            log.warning("the engine was emptied: nodes and sessions are entered again")
            self._settled_ms = self._clock.local() + self._settle_ms
            await self._refill()
        self._birth = birth
