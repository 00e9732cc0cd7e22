"""A background loop: one small job, done over and over, that outlives every outage of the engine."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.logs import get_log

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from lingua_scheduler.core.refusal import Refusal

#: A turn that fails for a reason nobody foresaw is not tried again at once: it would only fill the log.
_PAUSE_S: Final = 1.0

log = get_log(__name__)


class Loop(ABC):
    """Runs `turn` at its interval, at once while there is more to do. Start and stop are the same for all loops."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_s = interval_ms / 1000
        self._task: asyncio.Task[None] | None = None
        #: Done when there may be something to do before the interval is over.
        self._rest: asyncio.Future[None] | None = None
        self._is_woken = False
        #: Turns that the engine's absence has cost; the work is still there when it is back.
        self.missed_turns = 0
        #: Turns that failed for any other reason; each is in the log.
        self.failed_turns = 0

    def wake(self) -> None:
        """There is something to do: the next turn follows at once."""
        self._is_woken = True
        self._rise()

    def pace(self, interval_ms: float) -> None:
        """From the next turn on at this interval."""
        self._interval_s = interval_ms / 1000

    def _rise(self) -> None:
        if self._rest is not None and not self._rest.done():
            self._rest.set_result(None)

    async def _sleep(self, for_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._rest = loop.create_future()
        timer = loop.call_later(for_s, self._rise)
        try:
            await self._rest
        finally:
            timer.cancel()
            self._rest = None

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
            self._is_woken = False
            try:
                if not (await self.turn() or self._is_woken):
                    await self._sleep(self._interval_s)
            except (DependencyDown, OutcomeUnknown):
                # Both are safe here: what a turn does, it can do again. Nobody who has news makes it more urgent.
                self.missed_turns += 1
                await asyncio.sleep(self._interval_s)
            except Exception:
                # A loop that died would be missed by nobody until jobs hang: it says what is wrong and goes on.
                self.failed_turns += 1
                log.exception(
                    "loop", name=type(self).__name__, detail="a turn failed; the next follows", seconds=_PAUSE_S
                )
                await asyncio.sleep(max(self._interval_s, _PAUSE_S))


def refused(refusal: Refusal) -> LinguaError:
    """A loop names only its own cell, so a refusal is a mistake of whoever set it up."""
    return LinguaError(f"a loop was refused: {refusal.detail}")
