"""How well a node does: what `done` writes down of it, who sees it, and whom it makes chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.started import started
from lingua_scheduler.views.node import Node, read_node
from tests.support.cells import watch
from tests.support.pasts import give, live
from tests.support.stage import A, bring, join, place
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.records import NodeRecord
    from tests.support.world import World

LEAST_LOADED = Wanted(policy="least_loaded")
SEEDS = range(0, 2**32, 2**32 // 16)


async def node(world: World, node_id: str = "n1") -> NodeRecord:
    return (await world.cell()).nodes[node_id]


async def work(world: World, ack_after_ms: int, done_after_ms: int, node_id: str = "n1") -> None:
    """Let a node accept a job after so long, and do it in so long."""
    job_id = await give(world, node_id)
    world.now_ms += ack_after_ms
    await ack(world.engine, job_id, 1, node_id)
    world.now_ms += done_after_ms
    await done(world.engine, job_id, 1, node_id)


async def health_of(world: World, node_id: str = "n1") -> int:
    answer = await read_node(world.engine, CELL, node_id)
    assert isinstance(answer, Node)
    return answer.health


class TestWhatIsWrittenDown:
    """Moving averages: the first job whole, an eighth of each later one."""

    async def test_the_first_result_is_all_that_is_known(self, world: World) -> None:
        await join(world)
        await place(world)
        world.now_ms += 80
        await ack(world.engine, A, 1, "n1")
        world.now_ms += 801
        await done(world.engine, A, 1, "n1")
        record = await node(world)
        assert (record.ack_ms, record.typical_ms) == (80, 801)

    async def test_an_average_moves_by_an_eighth_and_is_rounded_down(self, world: World) -> None:
        await join(world)
        await work(world, 100, 2_000)
        ack_ms, typical_ms = 100, 2_000
        for ack_after_ms, done_after_ms in ((33, 50), (0, 7), (1_000, 0), (90, 90)):
            await work(world, ack_after_ms, done_after_ms)
            ack_ms = (7 * ack_ms + ack_after_ms) // 8
            typical_ms = (7 * typical_ms + done_after_ms) // 8
            record = await node(world)
            assert (record.ack_ms, record.typical_ms) == (ack_ms, typical_ms)

    async def test_what_is_known_is_never_0(self, world: World) -> None:
        """So that a slow job after many quick ones is one of eight, and not taken for the first."""
        await join(world)
        for _ in range(9):
            await work(world, 0, 0)
            record = await node(world)
            assert (record.ack_ms, record.typical_ms) == (1, 1)
        await work(world, 1_001, 2_001)
        record = await node(world)
        assert (record.ack_ms, record.typical_ms) == (126, 251)

    async def test_a_start_is_an_ack_and_time_counts_from_the_ack(self, world: World) -> None:
        await join(world)
        await place(world)
        world.now_ms += 80
        await started(world.engine, A, 1, "n1")
        world.now_ms += 800
        await done(world.engine, A, 1, "n1")
        record = await node(world)
        assert (record.ack_ms, record.typical_ms) == (80, 800)

    async def test_a_result_without_an_ack_says_nothing_of_acks(self, world: World) -> None:
        """The job may have taken all of that time."""
        await join(world)
        await work(world, 80, 100)
        await place(world)
        world.now_ms += 900
        await done(world.engine, A, 1, "n1")
        record = await node(world)
        assert (record.ack_ms, record.typical_ms) == (80, 200)

    async def test_acks_are_not_known_before_the_first(self, world: World) -> None:
        await join(world)
        await place(world)
        world.now_ms += 800
        await done(world.engine, A, 1, "n1")
        record = await node(world)
        assert (record.ack_ms, record.typical_ms) == (0, 800)
        await work(world, 80, 800)
        assert (await node(world)).ack_ms == 80

    async def test_a_node_that_accepts_by_the_write_is_as_quick_as_the_write(self, world: World) -> None:
        await join(world, acks=False)
        await place(world)
        world.now_ms += 40
        await deliver(world.engine, A, 1, "n1")
        world.now_ms += 800
        await done(world.engine, A, 1, "n1")
        record = await node(world)
        assert (record.ack_ms, record.typical_ms) == (40, 800)

    async def test_a_failure_leaves_the_averages_alone(self, world: World) -> None:
        await join(world)
        await bring(world, "RUNNING")
        world.now_ms += 80
        _, changes = await watch(world, fail(world.engine, A, 1, "n1", reason="broken"), judged=True)
        assert changes["nodes"] == {"n1": {"recent": 1}}

    async def test_a_result_that_comes_again_or_too_late_counts_no_more(self, world: World) -> None:
        await join(world)
        await work(world, 80, 800)
        job_id = next(iter((await world.cell()).jobs))
        assert (await watch(world, done(world.engine, job_id, 1, "n1"), judged=True))[1] == {}
        await bring(world, "CANCELLED")
        world.now_ms += 50
        _, changes = await watch(world, done(world.engine, A, 1, "n1"), judged=True)
        assert changes["nodes"] == {"n1": {"used": 0, "limbo": 0}}


class TestWhatIsSeen:
    async def test_a_fresh_node_is_perfectly_healthy(self, world: World) -> None:
        await join(world)
        assert await health_of(world) == 100

    async def test_failures_load_and_slow_acks_make_it_less_so(self, world: World) -> None:
        await join(world, max_concurrent_jobs=4)
        await live(world, "n1", "xx")
        assert await health_of(world) == 76
        await give(world, "n1")
        assert await health_of(world) == 71
        await work(world, 100, 0)
        assert (await node(world)).ack_ms == 100
        assert await health_of(world) == 69


class TestWhomLeastLoadedChooses:
    """Load first, then health, then whoever was drawn first."""

    async def taken(self, world: World, policy: str = "least_loaded") -> set[str]:
        """Who takes jobs of many seeds. Each is done at once, without an ack, so that the fleet is as before."""
        found = set()
        for seed in SEEDS:
            job_id = f"{CELL}.{seed}"
            placed = await place(world, job_id, seed=seed, wanted=Wanted(policy=policy))
            found.add(placed.node_id)
            await done(world.engine, job_id, 1, placed.node_id)
        return found

    @pytest.mark.parametrize("past", ["x", "xx"])
    async def test_of_equally_loaded_nodes_the_one_that_failed_less(self, world: World, past: str) -> None:
        for node_id in ("n0", "n1"):
            await join(world, node_id)
        await live(world, "n0", past)
        assert await self.taken(world) == {"n1"}

    async def test_of_equally_loaded_nodes_the_one_that_accepts_sooner(self, world: World) -> None:
        for node_id, ack_after_ms in (("n0", 200), ("n1", 49)):
            await join(world, node_id)
            await work(world, ack_after_ms, 0, node_id)
        assert await self.taken(world) == {"n1"}

    async def test_less_than_50_ms_are_no_difference(self, world: World) -> None:
        for node_id, ack_after_ms in (("n0", 49), ("n1", 0)):
            await join(world, node_id)
            await work(world, ack_after_ms, 0, node_id)
        assert await self.taken(world) == {"n0", "n1"}

    async def test_acks_of_a_second_and_of_a_minute_are_no_difference(self, world: World) -> None:
        for node_id, ack_after_ms in (("n0", 4_999), ("n1", 4_900)):
            await join(world, node_id)
            await work(world, ack_after_ms, 0, node_id)
        assert min((await node(world, "n0")).ack_ms, (await node(world, "n1")).ack_ms) > 1_000
        assert await self.taken(world) == {"n0", "n1"}

    @pytest.mark.parametrize(("ack_ms", "chosen"), [(599, "n1"), (650, "n0")])
    async def test_a_failure_weighs_as_much_as_600_ms(self, world: World, ack_ms: int, chosen: str) -> None:
        """12 points for the one, a point for each 50 ms of the other."""
        await join(world, "n0")
        await join(world, "n1")
        await work(world, ack_ms, 0, "n1")
        await live(world, "n0", "x")
        assert (await node(world, "n1")).ack_ms == ack_ms
        first = (await place(world, wanted=LEAST_LOADED)).node_id
        assert first == chosen

    async def test_load_comes_before_health(self, world: World) -> None:
        await join(world, "n0")
        await join(world, "n1")
        await live(world, "n0", "xx")
        await give(world, "n1")
        assert await self.taken(world) == {"n0"}

    async def test_other_policies_do_not_ask(self, world: World) -> None:
        for node_id in ("n0", "n1"):
            await join(world, node_id)
        await live(world, "n0", "xx")
        assert await self.taken(world, "random") == {"n0", "n1"}
