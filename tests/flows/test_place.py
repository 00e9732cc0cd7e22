"""The place of a job that waits: how many are before it, until when it waits, and how long that may take."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.dispatch import Waiting, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.mark import mark
from lingua_scheduler.views.waiting import HasNode, Place, read_place
from tests.support.cells import watch
from tests.support.pasts import doubt, give
from tests.support.stage import T0, A, B, C, D, bring, code_of, join, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


async def wait(world: World, job_id: str = A, timeout_ms: int = 60_000, pair: str = "en:zh", **wanted: Any) -> None:
    """A job that waits."""
    asked = Wanted(**({"wait_ms": 30_000} | wanted))
    limits = Limits(timeout_ms=timeout_ms)
    answer = await dispatch(world.engine, job_id, "s1", *pair.split(":"), seed=1, limits=limits, wanted=asked)
    assert isinstance(answer, Waiting), answer


async def work(world: World, node_id: str, took_ms: int, times: int = 1) -> None:
    """Let a node do jobs, each in so long."""
    for _ in range(times):
        job_id = await give(world, node_id)
        world.now_ms += took_ms
        await done(world.engine, job_id, 1, node_id)


async def fill(world: World, node_id: str) -> None:
    record = (await world.cell()).nodes[node_id]
    for _ in range(record.max - record.used):
        await give(world, node_id)


async def test_a_job_that_waits_has_a_place_and_a_time(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await fill(world, "n1")
    await wait(world)
    answer, changes = await watch(world, read_place(world.engine, A))
    assert (answer, changes) == (Place(1, T0 + 30_000, None), {})


async def test_places_go_by_deadline(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await fill(world, "n1")
    for job_id, timeout_ms in ((A, 60_000), (B, 40_000), (C, 50_000)):
        await wait(world, job_id, timeout_ms)
    places = await asyncio.gather(*(read_place(world.engine, job_id) for job_id in (A, B, C)))
    assert [answer.place for answer in places if isinstance(answer, Place)] == [3, 1, 2]


async def test_only_those_of_the_same_pair_are_before_it(world: World) -> None:
    await join(world, nmt_pairs=[["en", "zh"], ["zh", "en"]], max_concurrent_jobs=1)
    await fill(world, "n1")
    await wait(world, A, 40_000, "zh:en")
    await wait(world, B, 60_000, "en:zh")
    assert await read_place(world.engine, B) == Place(1, T0 + 30_000, None)


async def test_a_retry_waits_until_its_deadline(world: World) -> None:
    await join(world)
    await bring(world, "RUNNING")
    await drain(world.engine, CELL, "n1")
    await fail(world.engine, A, 1, "n1", reason="broken")
    assert await read_place(world.engine, A) == Place(1, T0 + 60_000, None)


@pytest.mark.parametrize("state", ["RESERVED", "RUNNING", "FINISHED", "FAILED", "CANCELLED"])
async def test_a_job_that_does_not_wait_has_no_place(world: World, state: Any) -> None:
    await join(world)
    await bring(world, state)
    assert await read_place(world.engine, A) == HasNode(state)


async def test_a_job_that_waited_in_vain_or_never_was_is_unknown(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await fill(world, "n1")
    await wait(world, wait_ms=2_000)
    world.now_ms += 2_000
    await sweep(world)
    assert code_of(await read_place(world.engine, A)) == "UNKNOWN_JOB"
    assert code_of(await read_place(world.engine, "nothing")) == "INVALID_MESSAGE"


class TestHowLongItMayTake:
    """As fast as the nodes of its pool have worked lately, all their slots together."""

    async def test_one_slot_at_a_time(self, world: World) -> None:
        """Its only job took 800 ms: the first waits so long, the second twice that."""
        await join(world, max_concurrent_jobs=1)
        await work(world, "n1", 800)
        await fill(world, "n1")
        for job_id, timeout_ms in ((A, 50_000), (B, 60_000)):
            await wait(world, job_id, timeout_ms)
        assert await read_place(world.engine, A) == Place(1, T0 + 30_800, 800)
        assert await read_place(world.engine, B) == Place(2, T0 + 30_800, 1_600)

    async def test_many_slots_are_as_many_times_faster(self, world: World) -> None:
        await join(world, max_concurrent_jobs=4)
        await work(world, "n1", 800)
        await fill(world, "n1")
        await wait(world)
        assert await read_place(world.engine, A) == Place(1, T0 + 30_800, 200)

    async def test_nodes_of_all_kinds_in_the_pool_add_up(self, world: World) -> None:
        """A job in 800 ms and two in 3200: 15 in 8 seconds."""
        await join(world, "n1", max_concurrent_jobs=1)
        await join(world, "n2", max_concurrent_jobs=2, tts_langs=["zh"])
        await join(world, "n3", nmt_pairs=[["zh", "en"]])
        await work(world, "n1", 800)
        await work(world, "n2", 3_200)
        for node_id in ("n1", "n2"):
            await fill(world, node_id)
        await wait(world)
        assert await read_place(world.engine, A) == Place(1, T0 + 34_000, 533)

    async def test_nodes_that_cannot_have_it_soon_do_not_count(self, world: World) -> None:
        """One is drained, one has a needed service marked, one has not worked yet."""
        names = ["n1", "n2", "n3", "n4"]
        for node_id in names:
            await join(world, node_id, max_concurrent_jobs=1)
        for node_id in names[:3]:
            await work(world, node_id, 800)
        for node_id in names:
            await fill(world, node_id)
        await drain(world.engine, CELL, "n2")
        await mark(world.engine, CELL, "n3", "", "asr")
        await wait(world)
        assert await read_place(world.engine, A) == Place(1, T0 + 32_400, 800)

    async def test_suspects_count(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1)
        await work(world, "n1", 800)
        await doubt(world, "n1")
        await fill(world, "n1")
        await wait(world)
        assert await read_place(world.engine, A) == Place(1, T0 + 30_800, 800)

    async def test_a_large_fleet_is_taken_to_be_like_its_first_64(self, world: World) -> None:
        names = [f"n{number:03}" for number in range(80)]
        await asyncio.gather(*(join(world, node_id, max_concurrent_jobs=1) for node_id in names))
        jobs = await asyncio.gather(*(give(world, node_id) for node_id in names))
        world.now_ms += 4_000
        await asyncio.gather(
            *(done(world.engine, job_id, 1, node_id) for job_id, node_id in zip(jobs, names, strict=True))
        )
        await asyncio.gather(*(place(world, f"{CELL}.{node_id}") for node_id in names))
        await wait(world)
        # 80 nodes with 4 s for each job.
        assert await read_place(world.engine, A) == Place(1, T0 + 34_000, 50)

    async def test_who_waits_for_a_private_node_counts_on_it(self, world: World) -> None:
        await join(world, accept_public_jobs=False, max_concurrent_jobs=1)
        await work(world, "n1", 800)
        await fill(world, "n1")
        await wait(world, preferred_node_id="n1")
        assert await read_place(world.engine, A) == Place(1, T0 + 30_800, 800)

    async def test_the_place_moves_up_as_others_are_served(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1)
        await fill(world, "n1")
        for job_id, timeout_ms in ((A, 50_000), (B, 60_000)):
            await wait(world, job_id, timeout_ms)
        await heartbeat(world.engine, CELL, "n1", max_concurrent_jobs=2)
        assert await read_place(world.engine, A) == HasNode("RESERVED")
        assert await read_place(world.engine, B) == Place(1, T0 + 30_000, None)

    async def test_who_waits_for_one_node_alone_counts_on_it_alone(self, world: World) -> None:
        """Of five nodes; those before it that wait for the same one count, and for another do not."""
        names = [f"n{number}" for number in range(1, 6)]
        for node_id in names:
            await join(world, node_id, max_concurrent_jobs=1)
            await work(world, node_id, 800)
        for node_id in names:
            await fill(world, node_id)
        start = T0 + 4_000
        await wait(world, C, 70_000)
        assert await read_place(world.engine, C) == Place(1, start + 30_000, 160)
        await wait(world, A, 60_000, preferred_node_id="n1", strict=True)
        assert await read_place(world.engine, A) == Place(1, start + 30_000, 800)
        await wait(world, B, 50_000, preferred_node_id="n1", strict=True)
        await wait(world, D, 50_000, preferred_node_id="n2", strict=True)
        assert await read_place(world.engine, A) == Place(3, start + 30_000, 1_600)

    async def test_those_of_another_pair_before_it_in_the_line_of_its_nodes_count(self, world: World) -> None:
        """Its place is that among those of its own pair; but the node serves all of them before."""
        await join(world, nmt_pairs=[["en", "zh"], ["en", "fr"]], max_concurrent_jobs=1)
        await work(world, "n1", 800)
        await fill(world, "n1")
        for number in range(9):
            await wait(world, f"{CELL}.f{number}", 50_000, "en:fr")
        await wait(world, B, 70_000, "en:fr")
        await wait(world, C, 55_000, exclude_node_ids=["n9"])
        await wait(world, A)
        assert await read_place(world.engine, A) == Place(2, T0 + 30_800, 11 * 800)
        assert await read_place(world.engine, C) == Place(1, T0 + 30_800, 10 * 800)

    async def test_of_several_lines_the_longest_counts(self, world: World) -> None:
        """Two kinds of nodes could have it; at one of them two others are before it."""
        await join(world, "n1", max_concurrent_jobs=1)
        await join(world, "n2", max_concurrent_jobs=1, tts_langs=["zh"])
        for node_id in ("n1", "n2"):
            await work(world, node_id, 800)
        for node_id in ("n1", "n2"):
            await fill(world, node_id)
        for job_id in (B, C):
            await wait(world, job_id, 50_000, services=("nmt", "tts"))
        await wait(world, A)
        assert await read_place(world.engine, A) == Place(3, T0 + 31_600, 3 * 400)
