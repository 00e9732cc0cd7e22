"""Sessions that have nothing to do just now: the one that was used last is used next, and what is too much goes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lingua_scheduler.sdk.client_link import Link

#: So many wait for something to do; and all but one no longer than this.
MOST: Final = 8
IDLE_S: Final = 60.0
#: How long the scheduler may take to let one go.
_LEAVE_S: Final = 5.0


class Idle:
    """They are given back one by one, so that an app that was busy once does not keep the scheduler's sessions."""

    def __init__(self) -> None:
        #: In the order in which they had nothing to do any more, each with what will give it back.
        self._links: dict[Link, asyncio.TimerHandle] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def add(self, link: Link) -> None:
        """It has nothing to do."""
        self._links[link] = asyncio.get_running_loop().call_later(IDLE_S, self._give_back, link)
        if len(self._links) > MOST:
            self._give_back(next(iter(self._links)))

    def take(self) -> Link | None:
        """One that goes on; None: there is none."""
        while self._links:
            link, timer = self._links.popitem()
            timer.cancel()
            if not link.conversation.is_done:
                return link
            self._leave(link)
        return None

    async def close(self) -> None:
        """Give back all of them."""
        while self._links:
            link, timer = self._links.popitem()
            timer.cancel()
            self._leave(link)
        if self._leaving:
            await asyncio.wait(self._leaving)

    def _give_back(self, link: Link) -> None:
        """The last one stays: who comes next need not wait for a connection."""
        if len(self._links) > 1:
            self._links.pop(link).cancel()
            self._leave(link)

    def _leave(self, link: Link) -> None:
        # One that is just then without a connection has nothing that is worth another.
        leaving = asyncio.create_task(link.close(_LEAVE_S) if link.conversation.is_open else link.hang_up())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
