"""Limbo: how a slot of a fenced attempt becomes free, or its node is not trusted any more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import GONE_FROM, Event, Standing
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.heartbeat import Beaten, heartbeat
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.stopped import stopped
from tests.support.cells import GONE, watch
from tests.support.stage import T0, A, B, bring, join, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.world import World

LEASE = f"n1:{A}:1"


async def fenced(world: World, *, tells: bool, slots: int = 1) -> None:
    """An attempt of n1 that was fenced at the beginning, a moment before its limbo ends."""
    await join(world, tells=tells, max_concurrent_jobs=slots)
    await bring(world, "CANCELLED")
    for wait_ms in (30_000, 29_999):
        world.now_ms += wait_ms
        await heartbeat(world.engine, CELL, "n1")
    assert await watch(world, reap(world.engine, CELL)) == (Settled(0, False), {})
    world.now_ms += 1


async def test_a_node_that_could_have_told_is_cut_off(world: World) -> None:
    """Its slot stays taken, and it gets no work until it registers again."""
    await fenced(world, tells=True, slots=2)
    answer, changes = await watch(world, reap(world.engine, CELL))
    now = T0 + 60_000
    assert answer == Settled(1, False)
    assert changes == {
        "nodes": {"n1": {"cut_off": 1, "standing": 5}},
        "standing": {"n1": 21},
        "room": {1: 0},
        "due": {f"l:{LEASE}": GONE},
        "outbox": {Event("cut_off", A, 1, "n1", "1-n1", "", now): now},
    }
    assert await heartbeat(world.engine, CELL, "n1", running=[]) == Beaten(
        "1-n1", Standing.not_ready, [], must_register=True
    )
    assert (await world.cell()).nodes["n1"].used == 0


async def test_a_word_ends_the_limbo_of_a_cut_off_node_but_not_its_being_cut_off(world: World) -> None:
    await fenced(world, tells=True)
    await sweep(world)
    _, changes = await watch(world, stopped(world.engine, A, 1, "n1"))
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0}},
        "leases": {LEASE: GONE},
        "limbo": {LEASE: GONE},
    }
    assert (await world.cell()).nodes["n1"].standing == 5


async def test_a_legacy_node_that_cannot_tell_is_given_the_benefit_of_the_doubt(world: World) -> None:
    await fenced(world, tells=False)
    answer, changes = await watch(world, reap(world.engine, CELL))
    now = T0 + 60_000
    assert answer == Settled(1, False)
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0, "standing": 0}},
        "standing": {"n1": 16},
        "room": {1: 1},
        "leases": {LEASE: GONE},
        "limbo": {LEASE: GONE},
        "due": {f"l:{LEASE}": GONE},
        "outbox": {Event("forgiven", A, 1, "n1", "1-n1", "", now): now},
    }


@pytest.mark.parametrize("tells", [True, False])
async def test_each_attempt_in_limbo_has_its_own_time(world: World, tells: bool) -> None:
    await join(world, tells=tells)
    await asyncio.gather(place(world, A), place(world, B))
    await cancel(world.engine, A)
    world.now_ms += 1
    await cancel(world.engine, B)
    for _ in range(2):
        world.now_ms += 29_999
        await heartbeat(world.engine, CELL, "n1")
    world.now_ms += 1
    await sweep(world)
    assert (await world.cell()).limbo.keys() == ({LEASE, f"n1:{B}:1"} if tells else {f"n1:{B}:1"})
    world.now_ms += 1
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert [event.job for event in changes["outbox"]] == [B]


LOST_AT: Final = T0 + 45_000


async def lost(world: World, *job_ids: str, tells: bool = True) -> None:
    """n1 was lost in silence, with these jobs; they are n2's now."""
    await join(world, "n1", tells=tells)
    for job_id in job_ids:
        await bring(world, "RUNNING", job_id, limits=Limits(run_ms=50_000, timeout_ms=200_000))
    await join(world, "n2")
    world.now_ms = LOST_AT
    await heartbeat(world.engine, CELL, "n2")
    for _ in range(2):
        await sweep(world)
    cell = await world.cell()
    assert cell.nodes["n1"].lost_at_ms == LOST_AT
    assert {cell.jobs[job_id].node for job_id in job_ids} == {"n2"}


