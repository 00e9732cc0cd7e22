"""At most 64 jobs get a node in one visit; the due-list comes back for the rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.dispatch import Placed, Waiting, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.reap import Settled, reap
from tests.support.cells import GONE, together, watch
from tests.support.pasts import give
from tests.support.stage import T0, A, calls, code_of, join, nodes_of, place, served, sweep, wait, waiting
from tests.support.wishes import choice
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections import Counter

    from tests.flows.conftest import MakeWorld
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
    assert await place(world) == Placed(
        "RESERVED", "n1", "2-n1", 1, 1, is_new=True, deadline_at_ms=world.now_ms + 60_000
    )
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


async def test_a_sweep_counts_those_it_serves(world: World) -> None:
    """Three nodes have rested at the same moment; each takes 40 of those who wait. A sweep of 41 stops after one."""
    names = [f"n{n}" for n in range(3)]
    for node_id in names:
        await join(world, node_id, max_concurrent_jobs=40)
        job_id = await give(world, node_id)
        await fail(world.engine, job_id, 1, node_id, reason="busy", overloaded=True, retry_after_ms=1_000)
        await cancel(world.engine, job_id)
    await crowd(world, 120)
    world.now_ms += 1_000
    assert await reap(world.engine, CELL, 41) == Settled(1, True)
    nodes = (await world.cell()).nodes
    assert [nodes[node_id].used for node_id in names] == [40, 0, 0]
    assert await reap(world.engine, CELL, 40) == Settled(1, True)
    assert await reap(world.engine, CELL, 64) == Settled(1, False)
    assert waiting(await world.cell()) == []


class TestANodeThatIsOwed:
    """It took 64 of those who wait for it, and more do: what room it has is theirs, for a retry it has none."""

    BUSY, LONG = f"{CELL}.busy", Limits(ack_ms=500_000, run_ms=500_000, timeout_ms=500_000)

    async def owe(self, world: World) -> None:
        """140 wait that may not go to n1; a large node comes to have room, and cannot take them all at once."""
        names = [f"{CELL}.w{n:03}" for n in range(140)]
        wanted = Wanted(wait_ms=50_000, exclude_node_ids=["n1"])
        asked = (dispatch(world.engine, j, "s1", "en", "zh", seed=1, limits=self.LONG, wanted=wanted) for j in names)
        answers = await asyncio.gather(*asked)
        assert all(isinstance(answer, Waiting) for answer in answers)
        await heartbeat(world.engine, CELL, "big", health="ready")
        assert "r:big" in (await world.cell()).due

    async def give_n1(self, world: World, **wanted: Any) -> None:
        """n1 has a job of its own, and A; `big` is ill."""
        await join(world, "n1")
        await join(world, "big", max_concurrent_jobs=129, health="degraded")
        await place(world, self.BUSY, limits=self.LONG)
        assert (await place(world, A, limits=self.LONG, wanted=Wanted(**wanted))).node_id == "n1"

    async def test_a_retry_goes_back_to_the_node_that_had_it_where_it_is_the_only_other(self, world: World) -> None:
        await self.give_n1(world)
        await self.owe(world)
        await fail(world.engine, A, 1, "n1", reason="broken")
        cell = await world.cell()
        assert (nodes_of(cell, A), cell.nodes["big"].used) == (["n1"], 64)
        assert (await choice(world)).reasons == ["again"]

    async def test_a_retry_that_prefers_it_is_told_that_it_is_full(self, world: World) -> None:
        await self.give_n1(world, preferred_node_id="big")
        await self.owe(world)
        await fail(world.engine, A, 1, "n1", reason="broken")
        assert nodes_of(await world.cell(), A) == ["n1"]
        assert (await choice(world)).reasons == ["preferred full", "again"]

    async def test_a_retry_that_insists_on_it_waits(self, world: World) -> None:
        """Behind those who were there before and must hurry as much."""
        await join(world, "big", max_concurrent_jobs=129)
        await join(world, "n1", health="degraded")
        await place(world, A, limits=self.LONG, wanted=Wanted(preferred_node_id="big", strict=True))
        await heartbeat(world.engine, CELL, "big", health="degraded")
        await self.owe(world)
        await fail(world.engine, A, 1, "big", reason="broken")
        cell = await world.cell()
        assert (nodes_of(cell, A), cell.nodes["big"].used) == ([""], 64)
        assert cell.jobs[A].past.reasons == ["preferred full"]
        await sweep(world)
        assert nodes_of(await world.cell(), A) == ["big"]


class TestHowManyMayWait:
    """One more is refused at once, as if it did not want to wait. A job that lost its node always may."""

    async def test_one_more_is_refused(self, make_world: MakeWorld) -> None:
        world = await make_world(Rules(max_waiting=2))
        await join(world, max_concurrent_jobs=1)
        await place(world, A)
        others = [f"{CELL}.w{n}" for n in range(4)]
        wanted = Wanted(wait_ms=5_000)
        asked = [await dispatch(world.engine, j, "s1", "en", "zh", seed=1, wanted=wanted) for j in others]
        assert [isinstance(answer, Waiting) for answer in asked] == [True, True, False, False]
        assert code_of(asked[2]) == "ALL_CANDIDATES_FULL_OR_FAILED"
        cell = await world.cell()
        assert (len(waiting(cell)), cell.counts["refused.ALL_CANDIDATES_FULL_OR_FAILED"]) == (2, 2)
        # One that is served makes room for another.
        await done(world.engine, A, 1, "n1")
        answer = await dispatch(world.engine, others[3], "s1", "en", "zh", seed=1, wanted=wanted)
        assert isinstance(answer, Waiting)

    async def test_a_job_that_lost_its_node_waits_in_any_case(self, make_world: MakeWorld) -> None:
        world = await make_world(Rules(max_waiting=0))
        await crowd(world, 3)
        assert len(waiting(await world.cell())) == 3


class TestWhatItCosts:
    """Counted in calls of the engine, for a slot that comes free while some wait and nobody can have it."""

    @staticmethod
    async def cost(world: World, number: int, **wanted: Any) -> Counter[str]:
        """So many wait for whom n1 is not right; another kind of node, which is full, keeps them waiting."""
        for n in range(number):
            limits, asked = Limits(timeout_ms=50_000 + n), Wanted(wait_ms=40_000, **wanted)
            await dispatch(world.engine, f"{CELL}.w{n:03}", "s1", "en", "zh", seed=1, limits=limits, wanted=asked)
        assert len(waiting(await world.cell())) == number
        job_id = await give(world, "n1")
        before = await calls(world)
        await done(world.engine, job_id, 1, "n1")
        after = await calls(world)
        assert len(waiting(await world.cell())) == number
        return after - before

    @pytest.mark.parametrize("number", [5, 120])
    async def test_those_that_exclude_the_node_are_looked_at_once_each(self, world: World, number: int) -> None:
        await join(world, "n1", max_concurrent_jobs=1)
        await join(world, "n2", max_concurrent_jobs=1)
        await give(world, "n2")
        cost = await self.cost(world, number, exclude_node_ids=["n1"])
        # One read of the ticket each, the line in pieces of 64 after the first, and one look for fallbacks.
        assert cost["zrangebylex"] == 4 + -(-number // 64)
        assert cost["hget"] < number + 10

    async def test_those_in_no_line_of_the_node_cost_nothing(self, world: World) -> None:
        await join(world, "n1", max_concurrent_jobs=1)
        await join(world, "n2", labels={"at": "eu"}, max_concurrent_jobs=1)
        job_id = await give(world, "n2")
        costs = [await self.cost(world, number, labels={"at": "eu"}) for number in (1, 100)]
        assert costs[0] == costs[1]
        await done(world.engine, job_id, 1, "n2")
        assert len(waiting(await world.cell())) == 99
