"""What is counted and timed where it happens, for whoever asks later. Nothing here knows who that is."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

from lingua_scheduler.core.ids import made_at_ms

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


#: What a node may say of how long each part of its work took; `node` is all of it.
STAGES: Final = ("asr", "semantic", "nmt", "tts", "node")
#: Nothing a node does takes longer: a greater number is a mistake, and would spoil every average.
_MOST_STAGE_MS: Final = 3_600_000


class JobTimes:
    """How long jobs took, as far as one instance sees it. When a job was made its id says."""

    __slots__ = ("queued", "stages", "total")

    def __init__(self) -> None:
        self.queued = Histogram(LONG_S)
        self.total = Histogram(LONG_S)
        self.stages = {stage: Histogram(LONG_S) for stage in STAGES}

    def told(self, job_id: str, now_ms: int) -> None:
        """Its first node has been told of it."""
        _since(self.queued, job_id, now_ms)

    def ended(self, job_id: str, at_ms: int) -> None:
        """It is over."""
        _since(self.total, job_id, at_ms)

    def worked(self, extra: Mapping[str, Any] | None, spent_ms: object) -> None:
        """What the node says of its own work: in `extra`, or in the `service_timings` there."""
        if not extra and not spent_ms:
            return
        extra = extra or {}
        timed = extra.get("service_timings")
        said = {**extra, **timed} if isinstance(timed, Mapping) else extra
        for stage, histogram in self.stages.items():
            took_ms = said.get(f"{stage}_ms") if stage != "node" else spent_ms or said.get("total_ms")
            if isinstance(took_ms, int | float) and 0 <= took_ms <= _MOST_STAGE_MS:
                histogram.add(took_ms / 1_000)


def _since(histogram: Histogram, job_id: str, now_ms: int) -> None:
    made_ms = made_at_ms(job_id)
    if made_ms is not None:
        # Two clocks may differ a little.
        histogram.add(max(0, now_ms - made_ms) / 1_000)


class CallMeter:
    """The calls of one script: how long they took from being asked for to being answered, and how many failed."""

    __slots__ = ("failed", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(SHORT_S)
        #: By the kind of the failure.
        self.failed: Counter[str] = Counter()