@pytest.mark.parametrize("late_ms", [0, 10])
@pytest.mark.parametrize("word", [stopped, done])
async def test_a_node_lost_in_silence_that_confirms_its_last_attempt_serves_again_and_is_watched(
    world: World, word: Callable[..., Awaitable[object]], late_ms: int
) -> None:
    """It must fall stale by itself again when it is silent: 35 s after its last sign of life, not an hour later."""
    await lost(world, A)
    world.now_ms += late_ms
    now = world.now_ms
    _, changes = await watch(world, word(world.engine, A, 1, "n1"))
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0, "standing": 0, "lost_at_ms": 0, "seen_at_ms": now}},
        "standing": {"n1": 16},
        "room": {1: 2},
        "leases": {LEASE: GONE},
        "limbo": {LEASE: GONE},
        "due": {f"l:{LEASE}": GONE, "n:n1": now + 35_000},
    }


async def test_a_lost_legacy_node_that_is_forgiven_serves_again_and_is_watched(world: World) -> None:
    await lost(world, A, tells=False)
    await done(world.engine, A, 2, "n2")
    for _ in range(2):
        world.now_ms += 29_999
        await asyncio.gather(*(heartbeat(world.engine, CELL, node_id) for node_id in ("n1", "n2")))
    beat_at = world.now_ms
    world.now_ms = LOST_AT + 60_000
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0, "standing": 0, "lost_at_ms": 0}},
        "standing": {"n1": 16},
        "room": {1: 2},
        "leases": {LEASE: GONE},
        "limbo": {LEASE: GONE},
        "due": {f"l:{LEASE}": GONE, "n:n1": beat_at + 35_000},
        "outbox": {Event("forgiven", A, 1, "n1", "1-n1", "", world.now_ms): world.now_ms},
    }


async def test_a_lost_node_that_is_forgiven_without_a_word_stays_lost(world: World) -> None:
    await lost(world, A, tells=False)
    await done(world.engine, A, 2, "n2")
    world.now_ms = LOST_AT + 60_000
    await heartbeat(world.engine, CELL, "n2")
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0}},
        "leases": {LEASE: GONE},
        "limbo": {LEASE: GONE},
        "due": {f"l:{LEASE}": GONE, "n:n1": GONE_FROM + LOST_AT + 3_600_000},
        "outbox": {Event("forgiven", A, 1, "n1", "1-n1", "", world.now_ms): world.now_ms},
    }


async def test_a_lost_node_serves_again_only_when_all_its_attempts_are_confirmed(world: World) -> None:
    await lost(world, A, B)
    await stopped(world.engine, A, 1, "n1")
    node = (await world.cell()).nodes["n1"]
    assert (node.lost_at_ms, node.limbo, node.standing) == (LOST_AT, 1, Standing.lost)
    await stopped(world.engine, B, 1, "n1")
    node = (await world.cell()).nodes["n1"]
    assert (node.lost_at_ms, node.limbo, node.standing) == (0, 0, Standing.available)


@pytest.mark.parametrize("word", [stopped, done])
async def test_a_node_that_lost_its_socket_confirms_and_must_register_all_the_same(
    world: World, word: Callable[..., Awaitable[object]]
) -> None:
    await join(world, "n1", connection="x")
    await bring(world, "RUNNING")
    await join(world, "n2")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    await sweep(world)
    world.now_ms += 1
    _, changes = await watch(world, word(world.engine, A, 1, "n1"))
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0, "seen_at_ms": T0 + 501}},
        "leases": {LEASE: GONE},
        "limbo": {LEASE: GONE},
        "due": {f"l:{LEASE}": GONE, "n:n1": GONE_FROM + T0 + 500 + 3_600_000},
    }
    world.now_ms += 1
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1"))
    assert answer == Beaten("1-n1", Standing.lost, [])
    assert changes == {"nodes": {"n1": {"seen_at_ms": T0 + 502}}}
    registered, changes = await watch(world, join(world, "n1", connection="y", epoch="1-n1"))
    assert (registered.how, registered.standing) == ("RESYNC", 0)
    assert changes == {
        "nodes": {"n1": {"standing": 0, "lost_at_ms": 0, "away_until_ms": 0, "nonce": "y"}},
        "profiles": {"n1": {"connection": "y", "registered_at_ms": T0 + 502, "opened_ms": T0 + 502}},
        "standing": {"n1": 16},
        "room": {1: 2},
        "due": {"n:n1": T0 + 502 + 35_000},
    }


async def test_a_limbo_that_ends_judges_the_node_by_what_it_is_now(world: World) -> None:
    """Full until then; stale by the clock, for the word of another epoch is no sign of life: not simply available."""
    await join(world, max_concurrent_jobs=1)
    await bring(world, "CANCELLED")
    world.now_ms += 35_000
    _, changes = await watch(world, stopped(world.engine, A, 1, "n1", "0-old"))
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0, "standing": 7}},
        "standing": {"n1": 23},
        "leases": {LEASE: GONE},
        "limbo": {LEASE: GONE},
        "due": {f"l:{LEASE}": GONE},
    }
