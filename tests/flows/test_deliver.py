from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, Event
from lingua_scheduler.flows.deliver import Delivered, deliver
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from tests.support.cells import GONE, HELD, watch
from tests.support.stage import T0, A, B, bring, code_of, join, past, place
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.support.world import World


async def test_a_delivered_job_awaits_its_ack_no_longer_for_it(world: World) -> None:
    await join(world)
    await place(world)
    world.now_ms += 7
    answer, changes = await watch(world, deliver(world.engine, A, 1, "n1", "1-n1"))
    assert answer == Delivered("DISPATCHED", 1, "n1", "1-n1", 1)
    assert changes == {"jobs": {A: {"state": "DISPATCHED", "dispatched_at_ms": T0 + 7}}}


async def test_a_node_that_never_acks_accepts_by_the_write(world: World) -> None:
    await join(world, acks=False)
    await place(world)
    world.now_ms += 7
    answer, changes = await watch(world, deliver(world.engine, A, 1, "n1"))
    assert answer == Delivered("ACCEPTED", 1, "n1", "1-n1", 0)
    assert changes == {
        "jobs": {A: {"state": "ACCEPTED", "dispatched_at_ms": T0 + 7, "accepted_at_ms": T0 + 7}},
        "due": {f"j:{A}": T0 + 30_007},
    }


async def test_an_implicit_ack_is_bounded_by_the_job_s_deadline(world: World) -> None:
    await join(world, acks=False)
    await place(world, limits=Limits(run_ms=500, timeout_ms=300))
    await deliver(world.engine, A, 1, "n1")
    assert (await world.cell()).due[f"j:{A}"] == T0 + 300


@pytest.mark.parametrize("state", ["DISPATCHED", "ACCEPTED", "RUNNING", "FINISHED"])
@pytest.mark.parametrize("sent", [True, False])
async def test_once_the_node_has_answered_a_delivery_changes_nothing(world: World, state: State, sent: bool) -> None:
    """A write that failed here got through elsewhere: the job is the node's."""
    await join(world)
    await bring(world, state)
    world.now_ms += 1
    answer = await watch(world, deliver(world.engine, A, 1, "n1", sent=sent))
    assert answer == (Delivered(state, 1, "n1", "1-n1", 1), {})


async def test_a_write_that_failed_moves_the_job_to_another_node_at_no_cost(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await place(world, limits=Limits(max_retry=0))
    await join(world, "n2", acks=False)
    world.now_ms += 7
    answer, changes = await watch(world, deliver(world.engine, A, 1, "n1", sent=False))
    assert answer == Delivered("RESERVED", 2, "n2", "2-n2", 0)
    assert changes == {
        "nodes": {"n1": {"used": 0, "standing": 0}, "n2": {"used": 1}},
        "standing": {"n1": 16},
        "room": {1: 2},
        "jobs": {
            A: {
                "attempt": 2,
                "node": "n2",
                "epoch": "2-n2",
                "acks": 0,
                "seed": (await world.cell()).jobs[A].seed,
                "reserved_at_ms": T0 + 7,
                "past": past((1, "n1", "undelivered", T0 + 7, "RETRYING"), undelivered=1),
            }
        },
        "leases": {f"n1:{A}:1": GONE, f"n2:{A}:2": HELD},
        "due": {f"j:{A}": T0 + 5_007},
        "outbox": {Event("reserved", A, 2, "n2", "2-n2", "", T0 + 7): T0 + 7},
    }


async def test_a_write_that_failed_with_nobody_else_waits_for_a_node(world: World) -> None:
    await join(world)
    await place(world)
    await heartbeat(world.engine, CELL, "n1", health="degraded")
    answer, changes = await watch(world, deliver(world.engine, A, 1, "n1", sent=False))
    assert answer == Delivered("RETRYING", 1, "n1", "1-n1", 1)
    assert changes == {
        "nodes": {"n1": {"used": 0}},
        "jobs": {A: {"state": "RETRYING", "past": past((1, "n1", "undelivered", T0, "RETRYING"), undelivered=1)}},
        "leases": {f"n1:{A}:1": GONE},
        "due": {f"j:{A}": T0 + 100},
    }


async def test_the_eleventh_write_that_fails_is_the_last(world: World) -> None:
    await join(world)
    await place(world)
    for attempt in range(1, 11):
        answer = await deliver(world.engine, A, attempt, "n1", sent=False)
        assert isinstance(answer, Delivered)
        assert (answer.state, answer.attempt_id) == ("RESERVED", attempt + 1)
    answer, changes = await watch(world, deliver(world.engine, A, 11, "n1", sent=False))
    assert answer == Delivered("FAILED", 11, "n1", "1-n1", 1)
    job = (await world.cell()).jobs[A]
    assert (job.past.undelivered, job.past.tries, job.past.reason) == (11, 0, "undelivered")
    assert changes == {
        "nodes": {"n1": {"used": 0}},
        "jobs": {A: {"state": "FAILED", "ended_at_ms": T0, "past": job.past}},
        "leases": {f"n1:{A}:11": GONE},
        "due": {f"j:{A}": FORGET_FROM + T0 + 120_000},
        "outbox": {Event("ended", A, 11, "n1", "1-n1", "undelivered", T0): T0},
        "counts": {"FAILED": 1},
    }


@pytest.mark.parametrize("sent", [True, False])
async def test_a_delivery_is_fenced_like_every_word_about_an_attempt(world: World, sent: bool) -> None:
    await join(world)
    await place(world)
    codes = [
        code_of(await deliver(world.engine, *attempt, sent=sent))
        for attempt in [(A, 1, "n1", "1-n0"), (A, 1, "n2", ""), (A, 2, "n1", ""), (B, 1, "n1", ""), (A, 0, "n1", "")]
    ]
    assert codes == ["STALE_ATTEMPT", "NODE_MISMATCH", "NODE_MISMATCH", "UNKNOWN_JOB", "INVALID_MESSAGE"]
    assert (await world.cell()).jobs[A].state == "RESERVED"


async def test_a_late_delivery_of_a_fenced_attempt_changes_nothing(world: World) -> None:
    await join(world)
    await place(world)
    await fail(world.engine, A, 1, "n1", reason="broken")
    for sent in (True, False):
        answer, changes = await watch(world, deliver(world.engine, A, 1, "n1", sent=sent))
        assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


async def test_writes_that_failed_in_one_tick_do_not_lose_each_other_s_slots(world: World) -> None:
    await join(world, "n1")
    await asyncio.gather(place(world), place(world, B))
    await join(world, "n2")
    answers, changes = await watch(
        world, asyncio.gather(*(deliver(world.engine, job_id, 1, "n1", sent=False) for job_id in (A, B)))
    )
    assert answers == [Delivered("RESERVED", 2, "n2", "2-n2", 1)] * 2
    assert changes["nodes"] == {"n1": {"used": 0, "standing": 0}, "n2": {"used": 2, "standing": 1}}
    assert "room" not in changes
    assert changes["standing"] == {"n1": 16, "n2": 17}


async def test_sent_must_be_said(world: World) -> None:
    answer = await deliver(world.engine, A, 1, "n1", sent=1)  # type: ignore[arg-type]  # the point of the test
    assert code_of(answer) == "INVALID_MESSAGE"
