"""The pieces of a turn, one after the other: the next one is placed when it is known where the last one went.

Pieces that come at once would all find that nobody has the turn yet, and scatter. Between processes they still can:
what is remembered of a session is a hint.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Turns:
    """The turns of which a piece is being placed in this process, each with a lock and how many want it."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, str], tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def after_the_last(self, session_id: str, bind_key: str) -> AsyncIterator[None]:
        """Alone with this turn; jobs without a turn do not wait for each other."""
        if not bind_key:
            yield
            return
        turn = (session_id, bind_key)
        lock, wanted = self._locks.get(turn, (asyncio.Lock(), 0))
        self._locks[turn] = (lock, wanted + 1)
        try:
            async with lock:
                yield
        finally:
            lock, wanted = self._locks.pop(turn)
            if wanted > 1:
                self._locks[turn] = (lock, wanted - 1)
