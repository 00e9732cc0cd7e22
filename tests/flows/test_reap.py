"""What time does, row by row of the table in DESIGN: what ends an attempt, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, GONE_FROM, Event, Standing
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.attempts import Delivered
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.started import started
from lingua_scheduler.flows.undeliver import undeliver
from tests.support.cells import GONE, HELD, watch
from tests.support.stage import ONE_TRY, T0, A, bring, join, keep_alive, past, place, queued, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.support.cells import Changes
    from tests.support.world import World

NOTHING: tuple[Settled, Changes] = (Settled(0, False), {})


async def two_nodes(world: World, state: State, **asked: Any) -> None:
    """A job in `state` on n1, and n2 with room for it."""
    await join(world, "n1", connection="x")
    await bring(world, state, **asked)
    await join(world, "n2")


def fenced(end: str, now: int, **counted: Any) -> dict[str, Any]:
    """A's attempt on n1 went into limbo, and its next one is reserved on n2."""
    lease = f"n1:{A}:1"
    return {
        "nodes": {"n1": {"limbo": 1}, "n2": {"used": 1}},
        "past": past((1, "n1", end, now, "RETRYING"), **counted),
        "leases": {f"n2:{A}:2": HELD},
        "limbo": {lease: now},
        "due": {f"l:{lease}": now + 60_000, f"j:{A}": now + 5_000},
        "outbox": {
            Event("fenced", A, 1, "n1", "1-n1", end, now): now,
            Event("reserved", A, 2, "n2", "2-n2", "", now): now,
        },
    }


async def test_nothing_is_settled_before_its_time(world: World) -> None:
    await two_nodes(world, "RESERVED")
    world.now_ms += 4_999
    assert await watch(world, reap(world.engine, CELL)) == NOTHING


SHORT_RUN = Limits(ack_ms=5_000, run_ms=700, timeout_ms=4_000)


async def test_before_the_ack_somebody_looks_once_in_a_run(world: World) -> None:
    """So that the run of a job that is accepted late, and may take less than an ack, is bounded all the same."""
    await two_nodes(world, "RESERVED", limits=SHORT_RUN)
    world.now_ms += 699
    assert await watch(world, reap(world.engine, CELL)) == NOTHING
    world.now_ms += 1
    looked = await watch(world, reap(world.engine, CELL))
    assert looked == (Settled(1, False), {"due": {f"j:{A}": T0 + 1_400}})
    world.now_ms += 600
    await ack(world.engine, A, 1, "n1")
    world.now_ms += 100
    assert await watch(world, reap(world.engine, CELL)) == (Settled(1, False), {"due": {f"j:{A}": T0 + 2_000}})
    world.now_ms += 600
    await sweep(world)
    assert (await world.cell()).jobs[A].past.attempts[0].cause == "run_timeout"


@pytest.mark.parametrize(
    ("limits", "after_ms", "next_ms"),
    [(SHORT_RUN, 3_500, 4_000), (Limits(ack_ms=1_000, run_ms=700), 700, 1_000)],
    ids=["the job's deadline", "the time for the ack"],
)
async def test_a_look_before_the_ack_is_bounded_by(world: World, limits: Limits, after_ms: int, next_ms: int) -> None:
    await two_nodes(world, "RESERVED", limits=limits)
    world.now_ms += after_ms
    assert await watch(world, reap(world.engine, CELL)) == (Settled(1, False), {"due": {f"j:{A}": T0 + next_ms}})


@pytest.mark.parametrize(
    ("state", "cause", "counted"),
    [("RESERVED", "unsent", {"undelivered": 1}), ("DISPATCHED", "ack_timeout", {"tries": 1})],
)
async def test_an_ack_timeout_fences_the_attempt_and_costs_a_try_if_it_was_sent(
    world: World, state: State, cause: str, counted: dict[str, int]
) -> None:
    """If nobody said that the assignment was sent, it may have been all the same: the slot stays taken."""
    await two_nodes(world, state)
    world.now_ms += 5_000
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes["jobs"][A].pop("seed")
    job = changes.pop("jobs")[A]
    assert changes | {"past": job["past"]} == fenced(cause, T0 + 5_000, **counted)
    assert (job["attempt"], job["node"], job["epoch"]) == (2, "n2", "2-n2")


