"""Tokens come back with time, and never more than there is room for."""

from __future__ import annotations

from lingua_scheduler.front.sessions.bucket import Bucket


def test_a_burst_is_let_through_and_then_one_at_a_time() -> None:
    bucket = Bucket(20, 40, 0)
    assert [bucket.take(0) for _ in range(40)] == [0] * 40
    assert bucket.take(0) == 50
    assert bucket.take(49) == 1
    assert bucket.take(50) == 0
    assert bucket.take(50) == 50


def test_it_is_never_more_than_full_and_time_never_runs_backwards() -> None:
    bucket = Bucket(1_000, 2, 0)
    bucket.take(0)
    assert [bucket.take(10_000), bucket.take(10_000), bucket.take(10_000)] == [0, 0, 1]
    assert bucket.take(5_000) == 1
    assert bucket.take(10_001) == 0
