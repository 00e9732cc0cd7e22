"""The engine's clock, as far as a process knows it without asking: its own, moved by what the engine last said."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


#: The engine, which is looked at every second, counts as away when nothing was heard of it for so long.
AWAY_MS: Final = 3_000

#: Whoever was awake for so long has read what lay there when it woke.
_AWAKE_MS: Final = 500


def wall_ms() -> int:
    """This machine's own clock."""
    return time.time_ns() // 1_000_000


class Clock:
    """Calling it gives the time. Until the engine has said something, that is the machine's own."""

    def __init__(self, local: Callable[[], int] = wall_ms) -> None:
        self.local = local
        self._ahead_ms = 0
        self._heard_ms = local()
        #: When the engine was heard of late, by its own clock, the last time first; not twice within `_AWAKE_MS`.
        self._awake_ms = (self._heard_ms, self._heard_ms)

    @property
    def silent_ms(self) -> int:
        """How long ago the engine last said what time it is."""
        return max(0, self.local() - self._heard_ms)

    @property
    def awake_ms(self) -> int:
        """What a caller says who is heard now was said after that, by the engine's clock.

        Not that this process slept all the time since: it has been awake for long enough to hear what came meanwhile.
        """
        return self._awake_ms[1]

    def __call__(self) -> int:
        """Now, by the engine's clock."""
        return self.local() + self._ahead_ms

    def heard(self, engine_ms: int, asked_ms: int) -> None:
        """The engine said what time it is, when asked at `asked_ms` of the own clock: some time between then and now.

        What is known already stays if it may be right, so that time does not jump to and fro with each answer.
        """
        self._heard_ms = self.local()
        if abs(engine_ms - self._awake_ms[0]) >= _AWAKE_MS:
            self._awake_ms = (engine_ms, self._awake_ms[0])
        earliest_ms, latest_ms = engine_ms - self.local(), engine_ms - asked_ms
        if not earliest_ms <= self._ahead_ms <= latest_ms:
            self._ahead_ms = (earliest_ms + latest_ms) // 2