async def test_what_nobody_sends_has_a_bound_of_its_own_and_costs_no_try(world: World) -> None:
    """Not even of a job that has only one. What could not be written counts toward the same bound."""
    for number in range(12):
        await join(world, f"n{number}")
    await place(world, limits=Limits(max_retry=0, timeout_ms=120_000))
    here = (await world.cell()).jobs[A].node
    assert isinstance(await undeliver(world.engine, A, 1, here), Delivered)
    for attempt in range(2, 12):
        job = (await world.cell()).jobs[A]
        assert (job.state, job.attempt, job.past.undelivered, job.past.tries) == ("RESERVED", attempt, attempt - 1, 0)
        world.now_ms += 5_000
        await keep_alive(world, *(f"n{number}" for number in range(12)))
        await sweep(world)
    job = (await world.cell()).jobs[A]
    assert (job.state, job.past.reason, job.past.undelivered, job.past.tries) == ("FAILED", "unsent", 11, 0)


async def test_a_number_that_the_next_node_claims_is_passed_over_by_a_timeout_too(world: World) -> None:
    await join(world, "n1")
    await place(world)
    await join(world, "n2", max_concurrent_jobs=3, running=[(A, 2)])
    world.now_ms += 5_000
    _, changes = await watch(world, reap(world.engine, CELL))
    job = changes["jobs"][A]
    assert (job["node"], job["attempt"]) == ("n2", 3)
    assert job["past"] == past((1, "n1", "unsent", T0 + 5_000, "RETRYING", 3), undelivered=1)


@pytest.mark.parametrize("state", ["ACCEPTED", "RUNNING"])
async def test_a_run_timeout_fences_the_attempt_and_costs_a_try(world: World, state: State) -> None:
    await two_nodes(world, state)
    world.now_ms += 29_999
    await keep_alive(world, "n1", "n2")
    assert await watch(world, reap(world.engine, CELL)) == (Settled(1, False), {"due": {f"j:{A}": T0 + 30_000}})
    assert await watch(world, reap(world.engine, CELL)) == NOTHING
    world.now_ms += 1
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    job = changes.pop("jobs")[A]
    assert changes | {"past": job["past"]} == fenced("run_timeout", T0 + 30_000, tries=1)
    assert (job["state"], job["attempt"], job["accepted_at_ms"]) == ("RESERVED", 2, 0)


@pytest.mark.parametrize(
    ("state", "wait_ms", "why"),
    [("DISPATCHED", 5_000, "ack_timeout"), ("RUNNING", 30_000, "run_timeout")],
)
async def test_a_timeout_of_the_last_try_ends_the_job(world: World, state: State, wait_ms: int, why: str) -> None:
    await two_nodes(world, state, limits=ONE_TRY)
    world.now_ms += wait_ms
    now = world.now_ms
    _, changes = await watch(world, reap(world.engine, CELL))
    assert changes["jobs"] == {
        A: {
            "state": "FAILED",
            "ended_at_ms": now,
            "past": past((1, "n1", why, now, "FAILED"), tries=1, reason=why),
        }
    }
    assert changes["outbox"] == {
        Event("fenced", A, 1, "n1", "1-n1", why, now): now,
        Event("ended", A, 1, "n1", "1-n1", why, now): now,
    }
    assert changes["due"] == {f"j:{A}": FORGET_FROM + now + 120_000, f"l:n1:{A}:1": now + 60_000}
    assert changes["counts"] == {"FAILED": 1}


