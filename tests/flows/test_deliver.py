from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, Event
from lingua_scheduler.flows.attempts import Delivered
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.undeliver import undeliver
from tests.support.cells import GONE, HELD, watch
from tests.support.stage import T0, A, B, bring, code_of, join, past, place, queued, sweep
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
    assert changes == {"jobs": {A: {"state": "ACCEPTED", "dispatched_at_ms": T0 + 7, "accepted_at_ms": T0 + 7}}}


async def test_an_implicit_ack_is_bounded_by_the_job_s_deadline(world: World) -> None:
    await join(world, acks=False)
    await place(world, limits=Limits(run_ms=500, timeout_ms=300))
    await deliver(world.engine, A, 1, "n1")
    assert (await world.cell()).due[f"j:{A}"] == T0 + 300


@pytest.mark.parametrize("state", ["DISPATCHED", "ACCEPTED", "RUNNING", "FINISHED"])
@pytest.mark.parametrize("flow", [deliver, undeliver])
async def test_once_the_node_has_answered_a_delivery_changes_nothing(world: World, state: State, flow: Any) -> None:
    """A write that failed here got through elsewhere: the job is the node's."""
    await join(world)
    await bring(world, state)
    world.now_ms += 1
    answer = await watch(world, flow(world.engine, A, 1, "n1"))
    assert answer == (Delivered(state, 1, "n1", "1-n1", 1), {})


