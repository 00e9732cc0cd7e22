"""Only who was gone rests when it is back; who is there and registers again does not, however often it was gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.disconnect import disconnect
from tests.support.stage import T0, join, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

#: How a node says that it is the one that is known, and how it is received.
AGAIN = pytest.mark.parametrize(
    ("said", "how"), [({"epoch": "1-n1"}, "RESYNC"), ({"process_id": "p1"}, "CONTINUED"), ({}, "CONTINUED")], ids=str
)


async def rested(world: World) -> None:
    """n1 was gone three times and had to rest for a second; that is over."""
    await join(world, connection="x", process_id="p1")
    for _ in range(3):
        await disconnect(world.engine, CELL, "n1", "x")
        answer = await join(world, connection="x", epoch="1-n1")
    assert answer.standing == Standing.resting
    world.now_ms += 1_000
    await sweep(world)
    assert (await world.cell()).nodes["n1"].standing == Standing.available


@AGAIN
async def test_who_was_not_gone_need_not_rest_again(world: World, said: dict[str, Any], how: str) -> None:
    await rested(world)
    for connection in ("x", "y"):
        answer = await join(world, connection=connection, **said)
        assert (answer.how, answer.standing) == (how, Standing.available)
    assert (await world.cell()).nodes["n1"].rest_until_ms == T0 + 1_000


@AGAIN
async def test_who_was_away_rests(world: World, said: dict[str, Any], how: str) -> None:
    await rested(world)
    await disconnect(world.engine, CELL, "n1", "x")
    answer = await join(world, connection="y", **said)
    assert (answer.how, answer.standing) == (how, Standing.resting)
    assert (await world.cell()).nodes["n1"].rest_until_ms == world.now_ms + 2_000


async def test_who_was_lost_rests(make_world: MakeWorld) -> None:
    """Its socket was there all the time, but nothing was heard of it."""
    world = await make_world(Rules(stale_ms=1_000, offline_ms=2_000, rest_ms=500))
    await join(world)
    found = []
    for _ in range(3):
        for _ in range(2):
            world.now_ms += 1_000
            await sweep(world)
        assert (await world.cell()).nodes["n1"].standing == Standing.lost
        answer = await join(world, epoch="1-n1")
        found.append((answer.how, answer.standing))
    assert found == [("RESYNC", Standing.available)] * 2 + [("RESYNC", Standing.resting)]


async def test_a_new_process_rests_though_nobody_saw_the_old_one_go(world: World) -> None:
    await rested(world)
    answer = await join(world, connection="y", process_id="p2")
    assert (answer.how, answer.standing) == ("NEW_PROCESS", Standing.resting)
