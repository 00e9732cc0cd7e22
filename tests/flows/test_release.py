from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.records import FORGET_FROM
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.release import Released, release
from tests.support.cells import GONE, watch
from tests.support.stage import T0, A, B, bring, code_of, join, past, place, sweep

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.support.world import World


async def test_a_release_erases_the_text_and_shortens_the_memory_of_the_job(world: World) -> None:
    await join(world)
    await place(world, body="in")
    await done(world.engine, A, 1, "n1", result="out")
    world.now_ms += 7
    answer, changes = await watch(world, release(world.engine, A))
    assert answer == Released("FINISHED", T0 + 7)
    assert changes == {
        "jobs": {A: {"past": past(released_at_ms=T0 + 7)}},
        "bodies": {f"{A}:payload": GONE, f"{A}:result": GONE},
        "due": {f"j:{A}": FORGET_FROM + T0 + 300_007},
    }


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "EXPIRED"])
async def test_a_job_that_failed_can_be_released_and_keeps_its_past(world: World, state: State) -> None:
    await join(world)
    await bring(world, state)
    before = (await world.cell()).jobs[A].past
    now = world.now_ms
    assert await release(world.engine, A) == Released(state, now)
    after = (await world.cell()).jobs[A].past
    assert (after.attempts, after.reason, after.released_at_ms) == (before.attempts, before.reason, now)


async def test_a_repeated_release_says_when_it_was_released_first(world: World) -> None:
    await join(world)
    await bring(world, "FINISHED")
    await release(world.engine, A)
    world.now_ms += 1
    assert await watch(world, release(world.engine, A)) == (Released("FINISHED", T0), {})


@pytest.mark.parametrize("state", ["RESERVED", "DISPATCHED", "ACCEPTED", "RUNNING"])
async def test_a_job_under_way_cannot_be_released(world: World, state: State) -> None:
    await join(world)
    await bring(world, state, body="in")
    answer, changes = await watch(world, release(world.engine, A))
    assert answer == Refusal("NOT_ENDED", f"Job {A} has not ended yet; only an ended job can be released.")
    assert changes == {}


async def test_a_job_that_does_not_exist_cannot_be_released(world: World) -> None:
    answer, changes = await watch(world, release(world.engine, A))
    assert answer == Refusal("UNKNOWN_JOB", f"There is no job {A}, or its record has expired.")
    assert changes == {}
    assert code_of(await release(world.engine, "a")) == "INVALID_MESSAGE"


async def test_releases_of_one_tick_each_get_their_own_answer(world: World) -> None:
    await join(world)
    await asyncio.gather(bring(world, "FINISHED"), bring(world, "RESERVED", B))
    answers = await asyncio.gather(*(release(world.engine, job_id) for job_id in (A, B, "c0.x")))
    assert [code_of(answer) for answer in answers] == ["", "NOT_ENDED", "UNKNOWN_JOB"]


async def test_a_released_job_is_forgotten_after_its_time_and_not_before(world: World) -> None:
    await join(world)
    await bring(world, "FINISHED")
    world.now_ms += 10
    await release(world.engine, A)
    world.now_ms += 299_999
    await sweep(world)
    assert A in (await world.cell()).jobs
    world.now_ms += 1
    await sweep(world)
    cell = await world.cell()
    assert (A in cell.jobs, A in cell.tickets, f"j:{A}" in cell.due) == (False, False, False)
