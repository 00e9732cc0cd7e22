"""The watcher: notices that the engine came back empty, and has everything entered again that this instance holds.

It also hears what time it is there.
"""

from __future__ import annotations

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
    """A cell that has a schema has been set up. One that has none any more was emptied, whoever did that.

    With each look the clock is set.
    """

    def __init__(
        self, engine: Engine, cell: str, interval_ms: int, refill: Callable[[], Awaitable[None]], clock: Clock
    ) -> None:
        super().__init__(interval_ms)
        self._engine = engine
        self._cell = cell
        self._refill = refill
        self._clock = clock

    async def turn(self) -> bool:
        """Look once. What `refill` could not do is left to the next turn: the schema is what it writes last."""
        asked_ms = self._clock.local()
        schema = await read_schema(self._engine, self._cell)
        assert isinstance(schema, Schema)  # noqa: S101 - the cell has a name
        self._clock.heard(schema.now_ms, asked_ms)
        if schema.written == 0:
            log.warning("the engine is empty: nodes and sessions are entered again")
            await self._refill()
        return False
