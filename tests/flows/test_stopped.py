from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Event
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.stopped import Stopped, stopped
from tests.support.cells import GONE, HELD, watch
from tests.support.stage import ONE_TRY, T0, A, B, bring, code_of, join, keep_alive, past, place, queued, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.support.world import World


@pytest.mark.parametrize("state", ["RESERVED", "DISPATCHED", "ACCEPTED", "RUNNING"])
async def test_a_node_that_gives_up_its_current_attempt_has_failed_it(world: World, state: State) -> None:
    await join(world, "n1")
    await bring(world, state)
    await join(world, "n2")
    world.now_ms += 7
    answer, changes = await watch(world, stopped(world.engine, A, 1, "n1", "1-n1"))
    assert answer == Stopped("RETRYING", 2)
    assert changes["jobs"][A]["past"] == past((1, "n1", "stopped", T0 + 7, "RETRYING"), tries=1)
    assert changes["leases"] == {f"n1:{A}:1": GONE, f"n2:{A}:2": HELD}
    assert changes["nodes"] == {"n1": {"used": 0}, "n2": {"used": 1}}
    assert changes["outbox"] == {Event("reserved", A, 2, "n2", "2-n2", "", T0 + 7): T0 + 7}


async def test_a_job_given_up_with_nobody_else_waits_under_its_next_number(world: World) -> None:
    await join(world)
    await place(world)
    await drain(world.engine, CELL, "n1")
    answer, changes = await watch(world, stopped(world.engine, A, 1, "n1"))
    assert answer == Stopped("RETRYING", 2)
    assert changes == {
        "nodes": {"n1": {"used": 0}},
        "jobs": {A: {"state": "RETRYING", "past": past((1, "n1", "stopped", T0, "RETRYING"), tries=1)}},
        "leases": {f"n1:{A}:1": GONE},
        "queue": {queued(A, T0 + 60_000): HELD},
        "due": {f"j:{A}": T0 + 60_000},
    }


async def test_a_number_that_the_node_claims_already_is_passed_over(world: World) -> None:
    """Its next attempt is told by the number that it really has."""
    await join(world, max_concurrent_jobs=3, running=[(A, 2)])
    await place(world)
    answer, changes = await watch(world, stopped(world.engine, A, 1, "n1"))
    assert answer == Stopped("RETRYING", 3)
    assert changes["jobs"][A]["past"] == past((1, "n1", "stopped", T0, "RETRYING", 3), tries=1)
    assert changes["leases"] == {f"n1:{A}:1": GONE, f"n1:{A}:3": HELD}
    again = stopped(world.engine, A, 1, "n1")
    assert await watch(world, again) == (Stopped("RETRYING", 3), {})
    assert await fail(world.engine, A, 3, "n1", reason="") == Failed("RETRYING", 4, True, "n1", "1-n1", 1)


async def test_giving_up_the_last_try_ends_the_job(world: World) -> None:
    await join(world)
    await place(world, limits=ONE_TRY)
    answer, changes = await watch(world, stopped(world.engine, A, 1, "n1"))
    assert answer == Stopped("FAILED", 1)
    assert changes["outbox"] == {Event("ended", A, 1, "n1", "1-n1", "stopped", T0): T0}
    assert changes["counts"] == {"FAILED": 1}
    assert changes["jobs"][A]["past"].reason == "stopped"
    again = stopped(world.engine, A, 1, "n1")
    assert await watch(world, again) == (Stopped("FAILED", 1), {})


async def test_a_repeated_stop_of_the_attempt_it_ended_gets_its_first_answer_again(world: World) -> None:
    await join(world)
    await place(world)
    await stopped(world.engine, A, 1, "n1")
    world.now_ms += 1
    assert await watch(world, stopped(world.engine, A, 1, "n1")) == (Stopped("RETRYING", 2), {})


@pytest.mark.parametrize("state", ["CANCELLED", "EXPIRED"])
async def test_a_stop_of_a_fenced_attempt_frees_its_slot(world: World, state: State) -> None:
    await join(world, max_concurrent_jobs=1)
    await bring(world, state)
    await keep_alive(world, "n1")
    lease = f"n1:{A}:1"
    answer, changes = await watch(world, stopped(world.engine, A, 1, "n1", "another epoch"))
    assert code_of(answer) == "STALE_ATTEMPT"
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0, "standing": 0}},
        "standing": {"n1": 16},
        "room": {1: 1},
        "leases": {lease: GONE},
        "limbo": {lease: GONE},
        "due": {f"l:{lease}": GONE},
    }
    answer, changes = await watch(world, stopped(world.engine, A, 1, "n1"))
    assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


