from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, SUSPECTS, Event, Standing
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.heartbeat import heartbeat
from tests.support.cells import GONE, HELD, watch
from tests.support.stage import T0, A, B, bring, code_of, join, past, place, queued, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.support.world import World


@pytest.mark.parametrize("state", ["RESERVED", "DISPATCHED", "ACCEPTED", "RUNNING"])
async def test_a_failure_reserves_the_next_attempt_on_another_node(world: World, state: State) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await bring(world, state)
    await join(world, "n2", acks=False)
    before = (await world.cell()).jobs[A]
    world.now_ms += 7
    answer, changes = await watch(world, fail(world.engine, A, 1, "n1", "1-n1", reason="broken"))
    assert answer == Failed("RETRYING", 2, True, "n2", "2-n2", 0)
    after = {
        "state": "RESERVED",
        "attempt": 2,
        "node": "n2",
        "epoch": "2-n2",
        "acks": 0,
        "reserved_at_ms": T0 + 7,
        "dispatched_at_ms": 0,
        "accepted_at_ms": 0,
        "started_at_ms": 0,
        "past": past((1, "n1", "failed", T0 + 7, "RETRYING"), tries=1),
    }
    assert changes["jobs"][A].pop("seed") == (before.seed * 1664525 + 1013904223) % 2**32
    assert changes == {
        "nodes": {"n1": {"used": 0, "standing": 0}, "n2": {"used": 1}},
        "standing": {"n1": 16},
        "room": {1: 2},
        "jobs": {A: {name: value for name, value in after.items() if getattr(before, name) != value}},
        "leases": {f"n1:{A}:1": GONE, f"n2:{A}:2": HELD},
        "due": {f"j:{A}": T0 + 5_007},
        "outbox": {Event("reserved", A, 2, "n2", "2-n2", "", T0 + 7): T0 + 7},
    }


async def test_a_failure_with_nobody_free_waits_until_somebody_is(world: World) -> None:
    await join(world)
    await place(world)
    await drain(world.engine, CELL, "n1")
    answer, changes = await watch(world, fail(world.engine, A, 1, "n1", reason="broken"))
    assert answer == Failed("RETRYING", 2, False)
    assert changes == {
        "nodes": {"n1": {"used": 0}},
        "jobs": {A: {"state": "RETRYING", "past": past((1, "n1", "failed", T0, "RETRYING"), tries=1)}},
        "leases": {f"n1:{A}:1": GONE},
        "queue": {queued(A, T0 + 60_000): HELD},
        "due": {f"j:{A}": T0 + 60_000},
    }


async def test_three_tries_and_no_more(world: World) -> None:
    await join(world)
    await place(world)
    assert await fail(world.engine, A, 1, "n1", reason="one") == Failed("RETRYING", 2, True, "n1", "1-n1", 1)
    assert await fail(world.engine, A, 2, "n1", reason="two") == Failed("RETRYING", 3, True, "n1", "1-n1", 1)
    world.now_ms += 7
    answer, changes = await watch(world, fail(world.engine, A, 3, "n1", reason="three"))
    assert answer == Failed("FAILED", 3, False)
    attempts = past(
        (1, "n1", "failed", T0, "RETRYING"),
        (2, "n1", "failed", T0, "RETRYING"),
        (3, "n1", "failed", T0 + 7, "FAILED"),
        tries=3,
        reason="three",
    )
    assert changes == {
        "nodes": {"n1": {"used": 0, "standing": Standing.suspect, "probe_at_ms": T0 + 5_007}},
        "standing": {"n1": 16 + Standing.suspect},
        "room": {1: SUSPECTS},
        "jobs": {A: {"state": "FAILED", "ended_at_ms": T0 + 7, "past": attempts}},
        "leases": {f"n1:{A}:3": GONE},
        "due": {f"j:{A}": FORGET_FROM + T0 + 120_007, "n:n1": T0 + 5_007},
        "outbox": {
            Event("ended", A, 3, "n1", "1-n1", "three", T0 + 7): T0 + 7,
            Event("suspected", "", 3, "n1", "1-n1", f"failed {A}", T0 + 7): T0 + 7,
        },
        "counts": {"FAILED": 1},
    }


@pytest.mark.parametrize(("late_ms", "state"), [(299, "RETRYING"), (300, "EXPIRED")])
async def test_a_failure_at_the_deadline_expires_the_job(world: World, late_ms: int, state: State) -> None:
    await join(world)
    await place(world, limits=Limits(timeout_ms=300))
    world.now_ms += late_ms
    answer = await fail(world.engine, A, 1, "n1", reason="broken")
    assert isinstance(answer, Failed)
    assert (answer.state, answer.attempt_id) == (state, 2 if state == "RETRYING" else 1)
    job = (await world.cell()).jobs[A]
    assert job.past.reason == ("deadline" if state == "EXPIRED" else "")
    assert job.past.attempts[0].next_state == state


