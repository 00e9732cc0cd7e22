"""How long something took lately, as people ask for it."""

from __future__ import annotations

from collections import deque
from typing import Final

from lingua_scheduler.core.meters import SHORT_S, Histogram
from lingua_scheduler.protocol.fleet import Percentiles

#: Of so many the percentiles are: enough for the 99th, little enough to sort now and then.
WINDOW: Final = 1_024


class Durations:
    """The last of them, in milliseconds."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=WINDOW)
        #: All of them.
        self.histogram = Histogram(SHORT_S)

    def add(self, took_ms: float) -> None:
        """One more."""
        self._last.append(took_ms)
        self.histogram.add(took_ms / 1_000)

    def percentiles(self) -> Percentiles:
        """The usual three."""
        ordered = sorted(self._last)

        def at(share: float) -> float | None:
            return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 3) if ordered else None

        return Percentiles(p50=at(0.50), p95=at(0.95), p99=at(0.99))