@pytest.mark.parametrize("state", ["RESERVED", "DISPATCHED", "ACCEPTED", "RUNNING"])
async def test_the_deadline_expires_the_job_wherever_it_is(world: World, state: State) -> None:
    await two_nodes(world, state, limits=Limits(timeout_ms=300, max_retry=0))
    world.now_ms += 299
    assert await watch(world, reap(world.engine, CELL)) == NOTHING
    world.now_ms += 1
    now = T0 + 300
    answer, changes = await watch(world, reap(world.engine, CELL))
    lease = f"n1:{A}:1"
    assert answer == Settled(1, False)
    assert changes == {
        "nodes": {"n1": {"limbo": 1}},
        "jobs": {
            A: {
                "state": "EXPIRED",
                "ended_at_ms": now,
                "past": past((1, "n1", "expired", now, "EXPIRED"), reason="deadline"),
            }
        },
        "limbo": {lease: now},
        "due": {f"j:{A}": FORGET_FROM + now + 120_000, f"l:{lease}": now + 60_000},
        "outbox": {
            Event("fenced", A, 1, "n1", "1-n1", "expired", now): now,
            Event("ended", A, 1, "n1", "1-n1", "deadline", now): now,
        },
        "counts": {"EXPIRED": 1},
    }


@pytest.mark.parametrize("pool", ["draining", "gone"])
async def test_a_job_that_waits_for_a_node_in_vain_expires(world: World, pool: str) -> None:
    """Nobody looks at it before: whoever frees a slot for it will."""
    await join(world)
    await place(world, limits=Limits(timeout_ms=115))
    if pool == "gone":
        await heartbeat(world.engine, CELL, "n1", nmt_pairs=[["zh", "en"]])
    else:
        await drain(world.engine, CELL, "n1")
    await undeliver(world.engine, A, 1, "n1")
    world.now_ms += 114
    assert await watch(world, reap(world.engine, CELL)) == NOTHING
    world.now_ms += 1
    now = T0 + 115
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    undelivered = past((1, "n1", "undelivered", T0, "RETRYING"), undelivered=1, reason="deadline")
    assert changes == {
        "jobs": {A: {"state": "EXPIRED", "ended_at_ms": now, "past": undelivered}},
        "queue": {queued(A, now): GONE},
        "due": {f"j:{A}": FORGET_FROM + now + 120_000},
        "outbox": {Event("ended", A, 1, "n1", "1-n1", "deadline", now): now},
        "counts": {"EXPIRED": 1},
    }


@pytest.mark.parametrize(
    ("state", "end", "counted"),
    [
        ("RESERVED", "lost_early", {}),
        ("DISPATCHED", "lost_early", {}),
        ("ACCEPTED", "lost", {"tries": 1, "lost": 1}),
        ("RUNNING", "lost", {"tries": 1, "lost": 1}),
    ],
)
async def test_a_node_whose_socket_stays_closed_for_its_grace_is_lost(
    world: World, state: State, end: str, counted: dict[str, int]
) -> None:
    await two_nodes(world, state)
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 499
    assert await watch(world, reap(world.engine, CELL)) == NOTHING
    world.now_ms += 1
    now = T0 + 500
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    expected = fenced(end, now, **counted)
    assert changes.pop("jobs")[A]["past"] == expected.pop("past")
    expected["nodes"]["n1"] |= {"standing": Standing.lost, "lost_at_ms": now}
    expected["due"]["n:n1"] = GONE_FROM + now + 3_600_000 + 60_000
    expected["outbox"][Event("lost", "", 0, "n1", "1-n1", "closed", now)] = now
    assert changes == expected | {"standing": {"n1": 16 + Standing.lost}}


async def test_a_node_that_the_scheduler_hung_up_on_has_a_longer_grace(world: World) -> None:
    await two_nodes(world, "RUNNING")
    await disconnect(world.engine, CELL, "n1", "x", "handover")
    world.now_ms += 9_999
    assert await watch(world, reap(world.engine, CELL)) == (Settled(1, False), {"due": {f"j:{A}": T0 + 30_000}})
    world.now_ms += 1
    await sweep(world)
    assert (await world.cell()).jobs[A].past.attempts[0].cause == "lost"


