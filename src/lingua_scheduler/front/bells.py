"""Bells: whoever waits for news of something by its name is woken when there is some."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class Bells:
    """One for each who listens for a name."""

    def __init__(self) -> None:
        self._bells: dict[str, set[Bell]] = {}

    def __len__(self) -> int:
        return len(self._bells)

    def ring(self, name: str, news: object = None) -> None:
        """There is news: which, if it is known. Who listens hears it, also if he is not waiting just now."""
        for bell in self._bells.get(name, ()):
            bell.ring(news)

    def ring_all(self) -> None:
        """Nobody waits any longer than he must."""
        for name in list(self._bells):
            self.ring(name)

    def listening(self, name: str) -> Bell:
        """Listen first, then look, then wait: so nothing is missed in between."""
        return Bell(self._bells, name)


class Bell:
    """That of one listener, from entering to leaving."""

    __slots__ = ("_all", "_has_rung", "_name", "_waiter", "news")

    def __init__(self, bells: dict[str, set[Bell]], name: str) -> None:
        self._all = bells
        self._name = name
        self._has_rung = False
        self._waiter: asyncio.Future[None] | None = None
        #: What was told last, if anything was.
        self.news: object = None

    def __enter__(self) -> Self:
        bells = self._all.get(self._name)
        if bells is None:
            self._all[self._name] = {self}
        else:
            bells.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        bells = self._all[self._name]
        bells.discard(self)
        if not bells:
            del self._all[self._name]

    def ring(self, news: object = None) -> None:
        """There is news."""
        self._has_rung = True
        if news is not None:
            self.news = news
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, within_ms: int) -> bool:
        """Wait for news, but no longer than this. Whether there was some; it can ring again."""
        if not self._has_rung:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(within_ms / 1000, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
        has_rung, self._has_rung = self._has_rung, False
        return has_rung
