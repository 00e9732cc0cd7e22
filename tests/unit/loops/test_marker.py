"""The marker: whoever sees a service fail says so and goes on; what is told is bounded, told once, and not lost."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.flows.mark import mark
from lingua_scheduler.flows.register import register
from lingua_scheduler.loops.marker import MAX_SEEN, Marker
from lingua_scheduler.store.engine import Engine
from tests.support.proxy import Proxy
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.servers import Server
    from tests.support.world import World


async def marks(world: World, node_id: str = "n1") -> list[tuple[str, str]]:
    return [(mark.service, mark.type) for mark in (await world.cell()).profiles[node_id].marks]


async def join(world: World, *node_ids: str) -> None:
    for node_id in node_ids:
        await register(world.engine, CELL, node_id, semantic_langs=["en", "zh"])


async def turns(marker: Marker) -> int:
    """Take turns until there is nothing more to do; how many did something."""
    number = 1
    while await marker.turn():
        number += 1
    return number


async def test_what_was_seen_is_marked_in_the_background(world: World) -> None:
    """At once, whatever its interval is."""
    await join(world, "n1")
    async with Marker(partial(mark, world.engine, CELL), 3_600_000) as marker, asyncio.timeout(5):
        await asyncio.sleep(0)
        marker.saw("n1", "asr-en", "asr")
        marker.saw("n1", "", "tts")
        marker.saw("n1")
        while len(await marks(world)) < 3:  # noqa: ASYNC110 - the engine rings no bell
            await asyncio.sleep(0)
    assert await marks(world) == [("asr-en", "asr"), ("tts", "tts"), ("", "")]
    assert (marker.missed_turns, marker.failed_turns, marker.dropped) == (0, 0, 0)


async def test_a_marker_that_saw_nothing_asks_the_engine_nothing() -> None:
    """It has none."""
    marker = Marker(partial(mark, cast("Engine", None), CELL), 1)
    assert await marker.turn() is False


async def test_they_are_told_one_at_a_time_in_the_order_in_which_they_were_seen(world: World) -> None:
    await join(world, "n1")
    marker = Marker(partial(mark, world.engine, CELL), 1)
    for service in ("a", "b", "c"):
        marker.saw("n1", service, "asr")
    for told, more in ((["a"], True), (["a", "b"], True), (["a", "b", "c"], False)):
        assert await marker.turn() is more
        assert [service for service, _ in await marks(world)] == told


async def test_the_same_twice_before_it_is_told_is_once(world: World) -> None:
    await join(world, "n1", "n2")
    marker = Marker(partial(mark, world.engine, CELL), 1)
    for _ in range(5):
        marker.saw("n1", "asr-en", "asr")
        marker.saw("n2", "asr-en", "asr")
        marker.saw("n1", "asr-zh", "asr")
        marker.saw("n1", "asr-en", "tts")
    assert await turns(marker) == 4
    assert await marks(world, "n2") == [("asr-en", "asr")]
    assert marker.dropped == 0


async def test_what_is_seen_again_after_it_was_told_is_told_again(world: World) -> None:
    await join(world, "n1")
    marker = Marker(partial(mark, world.engine, CELL), 1)
    untils = []
    for _ in range(2):
        marker.saw("n1", "", "asr")
        assert await turns(marker) == 1
        untils.append((await world.cell()).profiles["n1"].marks[0].until_ms)
        world.now_ms += 5_000
    assert untils[1] == untils[0] + 5_000


async def test_no_more_than_so_many_are_remembered(world: World) -> None:
    await join(world, "n1")
    marker = Marker(partial(mark, world.engine, CELL), 1)
    for number in range(MAX_SEEN + 3):
        marker.saw("n1", f"model-{number}", "asr")
    # What is remembered already costs nothing more.
    marker.saw("n1", "model-0", "asr")
    assert marker.dropped == 3
    await marker.turn()
    marker.saw("n1", "one more", "asr")
    assert marker.dropped == 3
    assert await turns(marker) == MAX_SEEN


async def test_a_node_that_is_gone_or_a_name_that_cannot_be_holds_up_nobody(world: World) -> None:
    await join(world, "n1")
    marker = Marker(partial(mark, world.engine, CELL), 1)
    marker.saw("gone", "", "asr")
    marker.saw("not an id", "", "asr")
    marker.saw("n1", "", "no such type")
    marker.saw("n1", "a" * 200, "asr")
    marker.saw("n1", "", "asr")
    assert await turns(marker) == 5
    assert await marks(world) == [("asr", "asr")]


async def test_what_was_seen_outlives_the_engine_s_absence(world: World, server: Server) -> None:
    await join(world, "n1")
    async with Proxy(server.path) as proxy:
        packed = msgspec.msgpack.encode(world.rules)
        engine = await Engine.connect(proxy.url, world.engine.prefix, packed, lambda: world.now_ms)
        async with Marker(partial(mark, engine, CELL), 1) as marker, asyncio.timeout(5):
            proxy.refusing = True
            proxy.cut()
            marker.saw("n1", "", "asr")
            while marker.missed_turns < 3:  # noqa: ASYNC110 - a loop rings no bell
                await asyncio.sleep(0.001)
            marker.saw("n1", "", "tts")
            proxy.heal()
            while len(await marks(world)) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await engine.close()
    assert await marks(world) == [("asr", "asr"), ("tts", "tts")]
    assert marker.failed_turns == 0


async def test_what_may_have_been_told_is_told_again(world: World, server: Server) -> None:
    """The reply is lost: the mark was made, and marking twice is harmless."""
    await join(world, "n1")
    async with Proxy(server.path) as proxy:
        packed = msgspec.msgpack.encode(world.rules)
        engine = await Engine.connect(proxy.url, world.engine.prefix, packed, lambda: world.now_ms)
        marker = Marker(partial(mark, engine, CELL), 1)
        marker.saw("n1", "", "asr")
        marker.saw("n1", "", "tts")
        proxy.drop_reply()
        with pytest.raises((DependencyDown, OutcomeUnknown)):
            await marker.turn()
        assert await turns(marker) == 2
        await engine.close()
    assert await marks(world) == [("asr", "asr"), ("tts", "tts")]
    assert (await world.cell()).profiles["n1"].marked == 2


async def test_what_is_seen_while_another_is_told_is_not_lost(world: World) -> None:
    await join(world, "n1")
    marker = Marker(partial(mark, world.engine, CELL), 1)
    marker.saw("n1", "", "asr")
    turn = asyncio.create_task(marker.turn())
    await asyncio.sleep(0)
    marker.saw("n1", "", "tts")
    assert await turn is True
    await turns(marker)
    assert await marks(world) == [("asr", "asr"), ("tts", "tts")]