async def test_a_silent_node_is_stale_first_and_lost_later(world: World) -> None:
    await join(world, "n1")
    world.now_ms += 34_999
    assert await watch(world, reap(world.engine, CELL)) == NOTHING
    world.now_ms += 1
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes == {
        "nodes": {"n1": {"standing": Standing.stale}},
        "standing": {"n1": 16 + Standing.stale},
        "room": {1: 0},
        "due": {"n:n1": T0 + 45_000},
    }
    world.now_ms += 9_999
    assert await watch(world, reap(world.engine, CELL)) == NOTHING
    world.now_ms += 1
    now = T0 + 45_000
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes == {
        "nodes": {"n1": {"standing": Standing.lost, "lost_at_ms": now}},
        "standing": {"n1": 16 + Standing.lost},
        "due": {"n:n1": GONE_FROM + now + 3_600_000},
        "outbox": {Event("lost", "", 0, "n1", "1-n1", "silent", now): now},
    }


async def test_a_node_looked_at_late_is_stale_first_all_the_same_and_lost_at_the_next_look(world: World) -> None:
    await join(world, "n1")
    now = world.now_ms = T0 + 45_000
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, True)
    assert changes == {
        "nodes": {"n1": {"standing": Standing.stale}},
        "standing": {"n1": 16 + Standing.stale},
        "room": {1: 0},
        "due": {"n:n1": now},
    }
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes == {
        "nodes": {"n1": {"standing": Standing.lost, "lost_at_ms": now}},
        "standing": {"n1": 16 + Standing.lost},
        "due": {"n:n1": GONE_FROM + now + 3_600_000},
        "outbox": {Event("lost", "", 0, "n1", "1-n1", "silent", now): now},
    }


async def test_a_silent_node_s_work_goes_to_others(world: World) -> None:
    await two_nodes(world, "RESERVED", limits=Limits(ack_ms=50_000, run_ms=50_000))
    await started(world.engine, A, 1, "n1")
    world.now_ms += 45_000
    await keep_alive(world, "n2")
    _, changes = await watch(world, reap(world.engine, CELL))
    assert "jobs" not in changes
    _, changes = await watch(world, reap(world.engine, CELL))
    assert changes["jobs"][A]["past"] == past((1, "n1", "lost", T0 + 45_000, "RETRYING"), tries=1, lost=1)
    assert changes["jobs"][A]["node"] == "n2"


async def test_a_job_that_took_two_nodes_down_is_poison(world: World) -> None:
    for node_id in ("n1", "n2", "n3"):
        await join(world, node_id, connection="x")
    await bring(world, "RUNNING", limits=Limits(max_retry=10))
    first = (await world.cell()).jobs[A].node
    await disconnect(world.engine, CELL, first, "x")
    world.now_ms += 500
    await sweep(world)
    second = (await world.cell()).jobs[A]
    await started(world.engine, A, 2, second.node)
    await disconnect(world.engine, CELL, second.node, "x")
    world.now_ms += 500
    _, changes = await watch(world, reap(world.engine, CELL))
    job = (await world.cell()).jobs[A]
    assert (job.state, job.past.reason, job.past.lost, job.past.tries) == ("FAILED", "poison", 2, 2)
    assert Event("ended", A, 2, second.node, second.epoch, "poison", T0 + 1_000) in changes["outbox"]
    assert changes["counts"] == {"FAILED": 1}


async def test_a_job_that_nobody_had_accepted_is_no_poison(world: World) -> None:
    """A node lost before it accepted costs nothing, however often."""
    for number in range(4):
        await join(world, f"n{number}", connection="x")
    await bring(world, "DISPATCHED", limits=ONE_TRY)
    for attempt in range(1, 4):
        job = (await world.cell()).jobs[A]
        assert (job.state, job.attempt) == ("DISPATCHED", attempt)
        await disconnect(world.engine, CELL, job.node, "x")
        world.now_ms += 500
        await sweep(world)
        job = (await world.cell()).jobs[A]
        await deliver(world.engine, A, job.attempt, job.node)
    assert (job.past.tries, job.past.lost) == (0, 0)
