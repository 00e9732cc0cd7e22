"""The engine's time without asking for it."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.clock import Clock, wall_ms


class Machine:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def test_until_the_engine_has_said_something_it_is_the_machine_s_own() -> None:
    before = wall_ms()
    assert before <= Clock()() <= wall_ms()
    assert Clock(Machine())() == 1_000


@pytest.mark.parametrize("engine_ms", [500_000, 20])
def test_it_goes_by_the_engine_s_whichever_is_ahead(engine_ms: int) -> None:
    machine = Machine()
    clock = Clock(machine)
    machine.now_ms = 1_040
    clock.heard(engine_ms, 1_000)
    assert clock() == engine_ms + 20, "the answer was half of the way here"
    machine.now_ms += 700
    assert clock() == engine_ms + 720


def test_what_is_heard_by_who_has_just_woken_may_be_as_old_as_its_sleep() -> None:
    machine = Machine()
    clock = Clock(machine)
    heard = []
    # It sleeps from the third to the thirteenth second, and asks twice as soon as it is awake.
    for now_ms in (2_000, 3_000, 13_000, 13_010, 14_000, 15_000):
        machine.now_ms = now_ms
        clock.heard(50_000 + now_ms, now_ms)
        heard.append(clock.awake_ms - 50_000)
    assert heard == [1_000 - 50_000, 2_000, 3_000, 3_000, 13_000, 14_000]


def test_what_may_be_right_is_not_changed_and_what_cannot_be_is() -> None:
    machine = Machine()
    clock = Clock(machine)
    clock.heard(51_000, 1_000)
    machine.now_ms = 2_000
    for asked_ms, engine_ms in ((2_000, 52_000), (1_900, 51_901), (1_900, 51_999)):
        clock.heard(engine_ms, asked_ms)
        assert clock() == 52_000
    clock.heard(52_003, 2_000)
    assert clock() == 52_003
    clock.heard(51_990, 2_000)
    assert clock() == 51_990
