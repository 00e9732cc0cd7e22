"""At most 64 jobs get a node in one visit; the due-list comes back for the rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.reap import Settled, reap
from tests.support.cells import GONE, together, watch
from tests.support.stage import T0, A, code_of, join, nodes_of, place, served, sweep, wait, waiting
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


async def crowd(world: World, number: int) -> list[str]:
    """So many jobs wait, in the order of their names."""
    names = [f"{CELL}.j{n:03}" for n in range(number)]
    await wait(world, {name: 50_000 + n for n, name in enumerate(names)})
    return names


async def test_a_large_node_is_filled_in_steps(world: World) -> None:
    names = await crowd(world, 65)
    await join(world, "n1", max_concurrent_jobs=100)
    cell = await world.cell()
    assert nodes_of(cell, *names) == ["n1"] * 64 + [""]
    assert (cell.nodes["n1"].used, len(waiting(cell)), cell.due["r:n1"]) == (64, 1, T0)
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    last = served(names[-1], "n1", "2-n1", T0, deadline=T0 + 50_064)
    del last["jobs"][names[-1]]["reserved_at_ms"]
    assert changes == together({"nodes": {"n1": {"used": 65}}, "due": {"r:n1": GONE}}, last)


async def test_exactly_64_are_served_at_once(world: World) -> None:
    names = await crowd(world, 64)
    await join(world, "n1", max_concurrent_jobs=100)
    cell = await world.cell()
    assert nodes_of(cell, *names) == ["n1"] * 64
    assert cell.due["n:n1"] == T0 + 35_000
    assert await watch(world, reap(world.engine, CELL)) == (Settled(0, False), {})


async def test_a_reaper_goes_on_until_nobody_waits(world: World) -> None:
    names = await crowd(world, 150)
    await join(world, "n1", max_concurrent_jobs=200)
    assert [await sweep(world), await sweep(world), await sweep(world)] == [
        Settled(1, True),
        Settled(1, False),
        Settled(0, False),
    ]
    assert nodes_of(await world.cell(), *names) == ["n1"] * 150


async def test_a_newcomer_is_behind_all_of_them(world: World) -> None:
    """The dispatch goes on with them, over several runs where it must, and has what is left."""
    names = await crowd(world, 130)
    await join(world, "n1", max_concurrent_jobs=131)
    assert await place(world) == Placed("RESERVED", "n1", "2-n1", 1, 1, is_new=True)
    cell = await world.cell()
    assert nodes_of(cell, *names) == ["n1"] * 130
    assert cell.nodes["n1"].used == 131


async def test_a_newcomer_gets_nothing_where_they_take_everything(world: World) -> None:
    names = await crowd(world, 70)
    await join(world, "n1", max_concurrent_jobs=70)
    assert code_of(await dispatch(world.engine, A, "s1", "en", "zh")) == "ALL_CANDIDATES_FULL_OR_FAILED"
    assert nodes_of(await world.cell(), *names) == ["n1"] * 70


async def test_each_node_that_still_has_room_is_looked_at_again(world: World) -> None:
    """n2 is full, n1 had 64 and has room for more, n3 serves something else."""
    names = await crowd(world, 80)
    for node_id, slots in (("n1", 90), ("n2", 9)):
        await join(world, node_id, max_concurrent_jobs=slots, health="degraded")
    await join(world, "n3", nmt_pairs=[["zh", "en"]], health="degraded")
    now = world.now_ms = T0 + 7
    await asyncio.gather(*(heartbeat(world.engine, CELL, f"n{n}", health="ready") for n in (3, 2, 1)))
    cell = await world.cell()
    assert nodes_of(cell, *names) == ["n2"] * 9 + ["n1"] * 64 + [""] * 7
    assert [cell.due.get(f"r:n{n}") for n in (1, 2, 3)] == [now, None, None]
    assert await sweep(world) == Settled(1, False)
    assert nodes_of(await world.cell(), *names[73:]) == ["n1"] * 7


async def test_a_node_that_falls_ill_before_the_rest_is_served_leaves_it_waiting(world: World) -> None:
    names = await crowd(world, 66)
    await join(world, "n1", max_concurrent_jobs=100)
    await heartbeat(world.engine, CELL, "n1", health="degraded")
    await sweep(world)
    assert nodes_of(await world.cell(), *names[64:]) == ["", ""]
    await heartbeat(world.engine, CELL, "n1", health="ready")
    assert nodes_of(await world.cell(), *names[64:]) == ["n1", "n1"]


async def test_a_job_that_fails_between_two_visits_waits_in_its_turn(world: World) -> None:
    """One slot was free, now it is two; two wait, and the third must hurry most."""
    names = await crowd(world, 66)
    await join(world, "n1", max_concurrent_jobs=65)
    seed = (await world.cell()).jobs[names[0]].seed
    await fail(world.engine, names[0], 2, "n1", reason="broken")
    cell = await world.cell()
    assert nodes_of(cell, names[0], *names[64:]) == ["", "", ""]
    assert cell.jobs[names[0]].seed == seed
    await sweep(world)
    assert nodes_of(await world.cell(), names[0], *names[64:]) == ["n1", "n1", ""]


@pytest.mark.parametrize("sign", ["beat", "registration"])
async def test_a_sign_of_life_does_not_put_off_the_rest(world: World, sign: str) -> None:
    names = await crowd(world, 65)
    await join(world, "n1", max_concurrent_jobs=100)
    if sign == "beat":
        await heartbeat(world.engine, CELL, "n1")
    else:
        await join(world, "n1", max_concurrent_jobs=100, epoch="2-n1")
    await sweep(world)
    found = nodes_of(await world.cell(), names[-1])
    await drain(world.engine, CELL, "n1")
    assert found == ["n1"]
