"""A background loop: one small job, done over and over, that outlives every outage of the engine."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Loop(ABC):
    """Runs `turn` at its interval, at once while there is more to do. Start and stop are the same for all loops."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_s = interval_ms / 1000
        self._task: asyncio.Task[None] | None = None
        #: Turns that the engine's absence has cost; the work is still there when it is back.
        self.missed_turns = 0

    @abstractmethod
    async def turn(self) -> bool:
        """Do one round. True: there is more to do at once."""

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name=type(self).__name__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            try:
                more = await self.turn()
            except (DependencyDown, OutcomeUnknown):
                # Both are safe here: what a turn does, it can do again.
                self.missed_turns += 1
                more = False
            if not more:
                await asyncio.sleep(self._interval_s)
