"""What a reap forgets, how much it does at once, and that several may do it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, GONE_FROM
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.relay import Taken, relay
from lingua_scheduler.flows.started import started
from tests.support.cells import GONE, watch
from tests.support.stage import T0, A, B, C, bring, code_of, join, keep_alive, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.cells import Changes
    from tests.support.world import World

NOTHING: tuple[Settled, Changes] = (Settled(0, False), {})


async def test_a_lost_node_is_forgotten_in_the_end_with_all_that_it_held(world: World) -> None:
    await join(world, "n0")
    await join(world, "n1", nmt_pairs=[["zh", "en"]], connection="x", tells=False)
    await join(world, "n2", connection="x", tells=True, nmt_pairs=[["en", "en"]])
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    await sweep(world)
    lost_at = world.now_ms
    world.now_ms += 3_599_999
    await keep_alive(world, "n0", "n2")
    assert await watch(world, reap(world.engine, CELL)) == NOTHING
    world.now_ms += 1
    assert world.now_ms == lost_at + 3_600_000
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes == {
        "nodes": {"n1": GONE},
        "profiles": {"n1": GONE},
        "standing": {"n1": GONE},
        "room": {2: GONE},
        "groups": {2: GONE},
        "signatures": dict.fromkeys(changes["signatures"], GONE),
        "pairs": {"zh:en": GONE},
        "ends": {"zh:": GONE, ":en": 1},
        "due": {"n:n1": GONE},
    }


async def test_a_cut_off_node_is_forgotten_with_its_limbo(world: World) -> None:
    await join(world, connection="x")
    await bring(world, "CANCELLED")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    await sweep(world)
    world.now_ms += 59_500
    await sweep(world)
    assert (await world.cell()).nodes["n1"].cut_off == 1
    world.now_ms = T0 + 500 + 3_600_000 + 60_000
    _, changes = await watch(world, reap(world.engine, CELL))
    assert changes["limbo"] == {f"n1:{A}:1": GONE}
    assert changes["leases"] == {f"n1:{A}:1": GONE}
    assert changes["nodes"] == {"n1": GONE}


@pytest.mark.parametrize("tells", [True, False])
async def test_a_node_is_forgotten_although_its_limbo_is_not_settled(world: World, tells: bool) -> None:
    """Nobody has swept for long, and then too little at a time: nothing of it may be left in the due-list."""
    await join(world, "n1", connection="x", tells=tells)
    await bring(world, "RUNNING")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    await sweep(world)
    assert (await world.cell()).limbo == {f"n1:{A}:1": world.now_ms}
    world.now_ms += 3_600_000 + 60_000
    await reap(world.engine, CELL, 1)
    cell = await world.cell()
    assert (cell.nodes, cell.leases, cell.limbo) == ({}, [], {})
    assert not any(member.startswith(("l:", "n:")) for member in cell.due)


async def test_a_node_is_not_forgotten_while_it_may_confirm(make_world: MakeWorld) -> None:
    """However short the memory of nodes is."""
    world = await make_world(Rules(node_record_ttl_ms=1_000))
    await join(world, "n1", connection="x")
    await bring(world, "RUNNING")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    await sweep(world)
    world.now_ms += 60_999
    await sweep(world)
    assert (await world.cell()).nodes.keys() == {"n1"}
    world.now_ms += 1
    await sweep(world)
    assert (await world.cell()).nodes == {}


async def test_jobs_are_forgotten_no_more_than_the_limit_at_a_time(world: World) -> None:
    await join(world, max_concurrent_jobs=3)
    for job_id in (A, B, C):
        await place(world, job_id)
        await done(world.engine, job_id, 1, "n1", result="text", result_ttl_ms=1)
    world.now_ms += 1
    assert await reap(world.engine, CELL, 2) == Settled(2, True)
    assert await reap(world.engine, CELL, 1) == Settled(1, False)
    assert (await world.cell()).bodies == {}


async def test_nodes_are_forgotten_after_jobs_and_no_more_than_the_limit_at_a_time(world: World) -> None:
    for node_id in ("n0", "n1", "n2", "n3"):
        await join(world, node_id, connection="x")
    for node_id in ("n1", "n2", "n3"):
        await disconnect(world.engine, CELL, node_id, "x")
    world.now_ms += 500
    await sweep(world)
    world.now_ms += 3_600_000
    await keep_alive(world, "n0")
    await place(world)
    await done(world.engine, A, 1, "n0", result="text", result_ttl_ms=1)
    world.now_ms += 1
    assert await reap(world.engine, CELL, 2) == Settled(2, True)
    assert (await world.cell()).nodes.keys() == {"n0", "n2", "n3"}
    assert await reap(world.engine, CELL, 1) == Settled(1, True)
    assert await reap(world.engine, CELL, 1) == Settled(1, False)


async def test_text_goes_first_and_the_record_later(world: World) -> None:
    await join(world)
    await place(world, body="in")
    world.now_ms += 10
    await done(world.engine, A, 1, "n1", result="out", result_ttl_ms=1_000)
    world.now_ms += 999
    assert await watch(world, reap(world.engine, CELL)) == NOTHING
    world.now_ms += 1
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes == {
        "bodies": {f"{A}:payload": GONE, f"{A}:result": GONE},
        "due": {f"j:{A}": FORGET_FROM + T0 + 10 + 3_600_000},
    }
    world.now_ms = T0 + 10 + 3_599_999
    await keep_alive(world, "n1")
    assert await watch(world, reap(world.engine, CELL)) == NOTHING
    world.now_ms += 1
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes == {"jobs": {A: GONE}, "tickets": {A: GONE}, "due": {f"j:{A}": GONE}}


async def test_a_cell_in_which_everything_is_over_is_empty_but_for_its_counts(world: World) -> None:
    """S16: every key has a living parent. Results, failures, limbo, mail and nodes: all of it goes."""
    await join(world, "n1", connection="x", tells=False)
    await join(world, "n2", tts_langs=["zh"], running=[("c0.x", 1)])
    await join(world, "n3", nmt_pairs=[])
    await bring(world, "FINISHED", A, body="in")
    await bring(world, "CANCELLED", "c0.b", body="in")
    await bring(world, "FAILED", "c0.c")
    await bring(world, "RUNNING", "c0.d")
    for _ in range(100):
        world.now_ms += 600_000
        await sweep(world)
        taken = await relay(world.engine, CELL)
        assert isinstance(taken, Taken)
        await relay(world.engine, CELL, taken.events)
    cell = await world.cell()
    assert (cell.outbox, cell.due, cell.leases) == ([], {}, [])
    assert {"epoch", "group", "accepted", "FINISHED", "CANCELLED", "FAILED", "EXPIRED"} <= cell.counts.keys()
    assert await world.keys() == 1


async def test_a_reap_settles_no_more_than_its_limit_and_says_that_more_is_due(world: World) -> None:
    await join(world, max_concurrent_jobs=5)
    names = [f"{CELL}.{number}" for number in range(5)]
    await asyncio.gather(*(place(world, name, limits=Limits(timeout_ms=10)) for name in names))
    world.now_ms += 10
    assert await reap(world.engine, CELL, limit=3) == Settled(3, True)
    assert [(await world.cell()).jobs[name].state for name in names] == ["EXPIRED"] * 3 + ["RESERVED"] * 2
    assert await reap(world.engine, CELL, limit=2) == Settled(2, False)
    assert await reap(world.engine, CELL) == Settled(0, False)
    assert (await world.cell()).counts["EXPIRED"] == 5


async def test_two_reapers_of_one_tick_settle_everything_once(world: World) -> None:
    await join(world, max_concurrent_jobs=5)
    names = [f"{CELL}.{number}" for number in range(5)]
    await asyncio.gather(*(place(world, name, limits=Limits(timeout_ms=10)) for name in names))
    world.now_ms += 10
    answers, changes = await watch(
        world, asyncio.gather(*(reap(world.engine, CELL, limit=limit) for limit in (2, 100, 100)))
    )
    assert answers == [Settled(2, True), Settled(3, False), Settled(0, False)]
    assert changes["counts"] == {"EXPIRED": 5}
    assert changes["nodes"] == {"n1": {"limbo": 5}}


async def test_what_one_entry_settles_is_not_settled_again(world: World) -> None:
    """The node is lost first, which moves its job; the job's own entry is not due any more then."""
    await join(world, "n1", connection="x")
    await bring(world, "RESERVED", limits=Limits(ack_ms=600))
    await join(world, "n2")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 400
    await started(world.engine, A, 1, "n1")
    world.now_ms += 30_000
    await keep_alive(world, "n2")
    assert await sweep(world) == Settled(1, False)
    job = (await world.cell()).jobs[A]
    assert [attempt.cause for attempt in job.past.attempts] == ["lost"]


