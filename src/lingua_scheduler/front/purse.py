"""Tokens of a bucket that were taken out ahead of those who will need them: one call of the engine for several.

Whoever comes often takes out more at a time, whoever does not takes one. So hardly a token lies here that nobody needs,
while somebody at another instance is refused for the lack of it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    #: So many are wanted: how many there were, one at least.
    TakeOut = Callable[[int], Awaitable[int | Refusal]]

#: At most so many at a time, and at most this part of what the bucket holds.
MOST: Final = 512
PART: Final = 16
#: Whoever has spent all and comes back within this time comes often.
OFTEN_S: Final = 0.5
#: What was not spent by then is nobody's any more.
KEPT_S: Final = 5.0


class Purse:
    """What is left of what was taken out of one bucket, which holds at most `burst`."""

    def __init__(self, burst: int, clock: Callable[[], float]) -> None:
        self._most = min(MOST, max(1, burst // PART))
        self._clock = clock
        self._left = 0
        self._size = 1
        self._fetched_s = -KEPT_S
        #: Done when whoever fetches several is back: whether he got as many as he wanted.
        self._fetching: asyncio.Future[bool] | None = None

    def spend(self) -> bool:
        """Whether there was a token left; it is spent."""
        if self._left == 0 or self._clock() >= self._fetched_s + KEPT_S:
            return False
        self._left -= 1
        return True

    async def fetch(self, take_out: TakeOut) -> Refusal | None:
        """A token out of the bucket for whoever found none here, and some for those who follow. None: he has it.

        While somebody fetches several, everybody else waits for him, and for the next one if that was not enough. If
        there are not so many any more, everybody fetches one for himself: what is refused is refused as if there were
        no purse.
        """
        while self._fetching is not None:
            there_are_more = await asyncio.shield(self._fetching)
            if self.spend():
                return None
            if not there_are_more:
                return await _fetch_one(take_out)
        number = self._next_size()
        if number > 1:
            if not isinstance(await self._fetch_several(number, take_out), Refusal):
                return None
            self._size = 1
        return await _fetch_one(take_out)

    async def _fetch_several(self, number: int, take_out: TakeOut) -> int | Refusal:
        fetching = self._fetching = asyncio.get_running_loop().create_future()
        taken: int | Refusal = 0
        try:
            taken = await take_out(number)
            if not isinstance(taken, Refusal):
                self._left, self._fetched_s = taken - 1, self._clock()
            return taken
        finally:
            self._fetching = None
            fetching.set_result(taken == number)

    def _next_size(self) -> int:
        """Twice as many as the last time, if that was a moment ago."""
        now_s = self._clock()
        is_often = now_s < self._fetched_s + OFTEN_S
        self._size, self._fetched_s = min(self._size * 2, self._most) if is_often else 1, now_s
        self._left = 0
        return self._size


async def _fetch_one(take_out: TakeOut) -> Refusal | None:
    taken = await take_out(1)
    return taken if isinstance(taken, Refusal) else None
