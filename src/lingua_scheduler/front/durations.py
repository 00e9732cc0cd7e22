"""How long something took lately, as people ask for it."""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.meters import SHORT_S, Histogram
from lingua_scheduler.core.sketch import bucket_of, percentile
from lingua_scheduler.protocol.fleet import Percentiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lingua_scheduler.core.sketch import Sketch

#: Lately is so long ago at most: the same for all instances, or a busy one would count as little as an idle one.
WINDOW_S: Final = 60.0
#: They are sorted into buckets when somebody looks, which is every few seconds; of more than these, the newest.
_MOST: Final = 16_384
#: What was looked at within so long is forgotten together.
_PART_S: Final = 1.0


class Durations:
    """Of one instance, in milliseconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` tells seconds."""
        self._clock = clock
        self._new: deque[float] = deque(maxlen=_MOST)
        self._parts: deque[tuple[float, Counter[int]]] = deque()
        #: All of them.
        self.histogram = Histogram(SHORT_S)

    def add(self, took_ms: float) -> None:
        """One more. This is on the way of a dispatch: what it is good for is thought about later."""
        self._new.append(took_ms)
        self.histogram.add(took_ms / 1_000)

    def lately(self) -> list[tuple[int, int]]:
        """A sketch of the last minute."""
        now = self._clock()
        while self._parts and now - self._parts[0][0] >= WINDOW_S:
            self._parts.popleft()
        if not self._parts or now - self._parts[-1][0] >= _PART_S:
            self._parts.append((now, Counter()))
        while self._new:
            self._parts[-1][1][bucket_of(self._new.popleft())] += 1
        together: Counter[int] = Counter()
        for _, part in self._parts:
            together.update(part)
        return sorted(together.items())


def percentiles(sketches: Collection[Sketch]) -> Percentiles:
    """The usual three of all these together."""
    return Percentiles(p50=percentile(sketches, 0.50), p95=percentile(sketches, 0.95), p99=percentile(sketches, 0.99))