async def test_a_stop_of_a_timed_out_attempt_leaves_the_job_with_its_next_node(world: World) -> None:
    await join(world, "n1")
    await place(world)
    await join(world, "n2")
    world.now_ms += 5_000
    await sweep(world)
    lease = f"n1:{A}:1"
    answer, changes = await watch(world, stopped(world.engine, A, 1, "n1"))
    assert code_of(answer) == "STALE_ATTEMPT"
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0, "seen_at_ms": T0 + 5_000}},
        "leases": {lease: GONE},
        "limbo": {lease: GONE},
        "due": {f"l:{lease}": GONE},
    }


async def test_a_stop_after_the_result_is_stale(world: World) -> None:
    await join(world)
    await bring(world, "FINISHED")
    answer, changes = await watch(world, stopped(world.engine, A, 1, "n1"))
    assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


async def test_a_stop_of_work_that_nobody_knew_of_frees_the_slot_it_took(world: World) -> None:
    """The node came with it when it registered; there is no such job."""
    await join(world, running=[(A, 1)])
    answer, changes = await watch(world, stopped(world.engine, A, 1, "n1"))
    assert code_of(answer) == "UNKNOWN_JOB"
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0}},
        "leases": {f"n1:{A}:1": GONE},
        "limbo": {f"n1:{A}:1": GONE},
        "due": {f"l:n1:{A}:1": GONE},
    }


@pytest.mark.parametrize(
    ("flow", "said"), [(done, {}), (fail, {"reason": "no"}), (stopped, {})], ids=["done", "fail", "stopped"]
)
async def test_whatever_ended_an_attempt_frees_the_slot_once_more_if_the_node_claimed_it_since(
    world: World, flow: Any, said: dict[str, str]
) -> None:
    """By a registration that names it: however often it says that it is through with it, the last word counts."""
    await join(world, max_concurrent_jobs=1)
    await bring(world, "RUNNING", limits=ONE_TRY)
    first = await flow(world.engine, A, 1, "n1", **said)
    await join(world, max_concurrent_jobs=1, running=[(A, 1)])
    assert (await world.cell()).nodes["n1"].used == 1
    assert await flow(world.engine, A, 1, "n1", **said) == first
    assert (await world.cell()).nodes["n1"].used == 0


@pytest.mark.parametrize(("flow", "said"), [(fail, {"reason": "no"}), (stopped, {})], ids=["fail", "stopped"])
async def test_also_a_word_that_comes_too_late_for_its_job(world: World, flow: Any, said: dict[str, str]) -> None:
    await join(world, max_concurrent_jobs=1)
    await bring(world, "FINISHED")
    await join(world, max_concurrent_jobs=1, running=[(A, 1)])
    assert code_of(await flow(world.engine, A, 1, "n1", **said)) == "STALE_ATTEMPT"
    assert (await world.cell()).nodes["n1"].used == 0


async def test_a_stop_is_fenced_like_every_word_about_an_attempt(world: World) -> None:
    await join(world)
    await place(world)
    for attempt, code in {
        (A, 1, "n1", "1-n0"): "STALE_ATTEMPT",
        (A, 1, "n2", ""): "NODE_MISMATCH",
        (A, 2, "n1", ""): "NODE_MISMATCH",
        (B, 1, "n1", ""): "UNKNOWN_JOB",
        (A, 0, "n1", ""): "INVALID_MESSAGE",
    }.items():
        answer, changes = await watch(world, stopped(world.engine, *attempt))
        assert (code_of(answer), changes) == (code, {})


async def test_stops_of_one_tick_each_free_their_own_slot(world: World) -> None:
    await join(world)
    await asyncio.gather(bring(world, "CANCELLED"), bring(world, "CANCELLED", B))
    answers, changes = await watch(
        world, asyncio.gather(*(stopped(world.engine, job_id, 1, "n1") for job_id in (A, "c0.x", B, A)))
    )
    assert [code_of(answer) for answer in answers] == ["STALE_ATTEMPT", "UNKNOWN_JOB", "STALE_ATTEMPT", "STALE_ATTEMPT"]
    assert changes["nodes"] == {"n1": {"used": 0, "limbo": 0, "standing": 0}}
    assert changes["leases"] == {f"n1:{A}:1": GONE, f"n1:{B}:1": GONE}


async def test_the_last_stops_of_one_tick_are_all_counted(world: World) -> None:
    await join(world)
    await asyncio.gather(*(place(world, job_id, limits=Limits(max_retry=0)) for job_id in (A, B)))
    _, changes = await watch(world, asyncio.gather(*(stopped(world.engine, job_id, 1, "n1") for job_id in (A, B))))
    assert changes["counts"] == {"FAILED": 2}