async def test_a_large_node_is_taken_apart_in_steps(world: World) -> None:
    """At most as many attempts a visit as the sweep may settle entries; the due-list comes back for the rest."""
    await join(world, "n1", max_concurrent_jobs=100, connection="x")
    await asyncio.gather(*(place(world, f"{CELL}.j{number:03}") for number in range(65)))
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 600
    now = world.now_ms
    assert await reap(world.engine, CELL, 64) == Settled(1, True)
    cell = await world.cell()
    assert (cell.nodes["n1"].limbo, cell.nodes["n1"].used, cell.due["n:n1"]) == (64, 65, now)
    assert cell.jobs[f"{CELL}.j063"].state == "RETRYING"
    assert cell.jobs[f"{CELL}.j064"].state == "RESERVED"
    assert await sweep(world) == Settled(1, False)
    cell = await world.cell()
    assert (cell.nodes["n1"].limbo, cell.due["n:n1"]) == (65, GONE_FROM + now + 3_600_000 + 60_000)
    assert cell.nodes["n1"].lost_at_ms == now
    assert [event.kind for event, _ in cell.outbox].count("lost") == 1


async def test_a_beat_of_a_lost_node_does_not_put_off_the_rest_of_its_work(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=100, connection="x")
    await asyncio.gather(*(place(world, f"{CELL}.j{number:03}") for number in range(65)))
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    await sweep(world)
    await keep_alive(world, "n1")
    await sweep(world)
    assert (await world.cell()).jobs[f"{CELL}.j064"].state == "RETRYING"


