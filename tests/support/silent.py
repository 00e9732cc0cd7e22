"""Somebody who takes every socket and never says a word."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from websockets.asyncio.server import serve

from tests.support.people import PATIENCE_S

if TYPE_CHECKING:
    from typing import Self

    from websockets.asyncio.server import ServerConnection


class Silent:
    """At a port of its own."""

    def __init__(self) -> None:
        self._taken = 0
        self._more = asyncio.Condition()

    async def _take(self, socket: ServerConnection) -> None:
        async with self._more:
            self._taken += 1
            self._more.notify_all()
        await socket.wait_closed()

    async def __aenter__(self) -> Self:
        self._server = await serve(self._take, "127.0.0.1", 0)
        self.port: int = next(iter(self._server.sockets)).getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def took(self, number: int) -> None:
        """Wait for so many sockets."""
        async with self._more, asyncio.timeout(PATIENCE_S):
            await self._more.wait_for(lambda: self._taken >= number)
