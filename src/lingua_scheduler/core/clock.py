"""The engine's clock, as far as a process knows it without asking: its own, moved by what the engine last said."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def wall_ms() -> int:
    """This machine's own clock."""
    return time.time_ns() // 1_000_000


class Clock:
    """Calling it gives the time. Until the engine has said something, that is the machine's own."""

    def __init__(self, local: Callable[[], int] = wall_ms) -> None:
        self.local = local
        self._ahead_ms = 0
        self._heard_ms = local()

    @property
    def silent_ms(self) -> int:
        """How long ago the engine last said what time it is."""
        return max(0, self.local() - self._heard_ms)

    def __call__(self) -> int:
        """Now, by the engine's clock."""
        return self.local() + self._ahead_ms

    def heard(self, engine_ms: int, asked_ms: int) -> None:
        """The engine said what time it is, when asked at `asked_ms` of the own clock: some time between then and now.

        What is known already stays if it may be right, so that time does not jump to and fro with each answer.
        """
        self._heard_ms = self.local()
        earliest_ms, latest_ms = engine_ms - self.local(), engine_ms - asked_ms
        if not earliest_ms <= self._ahead_ms <= latest_ms:
            self._ahead_ms = (earliest_ms + latest_ms) // 2