async def test_an_overloaded_node_rests_without_blame(world: World) -> None:
    await join(world)
    await place(world)
    world.now_ms += 7
    answer, changes = await watch(
        world, fail(world.engine, A, 1, "n1", reason="busy", overloaded=True, retry_after_ms=300)
    )
    assert answer == Failed("RETRYING", 2, False)
    assert changes == {
        "nodes": {"n1": {"used": 0, "standing": 4, "rest_until_ms": T0 + 307}},
        "standing": {"n1": 20},
        "room": {1: 0},
        "jobs": {A: {"state": "RETRYING", "past": past((1, "n1", "overloaded", T0 + 7, "RETRYING"), overloaded=1)}},
        "leases": {f"n1:{A}:1": GONE},
        "queue": {queued(A, T0 + 60_000): HELD},
        "due": {f"j:{A}": T0 + 60_000, "n:n1": T0 + 307},
        "outbox": {Event("resting", "", 300, "n1", "1-n1", "overloaded", T0 + 7): T0 + 7},
    }


@pytest.mark.parametrize(
    ("retry_after_ms", "rest_ms"), [(0, 1_000), (1, 1), (60_000, 60_000), (60_001, 60_000), (86_400_000, 60_000)]
)
async def test_a_rest_has_a_default_and_a_limit(world: World, retry_after_ms: int, rest_ms: int) -> None:
    await join(world)
    await place(world)
    await fail(world.engine, A, 1, "n1", reason="", overloaded=True, retry_after_ms=retry_after_ms)
    assert (await world.cell()).nodes["n1"].rest_until_ms == T0 + rest_ms


async def test_a_second_refusal_never_shortens_a_rest(world: World) -> None:
    await join(world)
    await asyncio.gather(place(world), place(world, B))
    await fail(world.engine, A, 1, "n1", reason="", overloaded=True, retry_after_ms=300)
    await fail(world.engine, B, 1, "n1", reason="", overloaded=True, retry_after_ms=200)
    assert (await world.cell()).nodes["n1"].rest_until_ms == T0 + 300


async def test_a_node_s_rest_never_hides_that_it_falls_stale_before(world: World) -> None:
    await join(world)
    await place(world)
    await fail(world.engine, A, 1, "n1", reason="", overloaded=True, retry_after_ms=50_000)
    assert (await world.cell()).due["n:n1"] == T0 + 35_000


async def test_a_node_that_rested_serves_again_at_that_very_moment(world: World) -> None:
    await join(world)
    await place(world)
    await fail(world.engine, A, 1, "n1", reason="", overloaded=True, retry_after_ms=300)
    world.now_ms += 299
    await sweep(world)
    assert (await world.cell()).nodes["n1"].standing == 4
    world.now_ms += 1
    await sweep(world)
    cell = await world.cell()
    assert (cell.nodes["n1"].standing, cell.due["n:n1"]) == (0, T0 + 35_000)


async def test_a_fleet_that_hands_a_job_round_spends_its_tries_in_the_end(world: World) -> None:
    await join(world)
    await place(world)
    for attempt in range(1, 14):
        answer = await fail(world.engine, A, attempt, "n1", reason="busy", overloaded=True, retry_after_ms=1)
        assert isinstance(answer, Failed)
        job = (await world.cell()).jobs[A]
        assert (job.past.overloaded, job.past.tries) == (attempt, max(0, attempt - 10))
        assert (answer.state, answer.attempt_id) == (("RETRYING", attempt + 1) if attempt < 13 else ("FAILED", 13))
        world.now_ms += 100
        await sweep(world)
    assert (await world.cell()).jobs[A].past.reason == "busy"


async def test_an_overloaded_node_is_avoided_by_its_own_job_even_after_its_rest(world: World) -> None:
    await join(world, "n1")
    await place(world)
    await join(world, "n2")
    answer = await fail(world.engine, A, 1, "n1", reason="", overloaded=True)
    assert answer == Failed("RETRYING", 2, True, "n2", "2-n2", 1)


@pytest.mark.parametrize(("overloaded", "end"), [(False, "failed"), (True, "overloaded")])
async def test_a_repeated_failure_gets_its_first_answer_again(world: World, overloaded: bool, end: str) -> None:
    await join(world, "n1")
    await place(world)
    await join(world, "n2")
    await fail(world.engine, A, 1, "n1", reason="broken", overloaded=overloaded)
    assert (await world.cell()).jobs[A].past.attempts[0].cause == end
    world.now_ms += 1
    again = fail(world.engine, A, 1, "n1", reason="broken", overloaded=overloaded)
    assert await watch(world, again) == (Failed("RETRYING", 2, False), {})
    await done(world.engine, A, 2, "n2")
    again = fail(world.engine, A, 1, "n1", reason="broken", overloaded=overloaded)
    assert await watch(world, again) == (Failed("RETRYING", 2, False), {})


