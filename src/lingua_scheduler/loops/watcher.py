"""The watcher: notices that the engine came back empty, and has everything entered again that this instance holds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lingua_scheduler.loops.loop import Loop
from lingua_scheduler.views.schema import read_schema

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.store.engine import Engine

log = logging.getLogger(__name__)


class Watcher(Loop):
    """A cell that has a schema has been set up. One that has none any more was emptied, whoever did that."""

    def __init__(self, engine: Engine, cell: str, interval_ms: int, refill: Callable[[], Awaitable[None]]) -> None:
        super().__init__(interval_ms)
        self._engine = engine
        self._cell = cell
        self._refill = refill

    async def turn(self) -> bool:
        """Look once. What `refill` could not do is left to the next turn: the schema is what it writes last."""
        if await read_schema(self._engine, self._cell) == 0:
            log.warning("the engine is empty: nodes and sessions are entered again")
            await self._refill()
        return False
