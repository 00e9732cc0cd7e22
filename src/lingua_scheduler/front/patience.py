"""How long somebody has for what he owes us: one timer, however often that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

#: A timer that rings so much too late says that this process slept.
_NAP_S: Final = 0.05


class Patience:
    """Calls `is_late` when the time is over. The timer may ring before, never later: then it looks again."""

    __slots__ = ("_is_late", "_loop", "_rings_at", "_timer", "due")

    def __init__(self, loop: asyncio.AbstractEventLoop, is_late: Callable[[], None]) -> None:
        self._loop = loop
        self._is_late = is_late
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        #: Until when there is time; None: nothing is owed.
        self.due: float | None = None

    def give(self, time_ms: int) -> None:
        """So much time from now on. A timer that rings before that is left alone."""
        self.due = self._loop.time() + time_ms / 1000
        if self._timer is None or self._rings_at > self.due:
            self._set_timer(self.due)

    def end(self) -> None:
        """Nothing is owed any more, and nothing will be. Whoever was to be called is not held."""
        self.due = None
        self._is_late = lambda: None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = due
        self._timer = self._loop.call_later(max(0.0, due - self._loop.time()), self._look)

    def _look(self) -> None:
        """Whether what is owed is late. While this process slept it was not to blame: it may lie there unread."""
        self._timer = None
        if self.due is None:
            return
        slept = self._loop.time() - self._rings_at
        if slept > _NAP_S:
            self.due += slept
        if self._loop.time() < self.due:
            self._set_timer(self.due)
        else:
            self._is_late()
