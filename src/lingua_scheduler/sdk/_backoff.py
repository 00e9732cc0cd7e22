"""When to try again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: The first pause is at most so long, which is within the grace that a scheduler gives to a broken socket. Each later
#: one is at most twice as long as the one before, but no longer than the last of these: a scheduler that restarts
#: leaves a node its jobs for ten seconds.
FIRST_S: Final = 0.2
LONGEST_S: Final = 5.0
#: What a scheduler asks for is believed up to here.
MOST_ASKED_S: Final = 60.0


class Backoff:
    """One row of tries. Each pause is any moment up to a bound that doubles (full jitter), so that those who lost the
    same scheduler do not all come back at once; and what the scheduler asked for comes before that, so that nobody
    comes earlier.
    """

    def __init__(self, draw: Callable[[], float] = random.random) -> None:
        """`draw` gives a number from 0 to 1."""
        self._draw = draw
        self._failures = 0

    def next_s(self, at_least_s: float | None = None) -> float:
        """How long to wait after this failure. `at_least_s`: what the scheduler asked for, if it did."""
        bound_s = min(LONGEST_S, FIRST_S * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return min(max(at_least_s or 0.0, 0.0), MOST_ASKED_S) + bound_s * self._draw()

    def reset(self) -> None:
        """It went well: the next failure is the first."""
        self._failures = 0
