"""What is counted and timed where it happens, for whoever asks later. Nothing here knows who that is."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import Final

#: Upper ends of the buckets, in seconds: of what takes milliseconds, and of what takes seconds.
SHORT_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
LONG_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Histogram:
    """How often something took how long. It only grows."""

    __slots__ = ("_counts", "bounds_s", "sum_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        self.sum_s = 0.0
        self._counts = [0] * (len(bounds_s) + 1)

    def add(self, seconds: float, times: int = 1) -> None:
        """It took so long, so many times."""
        self._counts[bisect_left(self.bounds_s, seconds)] += times
        self.sum_s += seconds * times

    @property
    def total(self) -> int:
        """How often in all."""
        return sum(self._counts)

    def up_to(self) -> list[tuple[float, int]]:
        """Each bound, and how often it took that long at most; the last one is infinite."""
        return list(zip((*self.bounds_s, float("inf")), accumulate(self._counts), strict=True))


class CallMeter:
    """The calls of one script: how long they took from being asked for to being answered, and how many failed."""

    __slots__ = ("failed", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(SHORT_S)
        #: By the kind of the failure.
        self.failed: Counter[str] = Counter()
