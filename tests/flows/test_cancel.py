from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.records import FORGET_FROM, Event
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from tests.support.cells import GONE, watch
from tests.support.stage import T0, A, B, bring, code_of, join, past, place, queued
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.support.world import World


@pytest.mark.parametrize("state", ["RESERVED", "DISPATCHED", "ACCEPTED", "RUNNING"])
async def test_a_cancelled_job_ends_and_leaves_its_slot_taken_until_the_node_has_stopped(
    world: World, state: State
) -> None:
    await join(world)
    await bring(world, state)
    world.now_ms += 7
    answer, changes = await watch(world, cancel(world.engine, A, "too late"))
    assert answer == Moved("CANCELLED")
    lease = f"n1:{A}:1"
    attempts = past((1, "n1", "cancelled", T0 + 7, "CANCELLED"), reason="too late")
    assert changes == {
        "nodes": {"n1": {"limbo": 1}},
        "jobs": {A: {"state": "CANCELLED", "ended_at_ms": T0 + 7, "past": attempts}},
        "limbo": {lease: T0 + 7},
        "due": {f"j:{A}": FORGET_FROM + T0 + 120_007, f"l:{lease}": T0 + 60_007},
        "outbox": {
            Event("fenced", A, 1, "n1", "1-n1", "cancelled", T0 + 7): T0 + 7,
            Event("ended", A, 1, "n1", "1-n1", "too late", T0 + 7): T0 + 7,
        },
        "counts": {"CANCELLED": 1},
    }


async def test_a_job_between_two_nodes_is_cancelled_without_a_limbo(world: World) -> None:
    await join(world)
    await place(world)
    await drain(world.engine, CELL, "n1")
    await fail(world.engine, A, 1, "n1", reason="broken")
    world.now_ms += 7
    answer, changes = await watch(world, cancel(world.engine, A))
    assert answer == Moved("CANCELLED")
    attempts = past((1, "n1", "failed", T0, "RETRYING"), tries=1, reason="cancelled")
    assert changes == {
        "jobs": {A: {"state": "CANCELLED", "ended_at_ms": T0 + 7, "past": attempts}},
        "queue": {queued(A, T0 + 60_000): GONE},
        "due": {f"j:{A}": FORGET_FROM + T0 + 120_007},
        "outbox": {Event("ended", A, 1, "n1", "1-n1", "cancelled", T0 + 7): T0 + 7},
        "counts": {"CANCELLED": 1},
    }


@pytest.mark.parametrize("state", ["FINISHED", "FAILED", "CANCELLED", "EXPIRED"])
async def test_an_ended_job_stays_as_it_is_and_says_so(world: World, state: State) -> None:
    await join(world)
    await bring(world, state)
    world.now_ms += 1
    assert await watch(world, cancel(world.engine, A)) == (Moved(state), {})


async def test_a_job_that_does_not_exist_cannot_be_cancelled(world: World) -> None:
    answer, changes = await watch(world, cancel(world.engine, A))
    assert answer == Refusal("UNKNOWN_JOB", f"There is no job {A}, or its record has expired.")
    assert changes == {}


async def test_cancels_of_one_tick_are_each_counted_once(world: World) -> None:
    await join(world)
    await asyncio.gather(place(world), place(world, B))
    answers, changes = await watch(
        world, asyncio.gather(*(cancel(world.engine, job_id) for job_id in (A, "c0.x", B, A)))
    )
    assert [code_of(answer) for answer in answers] == ["", "UNKNOWN_JOB", "", ""]
    assert changes["counts"] == {"CANCELLED": 2}
    assert changes["nodes"] == {"n1": {"limbo": 2}}


@pytest.mark.parametrize(("job_id", "reason"), [("a", ""), (A, "x" * 513)])
async def test_a_cancel_that_cannot_be_right_never_reaches_the_engine(world: World, job_id: str, reason: str) -> None:
    assert code_of(await cancel(world.engine, job_id, reason)) == "INVALID_MESSAGE"
