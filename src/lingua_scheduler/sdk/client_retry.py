"""When to try again: full jitter, so that those who lost their sockets together do not come back together."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: The first pause is at most so long, and each is at most twice the one before.
FIRST_S: Final = 0.25
LONGEST_S: Final = 5.0


class Retry:
    """One row of tries, until one succeeds."""

    def __init__(self, draw: Callable[[], float] = random.random) -> None:
        """`draw` gives a number from 0 to 1."""
        self._draw = draw
        self._tries = 0

    def succeeded(self) -> None:
        """The next failure is the first."""
        self._tries = 0

    def pause_s(self, at_least_s: float = 0.0) -> float:
        """How long to wait after this failure. What the other side asked for comes before any chance."""
        longest = min(LONGEST_S, FIRST_S * 2.0 ** min(self._tries, 16))
        self._tries += 1
        return at_least_s + longest * self._draw()
