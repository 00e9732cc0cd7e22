"""Work that nobody waits for: it is bounded, its mistakes are told, and its end can be waited for."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.front.background import Background, insist
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
