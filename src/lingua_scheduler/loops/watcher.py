"""The watcher: notices that the engine came back empty, or that another server serves, which may have forgotten a lot.

Then it has everything entered again that this instance holds.

It also hears what time it is there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lingua_scheduler.logs import get_log
from lingua_scheduler.loops.loop import Loop
from lingua_scheduler.views.schema import Schema, read_schema

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from lingua_scheduler.core.clock import Clock
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)


class Watcher(Loop):
    """A cell has a birth. One with another birth than the one we knew was emptied, whoever did that.

    And it has a reign. Under another one than we knew its nodes are doubted until we have entered them again.

    Each instance compares for itself: the one that sees it first begins the cell anew, and all of them see that.
    With each look the clock is set.
    """

    def __init__(
        self,
        engine: Engine,
        cells: Callable[[], Sequence[str]],
        interval_ms: int,
        *,
        begin: Callable[[str], Awaitable[int]],
        refill: Callable[[Collection[str]], Awaitable[None]],
        clock: Clock,
        settle_ms: int = 0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`cells` are those that are watched; `refill` is told which were emptied; `tell`, what happened, in a word.

        `settle_ms`: for so long nodes may come back by themselves that nobody here holds.
        """
        super().__init__(interval_ms)
        self._engine = engine
        self._cells = cells
        self._begin = begin
        self._refill = refill
        self._clock = clock
        self._settle_ms = settle_ms
        self._tell = tell
        self._births: dict[str, int] = {}
        self._reigns: dict[str, int] = {}
        self._entering = asyncio.Lock()
        #: Until when, on this machine, not all that was there may be there again.
        self._settled_ms = 0

    async def is_refilling(self) -> bool:
        """Whether a cell was emptied just now: what is not in it may be on its way. Asked before a final no."""
        await self.turn()
        return self._clock.local() < self._settled_ms

    async def turn(self) -> bool:
        """Look once. `begin` marks a cell that is empty and says its birth; the first one that is seen is ours.

        A birth is known when everything is entered again: what `refill` could not do is left to the next turn.
        """
        asked_ms, cells = self._clock.local(), self._cells()
        schemas = await self._read(cells)
        births = {cell: schema.birth for cell, schema in schemas.items()}
        reigns = {cell: schema.reign for cell, schema in schemas.items()}
        self._clock.heard(schemas[cells[0]].now_ms, asked_ms)
        if any(birth != self._births.get(cell) for cell, birth in births.items()):
            async with self._entering:
                await self._enter([cell for cell, birth in births.items() if birth != self._births.get(cell)])
        elif reigns != self._reigns:
            async with self._entering:
                await self._enter_under(reigns)
        return False

    async def _read(self, cells: Sequence[str]) -> dict[str, Schema]:
        found = await asyncio.gather(*(read_schema(self._engine, cell) for cell in cells))
        return {cell: schema for cell, schema in zip(cells, found, strict=True) if isinstance(schema, Schema)}

    async def _enter(self, cells: Sequence[str]) -> None:
        births = {cell: await self._begin(cell) for cell in cells}
        # Who serves it from its first moment on: whoever is the next must be seen to be another.
        reigns = {cell: schema.reign for cell, schema in (await self._read(cells)).items()}
        # Somebody who saw it, too, may have been faster.
        emptied = [cell for cell in births if self._births.get(cell, births[cell]) != births[cell]]
        if emptied:
            log.warning("watcher", reason="the engine was emptied", detail="nodes and sessions are entered again")
            self._tell("engine_emptied")
            self._settled_ms = self._clock.local() + self._settle_ms
            await self._refill(emptied)
        self._births |= births
        self._reigns |= reigns

    async def _enter_under(self, reigns: dict[str, int]) -> None:
        """A cell whose first reign this is was served by nobody else before."""
        fallen = [cell for cell, reign in reigns.items() if self._reigns.get(cell, 0) not in {0, reign}]
        if fallen:
            reason = "another server has taken over the engine, or it was restarted"
            log.warning("watcher", reason=reason, detail="nodes and sessions are entered again")
            self._tell("engine_taken_over")
            await self._refill(fallen)
        self._reigns = reigns
