"""The reaper: settles what is overdue. Every instance runs one; any of them is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.loops.loop import Loop, refused

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Reaper(Loop):
    """Sweeps a cell's due-list."""

    def __init__(self, engine: Engine, cell: str, interval_ms: int) -> None:
        super().__init__(interval_ms)
        self._engine = engine
        self._cell = cell

    async def turn(self) -> bool:
        """Settle one portion."""
        settled = await reap(self._engine, self._cell)
        if isinstance(settled, Refusal):
            raise refused(settled)
        return settled.more
