"""How long dispatches took lately."""

from __future__ import annotations

import pytest

from lingua_scheduler.front.durations import WINDOW_S, Durations, percentiles


class Dial:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_what_is_more_than_a_minute_ago_does_not_count_but_in_the_histogram() -> None:
    dial = Dial()
    durations = Durations(dial)
    assert durations.lately() == []
    for took_ms in (1, 1, 50):
        durations.add(took_ms)
    assert percentiles([durations.lately()]).p95 == pytest.approx(50, rel=0.025)
    dial.now_s = WINDOW_S - 1
    durations.add(2)
    assert sum(count for _, count in durations.lately()) == 4
    dial.now_s = WINDOW_S
    assert percentiles([durations.lately()]).p99 == pytest.approx(2, rel=0.025)
    dial.now_s = 3 * WINDOW_S
    assert percentiles([durations.lately()]).p50 is None
    assert durations.histogram.total == 4


def test_of_very_many_between_two_looks_the_newest_count() -> None:
    durations = Durations(Dial())
    for took_ms in (1_000.0, *[1.0] * 20_000):
        durations.add(took_ms)
    assert percentiles([durations.lately()]).p99 == pytest.approx(1, rel=0.025)
    assert sum(count for _, count in durations.lately()) < 20_000
