"""The end of an instance: one deadline for all that is to be done before, so that no step takes what is another's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: So long after the drain nobody at the doors is waited for any more.
_LAST_S: Final = 2.5
#: So long after the drain the process has ended: what is left then is to say goodbye to the other instances.
OVER_S: Final = 4.5


class Ending:
    """Its time begins when the instance is asked to stop, and not with each step again."""

    def __init__(self, drain_ms: int, clock: Callable[[], float] | None = None) -> None:
        """`clock` counts seconds; without one, the event loop's."""
        self._drain_s = drain_ms / 1000
        self._clock = clock
        self._until_s: float | None = None

    def begin(self) -> None:
        """It is to end. Whoever says so later changes nothing."""
        if self._until_s is None:
            self._until_s = self._now_s() + self._drain_s

    @property
    def drain_s(self) -> float:
        """How long requests may still take."""
        return self._left_s()

    def left_s(self, most_s: float) -> float:
        """How long a step may take that is given so long at most."""
        return min(most_s, self._left_s(_LAST_S))

    def _left_s(self, more_s: float = 0.0) -> float:
        until_s = self._now_s() + self._drain_s if self._until_s is None else self._until_s
        return max(0.0, until_s + more_s - self._now_s())

    def _now_s(self) -> float:
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()