async def test_a_write_that_failed_moves_the_job_to_another_node_at_no_cost(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await place(world, limits=Limits(max_retry=0))
    await join(world, "n2", acks=False)
    world.now_ms += 7
    answer, changes = await watch(world, undeliver(world.engine, A, 1, "n1"))
    assert answer == Delivered("RESERVED", 2, "n2", "2-n2", 0)
    assert changes == {
        "nodes": {"n1": {"used": 0, "standing": 4, "rest_until_ms": T0 + 507}, "n2": {"used": 1}},
        "standing": {"n1": 20},
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
        "due": {f"j:{A}": T0 + 5_007, "n:n1": T0 + 507},
        "outbox": {
            Event("reserved", A, 2, "n2", "2-n2", "", T0 + 7): T0 + 7,
            Event("resting", "", 500, "n1", "1-n1", "undelivered", T0 + 7): T0 + 7,
        },
    }


async def test_a_write_that_failed_with_nobody_else_waits_for_a_node(world: World) -> None:
    await join(world)
    await place(world)
    await heartbeat(world.engine, CELL, "n1", health="degraded")
    answer, changes = await watch(world, undeliver(world.engine, A, 1, "n1"))
    assert answer == Delivered("RETRYING", 1, "n1", "1-n1", 1)
    assert changes == {
        "nodes": {"n1": {"used": 0, "rest_until_ms": T0 + 500}},
        "jobs": {A: {"state": "RETRYING", "past": past((1, "n1", "undelivered", T0, "RETRYING"), undelivered=1)}},
        "leases": {f"n1:{A}:1": GONE},
        "queue": {queued(A, T0 + 60_000): HELD},
        "due": {f"j:{A}": T0 + 60_000, "n:n1": T0 + 500},
        "outbox": {Event("resting", "", 500, "n1", "1-n1", "undelivered", T0): T0},
    }


async def test_the_eleventh_write_that_fails_is_the_last(world: World) -> None:
    await join(world)
    await place(world)
    for attempt in range(1, 11):
        answer = await undeliver(world.engine, A, attempt, "n1")
        assert isinstance(answer, Delivered)
        assert (answer.state, answer.attempt_id) == ("RETRYING", attempt)
        world.now_ms += 500
        await sweep(world)
    now = world.now_ms
    answer, changes = await watch(world, undeliver(world.engine, A, 11, "n1"))
    assert answer == Delivered("FAILED", 11, "n1", "1-n1", 1)
    told = changes["jobs"][A]["past"]
    assert (told.undelivered, told.tries, told.reason) == (11, 0, "undelivered")
    assert changes == {
        "nodes": {"n1": {"used": 0, "standing": 4, "rest_until_ms": now + 500, "probe_at_ms": now + 5_000}},
        "standing": {"n1": 20},
        "room": {1: 0},
        "jobs": {A: {"state": "FAILED", "ended_at_ms": now, "past": told}},
        "leases": {f"n1:{A}:11": GONE},
        "due": {f"j:{A}": FORGET_FROM + now + 120_000, "n:n1": now + 500},
        "outbox": {
            Event("ended", A, 11, "n1", "1-n1", "undelivered", now): now,
            Event("resting", "", 500, "n1", "1-n1", "undelivered", now): now,
        },
        "counts": {"FAILED": 1},
    }


@pytest.mark.parametrize("flow", [deliver, undeliver])
async def test_a_delivery_is_fenced_like_every_word_about_an_attempt(world: World, flow: Any) -> None:
    await join(world)
    await place(world)
    codes = [
        code_of(await flow(world.engine, *attempt))
        for attempt in [(A, 1, "n1", "1-n0"), (A, 1, "n2", ""), (A, 2, "n1", ""), (B, 1, "n1", ""), (A, 0, "n1", "")]
    ]
    assert codes == ["STALE_ATTEMPT", "NODE_MISMATCH", "NODE_MISMATCH", "UNKNOWN_JOB", "INVALID_MESSAGE"]
    assert (await world.cell()).jobs[A].state == "RESERVED"


async def test_a_late_delivery_of_a_fenced_attempt_changes_nothing(world: World) -> None:
    await join(world)
    await place(world)
    await fail(world.engine, A, 1, "n1", reason="broken")
    for flow in (deliver, undeliver):
        answer, changes = await watch(world, flow(world.engine, A, 1, "n1"))
        assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


@pytest.mark.parametrize("epoch", ["", "1-n1"])
async def test_a_write_that_failed_and_is_told_again_hears_where_the_job_is_now(world: World, epoch: str) -> None:
    await join(world, "n1")
    await place(world)
    await drain(world.engine, CELL, "n1")
    await undeliver(world.engine, A, 1, "n1")
    again = undeliver(world.engine, A, 1, "n1", epoch)
    assert await watch(world, again) == (Delivered("RETRYING", 1, "n1", "1-n1", 1), {})
    await join(world, "n2", acks=False)
    again = undeliver(world.engine, A, 1, "n1", epoch)
    assert await watch(world, again) == (Delivered("RESERVED", 2, "n2", "2-n2", 0), {})
    await done(world.engine, A, 2, "n2")
    again = undeliver(world.engine, A, 1, "n1", epoch)
    assert await watch(world, again) == (Delivered("FINISHED", 2, "n2", "2-n2", 0), {})


async def test_only_the_same_word_about_the_same_attempt_is_told_again(world: World) -> None:
    """Not that it got through after all, nor another node's word, nor about an attempt that ended otherwise."""
    await join(world, "n1")
    await place(world)
    await join(world, "n2")
    await undeliver(world.engine, A, 1, "n1")
    assert code_of(await deliver(world.engine, A, 1, "n1")) == "STALE_ATTEMPT"
    assert code_of(await undeliver(world.engine, A, 1, "n2")) == "NODE_MISMATCH"
    await fail(world.engine, A, 2, "n2", reason="broken")
    assert code_of(await undeliver(world.engine, A, 2, "n2")) == "STALE_ATTEMPT"


async def test_a_write_that_failed_is_the_last_however_often_it_is_told(world: World) -> None:
    await join(world)
    await place(world, limits=Limits(timeout_ms=300))
    world.now_ms += 300
    for _ in range(2):
        answer = await undeliver(world.engine, A, 1, "n1")
        assert answer == Delivered("EXPIRED", 1, "n1", "1-n1", 1)
    assert (await world.cell()).counts["EXPIRED"] == 1


async def test_writes_that_failed_in_one_tick_do_not_lose_each_other_s_slots(world: World) -> None:
    await join(world, "n1")
    await asyncio.gather(place(world), place(world, B))
    await join(world, "n2")
    answers, changes = await watch(
        world, asyncio.gather(*(undeliver(world.engine, job_id, 1, "n1") for job_id in (A, B)))
    )
    assert answers == [Delivered("RESERVED", 2, "n2", "2-n2", 1)] * 2
    resting = {"used": 0, "standing": 4, "rest_until_ms": T0 + 500}
    assert changes["nodes"] == {"n1": resting, "n2": {"used": 2, "standing": 2}}
    assert changes["room"] == {1: 0}
    assert changes["standing"] == {"n1": 20, "n2": 18}


class TestWhoIsNotSure:
    """Somebody who is gone may have written it."""

    @pytest.fixture
    async def away(self, world: World) -> None:
        """Its node has lost its instance, and has the job or not."""
        await join(world, connection="s1")
        await place(world)
        await disconnect(world.engine, CELL, "n1", "s1", "handover")

    @pytest.mark.usefixtures("away")
    async def test_leaves_it_with_a_node_that_may_come_back(self, world: World) -> None:
        said = undeliver(world.engine, A, 1, "n1", "1-n1", unsure=True)
        assert await watch(world, said) == (Delivered("RESERVED", 1, "n1", "1-n1", 1), {})
        await join(world, connection="s2", epoch="1-n1", running=[(A, 1)])
        assert (await world.cell()).jobs[A].state == "ACCEPTED"

    @pytest.mark.usefixtures("away")
    async def test_and_if_it_comes_back_without_it_goes_on_at_once(self, world: World) -> None:
        await undeliver(world.engine, A, 1, "n1", "1-n1", unsure=True)
        await join(world, connection="s2", epoch="1-n1", running=[])
        job = (await world.cell()).jobs[A]
        assert [(one.attempt, one.cause) for one in job.past.attempts] == [(1, "undelivered")]

    @pytest.mark.usefixtures("away")
    async def test_and_if_it_does_not_it_is_lost_with_its_grace(self, world: World) -> None:
        await undeliver(world.engine, A, 1, "n1", "1-n1", unsure=True)
        world.now_ms += world.rules.handover_grace_ms
        await sweep(world)
        job = (await world.cell()).jobs[A]
        assert [(one.attempt, one.cause) for one in job.past.attempts] == [(1, "lost_early")]

    @pytest.mark.usefixtures("away")
    async def test_who_is_sure_does_not(self, world: World) -> None:
        answer = await undeliver(world.engine, A, 1, "n1", "1-n1")
        assert isinstance(answer, Delivered)
        assert answer.state == "RETRYING"

    async def test_does_not_where_the_node_is_there(self, world: World) -> None:
        await join(world, connection="s1")
        await place(world)
        answer = await undeliver(world.engine, A, 1, "n1", "1-n1", unsure=True)
        assert isinstance(answer, Delivered)
        assert answer.state == "RETRYING"
