from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lingua_scheduler.core.records import Event, Standing
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.evict import evict
from lingua_scheduler.flows.intents import Intended
from lingua_scheduler.flows.resume import resume
from tests.support.cells import HELD, watch
from tests.support.stage import ONE_TRY, T0, A, B, C, bring, code_of, join, past, place, queued
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


async def test_an_evicted_node_s_work_goes_to_others_at_once_and_at_no_cost(world: World) -> None:
    """Accepted or not: neither costs a try, so even a job with a single try goes on."""
    await join(world, "n1", max_concurrent_jobs=3)
    await bring(world, "RESERVED", A, limits=ONE_TRY)
    await bring(world, "RUNNING", B, limits=ONE_TRY)
    await bring(world, "CANCELLED", C)
    await join(world, "n2")
    world.now_ms += 7
    now = T0 + 7
    answer, changes = await watch(world, evict(world.engine, CELL, "n1"))
    assert answer == Intended("evicted", Standing.draining, 3)
    leases = [f"n1:{A}:1", f"n1:{B}:1"]
    assert changes["nodes"] == {
        "n1": {"intent": "evicted", "standing": 6, "limbo": 3},
        "n2": {"used": 2, "standing": 2},
    }
    assert changes["standing"] == {"n1": 16 + Standing.draining, "n2": 16 + Standing.full}
    assert changes["room"] == {1: 0}
    assert {job_id: job["past"] for job_id, job in changes["jobs"].items()} == dict.fromkeys(
        (A, B), past((1, "n1", "evicted", now, "RETRYING"))
    )
    assert changes["leases"] == {f"n2:{A}:2": HELD, f"n2:{B}:2": HELD}
    assert changes["limbo"] == dict.fromkeys(leases, now)
    assert changes["due"] == {f"l:{lease}": now + 60_000 for lease in leases} | {
        f"j:{job_id}": now + 5_000 for job_id in (A, B)
    }
    assert changes["outbox"] == {
        event: now
        for job_id in (A, B)
        for event in (
            Event("fenced", job_id, 1, "n1", "1-n1", "evicted", now),
            Event("reserved", job_id, 2, "n2", "2-n2", "", now),
        )
    }
    assert changes.keys() == {"nodes", "standing", "room", "jobs", "leases", "limbo", "due", "outbox"}


async def test_an_evicted_node_s_work_waits_when_nobody_else_is_there(world: World) -> None:
    await join(world)
    await bring(world, "ACCEPTED")
    answer, changes = await watch(world, evict(world.engine, CELL, "n1"))
    assert answer == Intended("evicted", Standing.draining, 1)
    lease = f"n1:{A}:1"
    assert changes == {
        "nodes": {"n1": {"intent": "evicted", "standing": 6, "limbo": 1}},
        "standing": {"n1": 22},
        "room": {1: 0},
        "jobs": {A: {"state": "RETRYING", "past": past((1, "n1", "evicted", T0, "RETRYING"))}},
        "limbo": {lease: T0},
        "queue": {queued(A, T0 + 60_000): HELD},
        "due": {f"j:{A}": T0 + 60_000, f"l:{lease}": T0 + 60_000},
        "outbox": {Event("fenced", A, 1, "n1", "1-n1", "evicted", T0): T0},
    }


async def test_a_repeated_eviction_changes_nothing(world: World) -> None:
    await join(world)
    await bring(world, "ACCEPTED")
    await evict(world.engine, CELL, "n1")
    assert await watch(world, evict(world.engine, CELL, "n1")) == (Intended("evicted", Standing.draining, 1), {})


async def test_an_evicted_node_that_is_resumed_still_owes_its_slots(world: World) -> None:
    await join(world)
    await bring(world, "ACCEPTED")
    await evict(world.engine, CELL, "n1")
    await cancel(world.engine, A)
    assert await resume(world.engine, CELL, "n1") == Intended("active", Standing.available, 1)
    await place(world, B)
    assert code_of(await ack(world.engine, B, 1, "n1")) == ""
    assert (await world.cell()).nodes["n1"].standing == 2


async def test_an_eviction_at_the_deadline_ends_the_job_and_counts_it(world: World) -> None:
    await join(world)
    await asyncio.gather(bring(world, "ACCEPTED"), bring(world, "ACCEPTED", B))
    world.now_ms += 60_000
    _, changes = await watch(world, evict(world.engine, CELL, "n1"))
    assert changes["counts"] == {"EXPIRED": 2}
    assert {job["state"] for job in changes["jobs"].values()} == {"EXPIRED"}


async def test_evictions_of_one_tick_do_not_give_work_to_each_other(world: World) -> None:
    """The first may still hand its job to the second, which hands it on."""
    for node_id in ("n1", "n2", "n3"):
        await join(world, node_id, max_concurrent_jobs=4)
    names = [f"{CELL}.{number}" for number in range(4)]
    await asyncio.gather(*(place(world, name, seed=number) for number, name in enumerate(names)))
    answers = await asyncio.gather(*(evict(world.engine, CELL, node_id) for node_id in ("n1", "n4", "n2")))
    assert [code_of(answer) for answer in answers] == ["", "UNKNOWN_NODE", ""]
    cell = await world.cell()
    assert {cell.jobs[name].node for name in names} == {"n3"}
    assert cell.nodes["n3"].used == 4