@pytest.mark.parametrize(("overloaded", "cause"), [(False, "failed"), (True, "overloaded")])
async def test_a_repeated_failure_hears_the_number_that_its_next_attempt_really_has(
    world: World, overloaded: bool, cause: str
) -> None:
    """Two that n2 claims to work on already are passed over."""
    await join(world, "n1")
    await place(world)
    await join(world, "n2", max_concurrent_jobs=4, running=[(A, 2), (A, 3)])
    first, changes = await watch(world, fail(world.engine, A, 1, "n1", reason="broken", overloaded=overloaded))
    assert first == Failed("RETRYING", 4, True, "n2", "2-n2", 1)
    assert changes["jobs"][A]["past"].attempts == past((1, "n1", cause, T0, "RETRYING", 4)).attempts
    assert (await world.cell()).leases == [f"n2:{A}:2", f"n2:{A}:3", f"n2:{A}:4"]
    again = fail(world.engine, A, 1, "n1", reason="broken", overloaded=overloaded)
    assert await watch(world, again) == (Failed("RETRYING", 4, False), {})


async def test_a_repeated_failure_of_a_job_that_waited_hears_what_it_heard_first(world: World) -> None:
    """Its next number was not known then; that it is another one now is nothing to who failed."""
    await join(world, "n1")
    await place(world)
    await drain(world.engine, CELL, "n1")
    assert await fail(world.engine, A, 1, "n1", reason="broken") == Failed("RETRYING", 2, False)
    await join(world, "n2", running=[(A, 2)])
    assert (await world.cell()).jobs[A].attempt == 3
    again = fail(world.engine, A, 1, "n1", reason="broken")
    assert await watch(world, again) == (Failed("RETRYING", 2, False), {})


async def test_a_repeated_last_failure_hears_that_it_was_the_last(world: World) -> None:
    await join(world)
    await bring(world, "FAILED")
    again = fail(world.engine, A, 1, "n1", reason="broken")
    assert await watch(world, again) == (Failed("FAILED", 1, False), {})


async def test_a_failure_after_the_result_is_stale(world: World) -> None:
    await join(world)
    await bring(world, "FINISHED")
    answer, changes = await watch(world, fail(world.engine, A, 1, "n1", reason="broken"))
    assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


async def test_a_late_failure_of_a_fenced_attempt_only_ends_its_limbo(world: World) -> None:
    await join(world)
    await bring(world, "CANCELLED")
    lease = f"n1:{A}:1"
    answer, changes = await watch(world, fail(world.engine, A, 1, "n1", reason="stopped", overloaded=True))
    assert code_of(answer) == "STALE_ATTEMPT"
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0}},
        "leases": {lease: GONE},
        "limbo": {lease: GONE},
        "due": {f"l:{lease}": GONE},
    }


async def test_a_failure_is_fenced_like_every_word_about_an_attempt(world: World) -> None:
    await join(world)
    await place(world)
    for attempt, code in {
        (A, 1, "n1", "1-n0"): "STALE_ATTEMPT",
        (A, 1, "n2", ""): "NODE_MISMATCH",
        (A, 2, "n1", ""): "NODE_MISMATCH",
        (B, 1, "n1", ""): "UNKNOWN_JOB",
        (A, 0, "n1", ""): "INVALID_MESSAGE",
    }.items():
        answer, changes = await watch(world, fail(world.engine, *attempt, reason="x", overloaded=True))
        assert (code_of(answer), changes) == (code, {})


async def test_failures_of_one_tick_see_each_other(world: World) -> None:
    """Both leave n1; n2 has one slot, so one gets it and the other comes back to n1."""
    await join(world, "n1")
    await asyncio.gather(place(world), place(world, B))
    await join(world, "n2", max_concurrent_jobs=1)
    answers, changes = await watch(
        world,
        asyncio.gather(
            fail(world.engine, A, 1, "n1", reason="a"),
            fail(world.engine, "c0.x", 1, "n1", reason="x"),
            fail(world.engine, B, 1, "n1", reason="b"),
        ),
    )
    assert answers[0] == Failed("RETRYING", 2, True, "n2", "2-n2", 1)
    assert code_of(answers[1]) == "UNKNOWN_JOB"
    assert answers[2] == Failed("RETRYING", 2, True, "n1", "1-n1", 1)
    assert changes["nodes"] == {"n1": {"used": 1, "standing": 0}, "n2": {"used": 1, "standing": 2}}


async def test_the_last_failures_of_one_tick_are_all_counted(world: World) -> None:
    await join(world)
    one_try = Limits(max_retry=0)
    await asyncio.gather(place(world, limits=one_try), place(world, B, limits=one_try))
    _, changes = await watch(
        world, asyncio.gather(*(fail(world.engine, job_id, 1, "n1", reason="x") for job_id in (A, B)))
    )
    assert changes["counts"] == {"FAILED": 2}


@pytest.mark.parametrize(
    "wrong",
    [{"reason": "x" * 513}, {"overloaded": 1}, {"retry_after_ms": -1}, {"retry_after_ms": 86_400_001}],
)
async def test_a_failure_that_cannot_be_right_never_reaches_the_engine(world: World, wrong: dict[str, Any]) -> None:
    assert code_of(await fail(world.engine, A, 1, "n1", **({"reason": ""} | wrong))) == "INVALID_MESSAGE"


async def test_a_failure_on_a_node_that_is_not_ready_any_more_leaves_it_so(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await place(world)
    await heartbeat(world.engine, CELL, "n1", health="degraded")
    await fail(world.engine, A, 1, "n1", reason="", overloaded=True)
    assert (await world.cell()).nodes["n1"].standing == 5
