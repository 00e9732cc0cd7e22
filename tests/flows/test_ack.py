from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.flows.fail import fail
from tests.support.cells import watch
from tests.support.stage import T0, A, B, bring, code_of, join, keep_alive, place, sweep

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.support.world import World


@pytest.mark.parametrize("state", ["RESERVED", "DISPATCHED"])
async def test_an_ack_accepts_the_job(world: World, state: State) -> None:
    await join(world)
    await bring(world, state)
    world.now_ms += 7
    answer, changes = await watch(world, ack(world.engine, A, 1, "n1", "1-n1"))
    assert answer == Moved("ACCEPTED")
    assert changes == {"jobs": {A: {"state": "ACCEPTED", "accepted_at_ms": T0 + 7}}}


async def test_a_run_is_bounded_by_the_job_s_deadline(world: World) -> None:
    await join(world)
    await place(world, limits=Limits(run_ms=500, timeout_ms=300))
    await ack(world.engine, A, 1, "n1")
    assert (await world.cell()).due[f"j:{A}"] == T0 + 300


@pytest.mark.parametrize("state", ["ACCEPTED", "RUNNING", "FINISHED"])
async def test_a_repeated_ack_hears_the_present_state_and_changes_nothing(world: World, state: State) -> None:
    await join(world)
    await bring(world, state)
    world.now_ms += 1
    for epoch in ("", "1-n1"):
        assert await watch(world, ack(world.engine, A, 1, "n1", epoch)) == (Moved(state), {})


@pytest.mark.parametrize("state", ["RETRYING", "FAILED", "CANCELLED", "EXPIRED"])
async def test_an_ack_of_an_attempt_that_is_over_changes_nothing(world: World, state: State) -> None:
    await join(world, max_concurrent_jobs=1, tells=False)
    await bring(world, "RESERVED" if state == "RETRYING" else state)
    if state == "RETRYING":
        await fail(world.engine, A, 1, "n1", reason="", overloaded=True)
        assert (await world.cell()).jobs[A].state == "RETRYING"
    await keep_alive(world, "n1")
    answer, changes = await watch(world, ack(world.engine, A, 1, "n1"))
    assert answer == Refusal("STALE_ATTEMPT", "This attempt is over or the epoch is an old one; stop working on it.")
    assert changes == {}


async def test_a_late_ack_of_a_fenced_attempt_changes_nothing(world: World) -> None:
    await join(world, "n1")
    placed = await place(world)
    await join(world, "n2")
    world.now_ms += 5_000
    await sweep(world)
    assert (await world.cell()).jobs[A].node == "n2"
    await keep_alive(world, "n1")
    answer, changes = await watch(world, ack(world.engine, A, 1, placed.node_id, placed.epoch))
    assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


async def test_an_ack_under_another_epoch_changes_nothing(world: World) -> None:
    await join(world)
    await place(world)
    answer, changes = await watch(world, ack(world.engine, A, 1, "n1", "1-n0"))
    assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


async def test_an_ack_of_a_finished_attempt_under_another_epoch_is_refused(world: World) -> None:
    await join(world)
    await bring(world, "FINISHED")
    assert code_of(await ack(world.engine, A, 1, "n1", "1-n0")) == "STALE_ATTEMPT"
    assert code_of(await ack(world.engine, A, 1, "n2")) == "NODE_MISMATCH"


@pytest.mark.parametrize(("attempt", "node_id"), [(1, "n2"), (2, "n1"), (3, "n2")])
async def test_an_ack_from_a_node_that_never_held_the_attempt_is_a_mismatch(
    world: World, attempt: int, node_id: str
) -> None:
    await join(world)
    await place(world)
    answer, changes = await watch(world, ack(world.engine, A, attempt, node_id))
    assert answer == Refusal("NODE_MISMATCH", f"Node {node_id} never held attempt {attempt} of job {A}.")
    assert changes == {}


async def test_only_the_very_attempt_in_the_past_is_stale(world: World) -> None:
    """Attempt 1 was n1's and 2 is n2's: nobody else's word about either is more than a mismatch."""
    await join(world, "n1")
    await place(world)
    await join(world, "n2")
    await fail(world.engine, A, 1, "n1", reason="broken")
    codes = {(k, n): code_of(await ack(world.engine, A, k, n)) for k in (1, 2, 3) for n in ("n1", "n2")}
    assert codes == {
        (1, "n1"): "STALE_ATTEMPT",
        (1, "n2"): "NODE_MISMATCH",
        (2, "n1"): "NODE_MISMATCH",
        (2, "n2"): "",
        (3, "n1"): "NODE_MISMATCH",
        (3, "n2"): "NODE_MISMATCH",
    }


async def test_an_ack_of_a_job_that_does_not_exist_is_refused(world: World) -> None:
    answer, changes = await watch(world, ack(world.engine, A, 1, "n1"))
    assert answer == Refusal("UNKNOWN_JOB", f"There is no job {A}, or its record has expired.")
    assert changes == {}


async def test_acks_of_one_tick_each_get_their_own_answer(world: World) -> None:
    await join(world)
    await asyncio.gather(place(world), place(world, B))
    answers, changes = await watch(
        world,
        asyncio.gather(
            ack(world.engine, B, 1, "n1"),
            ack(world.engine, "c0.x", 1, "n1"),
            ack(world.engine, A, 1, "n1"),
            ack(world.engine, A, 2, "n1"),
        ),
    )
    assert [code_of(answer) for answer in answers] == ["", "UNKNOWN_JOB", "", "NODE_MISMATCH"]
    assert changes["jobs"].keys() == {A, B}


@pytest.mark.parametrize(
    ("job_id", "attempt", "node_id", "epoch"),
    [
        ("a", 1, "n1", ""),
        (A, 0, "n1", ""),
        (A, 1_000_001, "n1", ""),
        (A, True, "n1", ""),
        (A, 1, "n:1", ""),
        (A, 1, "", ""),
        (A, 1, "n1", "x" * 65),
    ],
)
async def test_what_names_no_attempt_never_reaches_the_engine(
    world: World, job_id: str, attempt: int, node_id: str, epoch: str
) -> None:
    assert code_of(await ack(world.engine, job_id, attempt, node_id, epoch)) == "INVALID_MESSAGE"
