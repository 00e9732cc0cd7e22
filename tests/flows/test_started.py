from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.flows.started import started
from tests.support.cells import watch
from tests.support.stage import T0, A, B, bring, code_of, join, keep_alive, place

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.support.world import World


@pytest.mark.parametrize("state", ["RESERVED", "DISPATCHED"])
async def test_a_start_implies_the_ack(world: World, state: State) -> None:
    await join(world)
    await bring(world, state)
    world.now_ms += 7
    answer, changes = await watch(world, started(world.engine, A, 1, "n1", "1-n1"))
    assert answer == Moved("RUNNING")
    assert changes == {"jobs": {A: {"state": "RUNNING", "accepted_at_ms": T0 + 7, "started_at_ms": T0 + 7}}}


async def test_a_start_after_the_ack_leaves_the_run_s_bound_as_it_was(world: World) -> None:
    await join(world)
    await bring(world, "ACCEPTED")
    world.now_ms += 7
    answer, changes = await watch(world, started(world.engine, A, 1, "n1"))
    assert answer == Moved("RUNNING")
    assert changes == {"jobs": {A: {"state": "RUNNING", "started_at_ms": T0 + 7}}}


async def test_a_start_is_bounded_by_the_job_s_deadline(world: World) -> None:
    await join(world)
    await place(world, limits=Limits(run_ms=500, timeout_ms=300))
    await started(world.engine, A, 1, "n1")
    assert (await world.cell()).due[f"j:{A}"] == T0 + 300


@pytest.mark.parametrize("state", ["RUNNING", "FINISHED"])
async def test_a_repeated_start_hears_the_present_state_and_changes_nothing(world: World, state: State) -> None:
    await join(world)
    await bring(world, state)
    world.now_ms += 1
    assert await watch(world, started(world.engine, A, 1, "n1")) == (Moved(state), {})


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "EXPIRED"])
async def test_a_start_of_an_attempt_that_is_over_changes_nothing(world: World, state: State) -> None:
    await join(world)
    await bring(world, state)
    await keep_alive(world, "n1")
    answer, changes = await watch(world, started(world.engine, A, 1, "n1"))
    assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


async def test_a_start_is_fenced_like_every_word_about_an_attempt(world: World) -> None:
    await join(world)
    await place(world)
    codes = [
        code_of(await started(world.engine, *attempt))
        for attempt in [(A, 1, "n1", "1-n0"), (A, 1, "n2", ""), (A, 2, "n1", ""), (B, 1, "n1", ""), (A, 0, "n1", "")]
    ]
    assert codes == ["STALE_ATTEMPT", "NODE_MISMATCH", "NODE_MISMATCH", "UNKNOWN_JOB", "INVALID_MESSAGE"]
    assert (await world.cell()).jobs[A].state == "RESERVED"


async def test_starts_of_one_tick_each_get_their_own_answer(world: World) -> None:
    await join(world)
    await asyncio.gather(place(world), place(world, B))
    jobs = (B, "c0.x", A)
    answers = await asyncio.gather(*(started(world.engine, job_id, 1, "n1") for job_id in jobs))
    assert [code_of(answer) for answer in answers] == ["", "UNKNOWN_JOB", ""]
