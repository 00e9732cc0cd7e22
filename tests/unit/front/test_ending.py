"""All steps of a shut-down share one deadline."""

from __future__ import annotations

import pytest

from lingua_scheduler.config import load
from lingua_scheduler.front.ending import OVER_S, Ending
from lingua_scheduler.operate.workers import patience_s


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_each_step_has_what_is_left() -> None:
    clock = Clock()
    ending = Ending(10_000, clock)
    ending.begin()
    assert (ending.drain_s, ending.left_s(2.0)) == (10.0, 2.0)
    clock.now_s += 7
    ending.begin()
    assert (ending.drain_s, ending.left_s(2.0), ending.left_s(60.0)) == (3.0, 2.0, 5.5)
    clock.now_s += 4
    assert (ending.drain_s, ending.left_s(2.0)) == (0.0, 1.5)
    clock.now_s += 4
    assert (ending.drain_s, ending.left_s(2.0)) == (0.0, 0.0)


def test_nothing_is_spent_before_it_begins() -> None:
    clock = Clock()
    ending = Ending(10_000, clock)
    clock.now_s += 3_600
    assert (ending.drain_s, ending.left_s(2.0)) == (10.0, 2.0)


@pytest.mark.parametrize("drain_ms", [0, 10_000, 3_600_000])
def test_a_worker_is_not_ended_before_it_had_to_end_by_itself(drain_ms: int) -> None:
    assert patience_s(load(env={}, flags={"server.drain_ms": drain_ms}).settings) > drain_ms / 1000 + OVER_S
