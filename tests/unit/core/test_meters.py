"""What is counted and timed."""

from __future__ import annotations

import time

import pytest

from lingua_scheduler.core.ids import made_at_ms
from lingua_scheduler.core.meters import LONG_S, Histogram, JobTimes
from lingua_scheduler.core.new_ids import new_job_id


@pytest.mark.parametrize("maker", ["", "berlin"])
def test_an_id_says_when_it_was_made(maker: str) -> None:
    before = time.time_ns() // 1_000_000
    made = made_at_ms(new_job_id("c0", maker, "instance-1"))
    assert made is not None
    assert before <= made <= time.time_ns() // 1_000_000


@pytest.mark.parametrize("job_id", ["c0.a", "c0.0192f3a4-5b6c-4000", "", "c0.0192F3A4-5b6c-7000"])
def test_other_ids_do_not(job_id: str) -> None:
    assert made_at_ms(job_id) is None


def test_jobs_are_timed_from_when_they_were_made() -> None:
    times = JobTimes()
    times.told("c0.00000000-03e8-7000", 1_300)
    times.ended("c0.00000000-03e8-7000", 3_000)
    # By another clock it was over before it began.
    times.ended("c0.00000000-03e8-7000", 900)
    times.ended("c0.a", 3_000)
    assert (times.queued.sum_s, times.total.sum_s, times.total.total) == (0.3, 2.0, 2)


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram(LONG_S)
    for seconds in (0.05, 0.06, 100):
        histogram.add(seconds)
    assert histogram.up_to()[:2] == [(0.05, 1), (0.1, 2)]
    assert histogram.up_to()[-2:] == [(60.0, 2), (float("inf"), 3)]
