"""The background loops: they outlive outages, say what went wrong, and never let one event hold up the others."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import DependencyDown, LinguaError
from lingua_scheduler.core.new_ids import new_job_id
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.register import register
from lingua_scheduler.loops.loop import Loop
from lingua_scheduler.loops.reaper import Reaper
from lingua_scheduler.loops.relayer import Relayer
from tests.support.logs import told
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.records import Event
    from tests.support.world import World


class Counting(Loop):
    """Turns that go as they are told, the last one for ever."""

    def __init__(self, *turns: bool | Exception) -> None:
        super().__init__(interval_ms=1)
        self._turns = list(turns)
        self.idle = asyncio.Event()

    async def turn(self) -> bool:
        if not self._turns:
            self.idle.set()
            return False
        turn = self._turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return turn


async def test_a_loop_outlives_an_outage_and_takes_up_its_work_again() -> None:
    loop = Counting(DependencyDown("UNREACHABLE", "gone"), True, DependencyDown("LOADING", "not yet"), True)
    async with loop, asyncio.timeout(5):
        await loop.idle.wait()
    assert (loop.missed_turns, loop.failed_turns) == (2, 0)


async def test_a_turn_that_nobody_foresaw_is_logged_and_the_loop_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lingua_scheduler.loops.loop._PAUSE_S", 0.001)
    loop = Counting(RuntimeError("a bug"), True)
    with caplog.at_level(logging.ERROR):
        async with loop, asyncio.timeout(5):
            await loop.idle.wait()
    assert loop.failed_turns == 1
    assert "a bug" in caplog.text


async def test_a_reaper_settles_what_is_due(world: World) -> None:
    await register(world.engine, CELL, "n1", semantic_langs=["en", "zh"])
    job_id = new_job_id(CELL)
    await dispatch(world.engine, job_id, "s1", "en", "zh")
    world.now_ms += 60_000
    async with Reaper(world.engine, CELL, 1), asyncio.timeout(5):
        while (await world.cell()).jobs[job_id].state != "EXPIRED":  # noqa: ASYNC110 - the engine rings no bell
            await asyncio.sleep(0)


async def test_an_event_that_cannot_be_handed_over_holds_up_no_other_and_comes_back(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await register(world.engine, CELL, "n1", semantic_langs=["en", "zh"])
    bad, good = f"{CELL}.a", f"{CELL}.b"
    for job_id in (bad, good):
        await dispatch(world.engine, job_id, "s1", "en", "zh")
        await cancel(world.engine, job_id)
    heard: list[tuple[str, str]] = []
    twice = asyncio.Event()

    async def hand_over(event: Event) -> None:
        heard.append((event.kind, event.job))
        if event.job == bad and heard.count(("ended", bad)) < 2:
            world.now_ms += world.rules.relay_lease_ms + 1
            raise OSError("the session's socket is gone")
        if heard.count(("ended", bad)) == 2:
            twice.set()

    with caplog.at_level(logging.ERROR):
        async with Relayer(world.engine, CELL, 1, hand_over), asyncio.timeout(5):
            await twice.wait()
    assert ("ended", good) in heard
    assert "the session's socket is gone" in told(caplog, "relay")[0]["exception"]


async def test_a_loop_for_no_cell_says_so(world: World) -> None:
    reaper = Reaper(world.engine, "no cell", 1)
    with pytest.raises(LinguaError, match="a cell is named like"):
        await reaper.turn()


class Patient(Loop):
    """Its interval is longer than any test."""

    def __init__(self) -> None:
        super().__init__(interval_ms=3_600_000)
        self.turns: asyncio.Queue[int] = asyncio.Queue()
        self.number = 0

    async def turn(self) -> bool:
        self.number += 1
        self.turns.put_nowait(self.number)
        if self.number == 2:
            self.wake()
        return False


async def test_a_loop_that_is_woken_does_not_wait_for_its_interval() -> None:
    async with Patient() as loop, asyncio.timeout(5):
        assert await loop.turns.get() == 1
        await asyncio.sleep(0)
        loop.wake()
        assert await loop.turns.get() == 2
        assert await loop.turns.get() == 3, "it was woken during its turn"


class Failing(Loop):
    """Every turn fails, and somebody has news all the time."""

    def __init__(self) -> None:
        super().__init__(interval_ms=1)
        self.turned = asyncio.Event()

    async def turn(self) -> bool:
        self.turned.set()
        self.wake()
        raise RuntimeError("a bug")


async def test_a_loop_that_fails_is_not_hurried_by_news(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        async with Failing() as loop, asyncio.timeout(5):
            await loop.turned.wait()
            for _ in range(20):
                loop.wake()
                await asyncio.sleep(0.001)
    assert loop.failed_turns == 1
