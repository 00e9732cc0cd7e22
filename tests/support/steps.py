"""A process that makes one call of the engine at a time, when it is told to; and may stop between any two of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.store.batch import Read
    from lingua_scheduler.store.engine import Engine
    from lingua_scheduler.store.scripts import Script


class Paused:
    """Whatever `acts` does, it does a call at a time; `engine` is what it is given in place of the engine."""

    def __init__(self, engine: Engine, acts: Callable[[Any], Awaitable[object]]) -> None:
        self._engine = engine
        self._may_go = asyncio.Semaphore(0)
        self._task = asyncio.ensure_future(acts(self))
        #: Calls that are about to be made, and how many were.
        self._waiting = 0
        self._made = 0

    def run(self, script: Script, cell: str, item: tuple[bytes, ...], read: Read = bytes) -> asyncio.Future[Any]:
        """As an engine has it."""
        return asyncio.ensure_future(self._run(script, cell, item, read))

    def reign_of(self, cell: str) -> str:
        """As an engine has it."""
        return self._engine.reign_of(cell)

    async def _run(self, script: Script, cell: str, item: tuple[bytes, ...], read: Read) -> object:
        self._waiting += 1
        await self._may_go.acquire()
        self._waiting -= 1
        try:
            return await self._engine.run(script, cell, item, read)
        finally:
            self._made += 1

    async def step(self) -> None:
        """One call, until it is about to make the next, or is done."""
        await self._stands()
        if not self._task.done():
            made = self._made
            self._may_go.release()
            while self._made == made:  # noqa: ASYNC110 - nobody rings
                await asyncio.sleep(0)
            await self._stands()

    async def _stands(self) -> None:
        while not (self._waiting or self._task.done()):  # noqa: ASYNC110 - nobody rings
            await asyncio.sleep(0)

    async def die(self) -> None:
        """Nothing more of it."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
