"""Bells: whoever waits for news of something by its name is woken when there is some."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Bells:
    """One for each name that somebody listens for."""

    def __init__(self) -> None:
        self._bells: dict[str, set[asyncio.Event]] = {}

    def __len__(self) -> int:
        return len(self._bells)

    def ring(self, name: str) -> None:
        """There is news. Who listens hears it, also if he is not waiting just now."""
        for bell in self._bells.get(name, ()):
            bell.set()

    def ring_all(self) -> None:
        """Nobody waits any longer than he must."""
        for name in list(self._bells):
            self.ring(name)

    @contextlib.contextmanager
    def listening(self, name: str) -> Iterator[asyncio.Event]:
        """Listen first, then look, then wait: so nothing is missed in between."""
        bell = asyncio.Event()
        bells = self._bells.setdefault(name, set())
        bells.add(bell)
        try:
            yield bell
        finally:
            bells.remove(bell)
            if not bells:
                del self._bells[name]


async def rung(bell: asyncio.Event, within_ms: int) -> bool:
    """Wait for a bell, but no longer than this. Whether it rang; it can ring again."""
    try:
        async with asyncio.timeout(within_ms / 1000):
            await bell.wait()
    except TimeoutError:
        return False
    bell.clear()
    return True
