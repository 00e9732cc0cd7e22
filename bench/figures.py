"""What is made of samples: medians, percentiles, ratios of what was measured in the same round. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: A sample of each round; None where there is none.
Rounds = Sequence[float | None]


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of the values do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(len(ranked) * percent / 100) - 1)]


def median(samples: Iterable[float | None]) -> float | None:
    """The median of the samples that there are."""
    known = [sample for sample in samples if sample is not None]
    return statistics.median(known) if known else None


def ratio(ours: Rounds, theirs: Rounds) -> float | None:
    """How many times theirs ours is: the median over the rounds in which there is both. None if there is no such."""
    return median(our / their for our, their in zip(ours, theirs, strict=False) if our is not None and their)


def least_ratio(ours: Rounds, theirs: Mapping[str, Rounds]) -> float | None:
    """The ratio to the best of them. None if one of them has none, for that one may be the best."""
    ratios = [ratio(ours, samples) for samples in theirs.values()]
    known = [found for found in ratios if found is not None]
    return min(known) if known and len(known) == len(ratios) else None


def rounds_won(ours: Sequence[Rounds], theirs: Mapping[str, Sequence[Rounds]]) -> int | None:
    """In how many rounds each of our figures was lower than that of every other. None if one has none at all.

    Whoever did not come through a round has not won it.
    """
    if any(median(figure) is None for figures in (ours, *theirs.values()) for figure in figures):
        return None

    def is_won(number: int) -> bool:
        return all(
            _is_below(figure[number], [figures[place][number] for figures in theirs.values()])
            for place, figure in enumerate(ours)
        )

    return sum(is_won(number) for number in range(len(ours[0])))


def _is_below(our: float | None, theirs: list[float | None]) -> bool:
    return our is not None and all(their is None or our < their for their in theirs)


def rounded(value: float | None, digits: int = 2) -> float | None:
    """For people and for JSON: a whole number if there are to be no digits."""
    if value is None:
        return None
    return round(value, digits) if digits else round(value)
