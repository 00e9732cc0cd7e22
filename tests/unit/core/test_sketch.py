"""Sketches: percentiles of several instances together."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core.sketch import bucket_of, percentile


def sketch_of(times_ms: list[float]) -> list[tuple[int, int]]:
    return sorted(Counter(map(bucket_of, times_ms)).items())


def test_of_nothing_there_is_no_percentile() -> None:
    assert percentile([], 0.95) is None
    assert percentile([[], []], 0.95) is None


def test_a_slow_instance_is_seen_beside_a_quick_one_by_as_much_as_it_does() -> None:
    quick, slow = sketch_of([1.0] * 900), sketch_of([100.0] * 100)
    assert percentile([quick, slow], 0.50) == pytest.approx(1.0, rel=0.025)
    assert percentile([quick, slow], 0.90) == pytest.approx(1.0, rel=0.025)
    assert percentile([quick, slow], 0.95) == pytest.approx(100.0, rel=0.025)


@given(st.lists(st.lists(st.floats(0.02, 1e6), max_size=50), max_size=4), st.sampled_from([0.5, 0.95, 0.99]))
def test_it_is_what_one_who_had_seen_everything_would_say(times_ms: list[list[float]], share: float) -> None:
    everything = sorted(one for some in times_ms for one in some)
    found = percentile([sketch_of(some) for some in times_ms], share)
    if not everything:
        assert found is None
        return
    place = max(0, -int(-share * len(everything) // 1) - 1)
    assert found == pytest.approx(everything[place], rel=0.0251, abs=0.001)
