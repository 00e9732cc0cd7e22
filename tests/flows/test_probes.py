"""A node under suspicion is tried with one job at a time, until it has shown that it works again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.records import FORGET_FROM, SUSPECTS, Choice, Event, Standing
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.reap import Settled
from lingua_scheduler.flows.started import started
from lingua_scheduler.flows.stopped import stopped
from tests.support.cells import GONE, HELD, watch
from tests.support.pasts import doubt, give, live
from tests.support.stage import ONE_TRY, T0, A, B, C, bring, join, keep_alive, past, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.records import NodeRecord
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

#: When a node that came under suspicion as the test began may be tried.
TIME = T0 + 5_000


async def node(world: World, node_id: str = "n1") -> NodeRecord:
    return (await world.cell()).nodes[node_id]


async def ready(world: World, slots: int = 2) -> None:
    """n1 is under suspicion, and its time has come. n2 is full, so that whoever gets a job is no matter of luck."""
    await join(world, "n1", max_concurrent_jobs=slots)
    await doubt(world, "n1")
    await join(world, "n2", max_concurrent_jobs=1)
    await started(world.engine, await give(world, "n2"), 1, "n2")
    world.now_ms = TIME - 1
    await keep_alive(world, "n1", "n2")
    world.now_ms = TIME


async def test_when_its_time_has_come_a_suspect_may_be_chosen_like_any_other(world: World) -> None:
    await join(world)
    await doubt(world, "n1")
    world.now_ms = TIME - 1
    assert await watch(world, sweep(world), judged=True) == (Settled(0, False), {})
    world.now_ms = TIME
    _, changes = await watch(world, sweep(world), judged=True)
    assert changes == {
        "nodes": {"n1": {"standing": Standing.available}},
        "standing": {"n1": 16},
        "room": {1: 1},
        "due": {"n:n1": T0 + 35_000},
    }
    assert (await node(world)).probe_at_ms == TIME


async def test_a_dispatch_at_that_very_moment_finds_it(world: World) -> None:
    """Among all that have room, and not for want of others."""
    await join(world, "n1", max_concurrent_jobs=4)
    await doubt(world, "n1")
    await join(world, "n2", max_concurrent_jobs=1)
    world.now_ms = TIME
    await place(world)
    assert (await world.cell()).jobs[A].choice == Choice(1, 2, 0, [])


async def test_how_long_it_takes_is_a_setting(make_world: MakeWorld) -> None:
    world = await make_world(Rules(probe_ms=70))
    await join(world)
    await doubt(world, "n1")
    for after_ms, standing in ((69, Standing.suspect), (1, Standing.available)):
        world.now_ms += after_ms
        await sweep(world)
        assert (await node(world)).standing == standing


async def test_a_probe_is_one_job_and_with_it_the_node_is_a_suspect_again(world: World) -> None:
    await ready(world)
    await sweep(world)
    answer, changes = await watch(world, place(world), judged=True)
    assert answer.node_id == "n1"
    assert changes.pop("tickets").keys() == changes.pop("jobs").keys() == {A}
    assert changes == {
        "nodes": {"n1": {"used": 1, "standing": Standing.suspect}},
        "standing": {"n1": 17},
        "room": {1: SUSPECTS},
        "leases": {f"n1:{A}:1": HELD},
        "due": {f"j:{A}": TIME + 5_000},
        "counts": {"accepted": 5},
    }
    assert (await world.cell()).jobs[A].choice.reasons == []
    # A second job is for want of others.
    await place(world, B)
    assert (await world.cell()).jobs[B].choice.reasons == ["suspect"]


async def test_no_second_job_goes_to_a_node_that_is_being_probed_while_another_has_room(world: World) -> None:
    await ready(world, slots=4)
    await place(world, A)
    await join(world, "n3", max_concurrent_jobs=4)
    for number in range(4):
        assert (await place(world, f"{CELL}.{number}", seed=number << 29)).node_id == "n3"


async def test_a_success_lets_the_next_probe_follow_at_once(world: World) -> None:
    await ready(world)
    await place(world)
    world.now_ms += 50
    _, changes = await watch(world, done(world.engine, A, 1, "n1"), judged=True)
    assert changes == {
        "nodes": {
            "n1": {
                "used": 0,
                "recent": 0b1110,
                "standing": Standing.available,
                "probe_at_ms": TIME + 50,
                "typical_ms": 50,
            }
        },
        "standing": {"n1": 16},
        "room": {1: 1},
        "jobs": {A: {"state": "FINISHED", "ended_at_ms": TIME + 50}},
        "leases": {f"n1:{A}:1": GONE},
        "due": {f"j:{A}": FORGET_FROM + TIME + 50 + 120_000},
        "outbox": {Event("ended", A, 1, "n1", "1-n1", "", TIME + 50): TIME + 50},
        "counts": {"FINISHED": 1},
    }


async def test_so_many_successes_as_it_takes_clear_it(world: World) -> None:
    """Three of three failed: after three successes only two of the last five did."""
    await ready(world)
    for job_id, recent, probe_at in ((A, 0b1110, TIME), (B, 0b11100, TIME), (C, 0b11000, 0)):
        await place(world, job_id)
        assert (await node(world)).standing == Standing.suspect
        await done(world.engine, job_id, 1, "n1")
        record = await node(world)
        assert (record.recent, record.probe_at_ms, record.standing) == (recent, probe_at, Standing.available)
    await give(world, "n1")
    assert (await node(world)).standing == Standing.available


async def test_who_failed_five_must_do_three(world: World) -> None:
    await join(world)
    await live(world, "n1", "xxxxx..")
    assert (await node(world)).probe_at_ms == T0
    await live(world, "n1", ".")
    record = await node(world)
    assert (record.recent, record.probe_at_ms) == (0b11000, 0)


async def test_a_failed_probe_puts_the_next_one_off(world: World) -> None:
    await ready(world)
    await place(world, limits=ONE_TRY)
    world.now_ms += 50
    _, changes = await watch(world, fail(world.engine, A, 1, "n1", reason="broken"), judged=True)
    now = TIME + 50
    blamed = past((1, "n1", "failed", now, "FAILED"), tries=1, reason="broken")
    assert changes == {
        "nodes": {"n1": {"used": 0, "recent": 0b1111, "probe_at_ms": now + 5_000}},
        "jobs": {A: {"state": "FAILED", "ended_at_ms": now, "past": blamed}},
        "leases": {f"n1:{A}:1": GONE},
        "due": {f"j:{A}": FORGET_FROM + now + 120_000, "n:n1": now + 5_000},
        "outbox": {Event("ended", A, 1, "n1", "1-n1", "broken", now): now},
        "counts": {"FAILED": 4},
    }


async def test_a_success_and_then_a_failure_leave_it_suspect(world: World) -> None:
    """A window, not a score: 0, 1, 1, 1, 0 and then 1, 1, 1, 0, 1."""
    await ready(world)
    await live(world, "n1", ".x")
    record = await node(world)
    assert (record.recent, record.standing) == (0b11101, Standing.suspect)
    assert record.probe_at_ms == TIME + 5_000


async def test_a_probe_that_is_cancelled_is_over_when_the_node_has_confirmed_it(world: World) -> None:
    """Neither for nor against it, so that the next one may follow."""
    await ready(world)
    await place(world)
    await cancel(world.engine, A)
    record = await node(world)
    assert (record.recent, record.standing) == (0b111, Standing.suspect)
    _, changes = await watch(world, stopped(world.engine, A, 1, "n1"), judged=True)
    assert changes["nodes"] == {"n1": {"used": 0, "limbo": 0, "standing": Standing.available}}


async def test_a_suspect_that_is_at_work_is_not_probed_before_it_is_done(world: World) -> None:
    """It was taken for want of others and still holds that job when its time comes."""
    await join(world)
    await doubt(world, "n1")
    await bring(world, "RUNNING")
    world.now_ms = TIME
    _, changes = await watch(world, sweep(world), judged=True)
    assert changes == {"due": {"n:n1": T0 + 35_000, f"j:{A}": T0 + 30_000}}
    assert (await node(world)).standing == Standing.suspect
    await done(world.engine, A, 1, "n1")
    assert (await node(world)).standing == Standing.available


@pytest.mark.parametrize("after_ms", [0, 4_999])
async def test_a_suspect_that_is_done_before_its_time_waits_for_it_unless_it_did_well(
    world: World, after_ms: int
) -> None:
    await join(world)
    await doubt(world, "n1")
    await place(world)
    await cancel(world.engine, A)
    world.now_ms += after_ms
    await stopped(world.engine, A, 1, "n1")
    assert (await node(world)).standing == Standing.suspect
    await live(world, "n1", ".")
    assert (await node(world)).standing == Standing.available


async def test_a_suspect_with_one_slot_is_full_while_it_is_probed(world: World) -> None:
    await ready(world, slots=1)
    await place(world)
    assert (await node(world)).standing == Standing.suspect_full
    await done(world.engine, A, 1, "n1")
    assert (await node(world)).standing == Standing.available


async def test_the_time_of_a_probe_outlives_a_reconnect(world: World) -> None:
    await join(world, connection="x")
    await doubt(world, "n1")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 100
    _, changes = await watch(world, join(world, connection="y", epoch="1-n1"), judged=True)
    assert changes["nodes"]["n1"] | {"seen_at_ms": 0} == {
        "away_until_ms": 0,
        "standing": Standing.suspect,
        "seen_at_ms": 0,
        "nonce": "y",
    }
    assert changes["due"] == {"n:n1": TIME}


async def test_the_time_of_a_probe_comes_while_the_node_is_away(world: World) -> None:
    await join(world, connection="x")
    await doubt(world, "n1")
    await disconnect(world.engine, CELL, "n1", "x", "handover")
    world.now_ms = TIME + 1
    await sweep(world)
    assert (await node(world)).standing == Standing.not_ready
    assert (await join(world, connection="y", epoch="1-n1")).standing == Standing.available


async def test_a_lost_suspect_that_is_back_waits_for_its_probe_from_when_it_was_lost(world: World) -> None:
    await join(world, connection="x")
    await live(world, "n1", "xx")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    await sweep(world)
    assert (await join(world, connection="y")).standing == Standing.suspect
    record = await node(world)
    assert (record.recent, record.probe_at_ms) == (0b111, T0 + 5_500)
    assert (await world.cell()).due["n:n1"] == T0 + 5_500
