"""Work that nobody waits for: it is bounded, its mistakes are told, and its end can be waited for."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.front.background import MOST_AT_ONCE, Background, insist, side_by_side
from tests.support.logs import told

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Begin = Callable[[Background], Callable[[Coroutine[object, object, object], str], None]]

BEGINS: list[Begin] = [lambda background: background.spawn, lambda background: background.walk]


@pytest.mark.parametrize("begin", BEGINS)
async def test_what_goes_wrong_is_in_the_log(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    async def fails(error: Exception) -> None:
        await asyncio.sleep(0)
        raise error

    background = Background()
    begin(background)(fails(OSError("broken")), "one")
    begin(background)(fails(DependencyDown("TEST", "away")), "two")
    with caplog.at_level(logging.WARNING):
        await background.room(1)
    found = {(one["level"], one["name"]) for one in told(caplog, "background")}
    assert found == {("ERROR", "one"), ("WARNING", "two")}
    assert len(background) == 0


@pytest.mark.parametrize("begin", BEGINS)
async def test_there_is_room_when_some_of_it_is_over(begin: Begin) -> None:
    gates = [asyncio.Event() for _ in range(3)]
    background = Background()
    for gate in gates:
        begin(background)(gate.wait(), "a gate")
    waiting = asyncio.ensure_future(background.room(3))
    await asyncio.sleep(0)
    assert (len(background), waiting.done()) == (3, False)
    gates[1].set()
    await waiting
    assert len(background) == 2
    for gate in gates:
        gate.set()
    await background.close(5)
    assert len(background) == 0


@pytest.mark.parametrize("begin", BEGINS)
async def test_what_is_not_over_in_time_is_given_up_without_a_word(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[str] = []

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("over")

    background = Background()
    begin(background)(never(), "something")
    await background.close(0.001)
    assert (ends, len(background), caplog.records) == (["over"], 0, [])


async def test_what_walks_and_has_nothing_to_wait_for_is_over_at_once() -> None:
    async def nothing() -> None:
        pass

    background = Background()
    background.walk(nothing(), "nothing")
    assert len(background) == 0


async def test_whoever_insists_gives_up_when_his_patience_is_over() -> None:
    calls = 0

    async def away() -> None:
        nonlocal calls
        calls += 1
        raise DependencyDown("TEST", "away")

    with pytest.raises(DependencyDown):
        await insist(away, 0.06)
    assert calls == 2


async def test_of_many_that_go_on_side_by_side_only_some_begin_in_one_turn_of_the_loop() -> None:
    loop, number, begun = asyncio.get_running_loop(), 3 * MOST_AT_ONCE, Counter[int]()
    turn, all_begun, over = 0, asyncio.Event(), asyncio.Event()

    def count() -> None:
        nonlocal turn
        turn += 1
        if not over.is_set():
            loop.call_soon(count)

    async def work() -> None:
        begun[turn] += 1
        if begun.total() == number:
            all_begun.set()
        await over.wait()

    loop.call_soon(count)
    async with asyncio.TaskGroup() as group:
        group.create_task(side_by_side(work() for _ in range(number)))
        await all_begun.wait()
        assert max(begun.values()) <= MOST_AT_ONCE
        over.set()


async def test_who_gives_up_what_goes_on_side_by_side_gives_up_all_of_it() -> None:
    number, begun, given_up, all_begun = MOST_AT_ONCE + 1, 0, 0, asyncio.Event()

    async def work() -> None:
        nonlocal begun, given_up
        begun += 1
        if begun == number:
            all_begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            given_up += 1
            raise

    async with asyncio.TaskGroup() as group:
        going = group.create_task(side_by_side(work() for _ in range(number)))
        await all_begun.wait()
        going.cancel()
    assert given_up == number
