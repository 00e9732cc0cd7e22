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
        self._stands = asyncio.Event()
        self._task = asyncio.ensure_future(acts(self))
        self._task.add_done_callback(lambda _: self._stands.set())

    def run(self, script: Script, cell: str, item: tuple[bytes, ...], read: Read = bytes) -> asyncio.Future[Any]:
        """As an engine has it."""
        return asyncio.ensure_future(self._run(script, cell, item, read))

    async def _run(self, script: Script, cell: str, item: tuple[bytes, ...], read: Read) -> object:
        self._stands.set()
        await self._may_go.acquire()
        return await self._engine.run(script, cell, item, read)

    async def step(self) -> None:
        """One call, until it is about to make the next, or is done."""
        await self._stands.wait()
        if not self._task.done():
            self._stands.clear()
            self._may_go.release()
            await self._stands.wait()

    async def die(self) -> None:
        """Nothing more of it."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
