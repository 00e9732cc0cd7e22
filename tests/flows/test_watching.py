"""Whoever watches the engine: sets the clock by it, and sees that it was emptied."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.clock import Clock
from lingua_scheduler.core.errors import DependencyDown, EngineUnfit
from lingua_scheduler.flows.doubt import doubt
from lingua_scheduler.loops.watcher import Watcher
from lingua_scheduler.store.checks import check_schema
from lingua_scheduler.store.keys import cell_key
from lingua_scheduler.store.tables import SCHEMA
from lingua_scheduler.views.schema import Schema, read_schema
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.support.world import World


class Instance:
    """Whoever watches the engine, and how often everything of his was entered again."""

    def __init__(self, world: World, clock: Clock) -> None:
        self.refilled = 0
        self.fails = False
        begin = partial(check_schema, world.engine)
        self.watcher = Watcher(
            world.engine, lambda: (CELL,), 1_000, begin=begin, refill=self._refill, clock=clock, settle_ms=15_000
        )

    async def _refill(self, cells: Collection[str]) -> None:
        assert list(cells) == [CELL]
        if self.fails:
            raise DependencyDown("LOADING", "gone again")
        self.refilled += 1

    async def look(self) -> int:
        """Look once; how often was it emptied?"""
        await self.watcher.turn()
        return self.refilled


async def empty(world: World) -> None:
    await world.engine.command("DEL", cell_key(world.engine.prefix, CELL, "counts"))


async def test_whoever_watches_the_engine_sets_the_clock_by_it(world: World) -> None:
    machine_ms = 1_000
    clock = Clock(lambda: machine_ms)
    instance = Instance(world, clock)
    await instance.look()
    assert clock() == world.now_ms
    world.now_ms += 1_000_000
    await instance.look()
    assert clock() == world.now_ms
    machine_ms += 5
    assert clock() == world.now_ms + 5


async def test_the_first_look_begins_a_cell_and_has_nothing_to_enter_again(world: World) -> None:
    instance = Instance(world, Clock())
    assert [await instance.look() for _ in range(2)] == [0, 0]
    schema = await read_schema(world.engine, CELL)
    assert isinstance(schema, Schema)
    assert (schema.written, schema.birth > 0) == (SCHEMA, True)


async def test_every_instance_sees_that_the_engine_was_emptied_whoever_begins_it_anew(world: World) -> None:
    instances = [Instance(world, Clock()) for _ in range(3)]
    for _ in range(2):
        assert [await instance.look() for instance in instances] == [0, 0, 0]
    for emptied in (1, 2):
        await empty(world)
        for _ in range(2):
            assert [await instance.look() for instance in instances] == [emptied] * 3


async def test_what_could_not_be_entered_is_entered_with_the_next_look(world: World) -> None:
    first, second = Instance(world, Clock()), Instance(world, Clock())
    await first.look()
    await second.look()
    await empty(world)
    first.fails = True
    with pytest.raises(DependencyDown):
        await first.look()
    assert await second.look() == 1
    first.fails = False
    assert [await first.look() for _ in range(2)] == [1, 1]


async def test_many_who_look_at_once_enter_everything_once(world: World) -> None:
    instance = Instance(world, Clock())
    await instance.look()
    await empty(world)
    assert await asyncio.gather(*(instance.look() for _ in range(5))) == [1] * 5


async def test_what_is_missing_may_be_on_its_way_for_a_while_after_the_engine_was_emptied(world: World) -> None:
    machine_ms = 1_000
    instance = Instance(world, Clock(lambda: machine_ms))
    asks = instance.watcher.is_refilling
    assert not await asks(), "the first look"
    assert not await asks()
    await empty(world)
    assert await asks()
    assert instance.refilled == 1
    machine_ms += 14_999
    assert await asks()
    machine_ms += 1
    assert not await asks()
    assert instance.refilled == 1


async def test_a_cell_that_was_begun_a_moment_ago_is_known_by_who_serves_it(world: World) -> None:
    """Also if another takes its place before anybody has looked again."""
    await check_schema(world.engine, CELL)
    await doubt(world.engine, CELL, "first")
    instance = Instance(world, Clock())
    assert await instance.look() == 0
    await doubt(world.engine, CELL, "second")
    assert [await instance.look() for _ in range(2)] == [1, 1]


async def test_a_cell_that_another_release_began_anew_is_left_alone(world: World) -> None:
    instance = Instance(world, Clock())
    await instance.look()
    await empty(world)
    await world.engine.command("HSET", cell_key(world.engine.prefix, CELL, "counts"), "schema", SCHEMA + 1)
    with pytest.raises(EngineUnfit):
        await instance.look()
    assert instance.refilled == 0
