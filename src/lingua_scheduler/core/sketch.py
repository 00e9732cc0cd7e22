"""How long something took lately, as a few numbers that several instances can add up.

A bucket is a step of 5 %: whoever adds the sketches of all and asks for a percentile is right to within 2.5 %, which
an average of everybody's percentiles is not.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    #: How often it took how long: buckets that are not empty, and how much is in each.
    Sketch = Iterable[tuple[int, int]]

_STEP: Final = math.log(1.05)
#: What is quicker is as quick as this, in milliseconds.
_LEAST_MS: Final = 0.01


def bucket_of(took_ms: float) -> int:
    """The bucket of something that took so long."""
    return round(math.log(max(took_ms, _LEAST_MS)) / _STEP)


def percentile(sketches: Iterable[Sketch], share: float) -> float | None:
    """So long it took at most in this share of all cases; None: there was none."""
    counts: Counter[int] = Counter()
    for sketch in sketches:
        for bucket, count in sketch:
            counts[bucket] += count
    left = math.ceil(share * counts.total())
    for bucket in sorted(counts):
        left -= counts[bucket]
        if left <= 0:
            return round(math.exp(bucket * _STEP), 3)
    return None