async def test_a_node_with_exactly_as_many_attempts_as_a_visit_may_move_is_done_in_one(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=100, connection="x")
    await asyncio.gather(*(place(world, f"{CELL}.j{number:03}") for number in range(64)))
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    assert await sweep(world) == Settled(1, False)


async def test_a_reap_that_cannot_be_right_never_reaches_the_engine(world: World) -> None:
    for cell, limit in (("", 1), (CELL, 0), (CELL, 10_001), (CELL, True)):
        assert code_of(await reap(world.engine, cell, limit)) == "INVALID_MESSAGE"
    assert await reap(world.engine, CELL, 10_000) == Settled(0, False)


async def test_a_sweep_is_bounded_by_the_attempts_that_it_moves(world: World) -> None:
    """Three nodes are lost with thirty attempts each: the second is left half-way, the third untouched."""
    for node_id in ("n1", "n2", "n3"):
        await join(world, node_id, max_concurrent_jobs=30, connection="x")
        await asyncio.gather(*(place(world, f"{CELL}.{node_id}-{number}") for number in range(30)))
        await disconnect(world.engine, CELL, node_id, "x")
    world.now_ms += 600
    assert await reap(world.engine, CELL, 40) == Settled(2, True)
    assert [node.limbo for _, node in sorted((await world.cell()).nodes.items())] == [30, 9, 0]
    assert await reap(world.engine, CELL, 40) == Settled(2, True)
    assert [node.limbo for _, node in sorted((await world.cell()).nodes.items())] == [30, 18, 30]


async def test_a_node_that_is_only_looked_at_counts_once(world: World) -> None:
    for node_id in ("n1", "n2", "n3"):
        await join(world, node_id)
    world.now_ms += 35_000
    assert await reap(world.engine, CELL, 2) == Settled(2, True)
    assert await reap(world.engine, CELL, 2) == Settled(1, False)


async def test_a_sweep_that_has_done_its_share_looks_at_nothing_more(world: World) -> None:
    for node_id, jobs in (("n1", 39), ("n2", 1)):
        await join(world, node_id, max_concurrent_jobs=jobs, connection="x")
        await asyncio.gather(*(place(world, f"{CELL}.{node_id}-{number}") for number in range(jobs)))
        await disconnect(world.engine, CELL, node_id, "x")
    world.now_ms += 600
    assert await reap(world.engine, CELL, 40) == Settled(1, True)
    assert (await world.cell()).nodes["n2"].lost_at_ms == 0
