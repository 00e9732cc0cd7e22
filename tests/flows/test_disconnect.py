from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.node import PARTINGS
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.disconnect import Away, Replaced, disconnect
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.reap import reap
from tests.support.cells import watch
from tests.support.stage import T0, bring, code_of, join, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.node import Parting
    from tests.support.world import World


@pytest.mark.parametrize(("how", "grace_ms"), [("closed", 500), ("handover", 10_000)])
async def test_a_closed_socket_begins_a_grace_in_which_the_node_is_not_chosen(
    world: World, how: Parting, grace_ms: int
) -> None:
    await join(world, connection="x")
    await bring(world, "RUNNING")
    world.now_ms += 7
    answer, changes = await watch(world, disconnect(world.engine, CELL, "n1", "x", how))
    until = T0 + 7 + grace_ms
    assert answer == Away(until)
    assert changes == {
        "nodes": {"n1": {"standing": 5, "away_until_ms": until}},
        "standing": {"n1": 21},
        "room": {1: 0},
        "due": {"n:n1": until},
    }


async def test_a_grace_is_kept_in_full_however_long_the_node_was_silent_before(world: World) -> None:
    await join(world, connection="x")
    world.now_ms += 40_000
    await disconnect(world.engine, CELL, "n1", "x", "handover")
    assert (await world.cell()).due["n:n1"] == T0 + 50_000
    world.now_ms += 9_999
    await reap(world.engine, CELL)
    assert (await world.cell()).nodes["n1"].lost_at_ms == 0
    world.now_ms += 1
    await reap(world.engine, CELL)
    assert (await world.cell()).nodes["n1"].lost_at_ms == T0 + 50_000


@pytest.mark.parametrize("how", PARTINGS)
async def test_a_second_close_does_not_move_the_grace(world: World, how: Parting) -> None:
    await join(world, connection="x")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 1
    again = disconnect(world.engine, CELL, "n1", "x", how)
    assert await watch(world, again) == (Away(T0 + 500), {})


async def test_the_close_of_a_connection_that_was_replaced_changes_nothing(world: World) -> None:
    registered = await join(world, connection="x")
    await join(world, connection="y", epoch=registered.epoch)
    assert await watch(world, disconnect(world.engine, CELL, "n1", "x")) == (Replaced(), {})


async def test_the_close_of_a_lost_node_s_connection_changes_nothing(world: World) -> None:
    await join(world, connection="x")
    world.now_ms += 45_000
    for _ in range(2):
        await sweep(world)
    assert (await world.cell()).nodes["n1"].lost_at_ms == T0 + 45_000
    assert await watch(world, disconnect(world.engine, CELL, "n1", "x")) == (Away(0), {})


async def test_a_heartbeat_does_not_end_a_grace(world: World) -> None:
    await join(world, connection="x")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 100
    _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", health="ready"))
    assert changes == {"nodes": {"n1": {"seen_at_ms": T0 + 100}}}


async def test_a_node_that_comes_back_in_its_grace_goes_on_as_before(world: World) -> None:
    registered = await join(world, connection="x")
    await bring(world, "RUNNING")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 499
    await join(world, connection="y", epoch=registered.epoch)
    cell = await world.cell()
    assert (cell.nodes["n1"].away_until_ms, cell.nodes["n1"].standing) == (0, 0)
    assert cell.due["n:n1"] == T0 + 499 + 35_000
    assert cell.jobs["c0.a"].state == "RUNNING"


async def test_an_unknown_node_s_close_is_refused(world: World) -> None:
    answer, changes = await watch(world, disconnect(world.engine, CELL, "n1", "x"))
    assert answer == Refusal("UNKNOWN_NODE", "No node n1 is registered: it has left, or must register first.")
    assert changes == {}


async def test_a_close_that_cannot_be_right_never_reaches_the_engine(world: World) -> None:
    assert code_of(await disconnect(world.engine, "", "n1", "x")) == "INVALID_MESSAGE"
    assert code_of(await disconnect(world.engine, CELL, "", "x")) == "INVALID_MESSAGE"
    assert code_of(await disconnect(world.engine, CELL, "n1", "")) == "INVALID_MESSAGE"
    assert code_of(await disconnect(world.engine, CELL, "n1", "x", "left")) == "INVALID_MESSAGE"  # type: ignore[arg-type] # no such word


async def test_closes_of_one_tick_each_get_their_own_answer(world: World) -> None:
    await join(world, "n1", connection="x")
    await join(world, "n2", connection="x")
    await place(world)
    answers, changes = await watch(
        world,
        asyncio.gather(
            disconnect(world.engine, CELL, "n1", "x"),
            disconnect(world.engine, CELL, "n3", "x"),
            disconnect(world.engine, CELL, "n2", "y"),
            disconnect(world.engine, CELL, "n2", "x", "handover"),
            disconnect(world.engine, CELL, "n1", "x", "handover"),
        ),
    )
    assert isinstance(answers[1], Refusal)
    assert [answers[i] for i in (0, 2, 3, 4)] == [Away(T0 + 500), Replaced(), Away(T0 + 10_000), Away(T0 + 500)]
    assert changes["room"] == {1: 0}
