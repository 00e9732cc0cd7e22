"""A job does not go back to a suspect that had it: it waits for another node, or until that one is tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.wanted import Hints, Policy, Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.views.audit import audit_whole
from tests.support.pasts import FAILED, doubt, give, live
from tests.support.stage import (
    INCREMENT,
    MODULUS,
    MULTIPLIER,
    A,
    B,
    C,
    code_of,
    join,
    keep_alive,
    nodes_of,
    place,
    sweep,
)
from tests.support.wishes import choice
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

BUSY = f"{CELL}.busy"


@pytest.fixture
async def broken(world: World) -> World:
    """n1 has failed two jobs, n2 has no room, and n3, which has none either, keeps n1 from being most of the fleet."""
    await join(world, "n1", max_concurrent_jobs=4)
    await live(world, "n1", 2 * FAILED)
    await join(world, "n2", max_concurrent_jobs=1)
    await place(world, BUSY, wanted=Wanted(preferred_node_id="n2", strict=True))
    await join(world, "n3", max_concurrent_jobs=1)
    await give(world, "n3")
    return world


async def lose(world: World, job_id: str = A, **wanted: Any) -> None:
    """n1 gets a job and fails it."""
    answer = await dispatch(world.engine, job_id, "s1", "en", "zh", seed=1, wanted=Wanted(**wanted))
    assert isinstance(answer, Placed)
    assert answer.node_id == "n1"
    await fail(world.engine, job_id, 1, "n1", reason="broken")


async def lose_one_of_three(world: World) -> None:
    """n1 has failed A; B and C, which may take longer, came while it was not ready. Now it has one slot."""
    await lose(world)
    await heartbeat(world.engine, CELL, "n1", health="degraded")
    for job_id, timeout_ms in ((B, 70_000), (C, 80_000)):
        limits = Limits(timeout_ms=timeout_ms)
        await dispatch(world.engine, job_id, "s1", "en", "zh", seed=1, limits=limits, wanted=Wanted(wait_ms=4_000))
    await heartbeat(world.engine, CELL, "n1", health="ready", max_concurrent_jobs=1)


async def test_a_job_that_a_suspect_failed_waits_for_another_node(broken: World) -> None:
    await lose(broken)
    cell = await broken.cell()
    assert (cell.jobs[A].state, cell.nodes["n1"].used) == ("RETRYING", 0)
    assert await audit_whole(broken.engine, CELL) == []
    await done(broken.engine, BUSY, 1, "n2")
    assert nodes_of(await broken.cell(), A) == ["n2"]


async def test_a_newcomer_is_not_refused_for_it(broken: World) -> None:
    await lose(broken)
    assert (await place(broken, B)).node_id == "n1"


async def test_a_node_that_is_not_suspect_gets_it_back_where_no_other_has_room(world: World) -> None:
    await join(world)
    await place(world)
    await fail(world.engine, A, 1, "n1", reason="broken")
    assert (await world.cell()).jobs[A].attempt == 2


async def test_it_goes_back_when_the_suspect_is_tried_again(broken: World) -> None:
    await lose(broken)
    broken.now_ms += 4_999
    await keep_alive(broken, "n1", "n2", "n3")
    await sweep(broken)
    assert nodes_of(await broken.cell(), A) == [""]
    broken.now_ms += 1
    await sweep(broken)
    assert nodes_of(await broken.cell(), A) == ["n1"]


async def test_it_goes_back_to_a_suspect_that_is_busy_when_that_is_tried_again(broken: World) -> None:
    """With a long job it is never idle, so its time to be probed is all there is to wait for."""
    wanted = Wanted(preferred_node_id="n1", strict=True)
    await place(broken, B, limits=Limits(ack_ms=50_000, run_ms=50_000), wanted=wanted)
    await lose(broken)
    broken.now_ms += 4_999
    await keep_alive(broken, "n1", "n2", "n3")
    await sweep(broken)
    assert nodes_of(await broken.cell(), A) == [""]
    broken.now_ms += 1
    await sweep(broken)
    cell = await broken.cell()
    assert nodes_of(cell, A, B) == ["n1", "n1"]
    assert cell.jobs[A].choice.reasons == ["waited", "suspect", "again"]


async def test_it_goes_back_at_once_to_a_suspect_whose_time_has_come(broken: World) -> None:
    """n1 failed it and n2 has it; when n2 fails it too, n1 is to be tried again, and still suspect, for it is busy."""
    wanted = Wanted(preferred_node_id="n1", strict=True)
    await place(broken, B, limits=Limits(ack_ms=50_000, run_ms=50_000), wanted=wanted)
    await lose(broken)
    await done(broken.engine, BUSY, 1, "n2")
    assert nodes_of(await broken.cell(), A) == ["n2"]
    await drain(broken.engine, CELL, "n2")
    broken.now_ms += 5_000
    await keep_alive(broken, "n1", "n2", "n3")
    await fail(broken.engine, A, 2, "n2", reason="broken")
    cell = await broken.cell()
    assert nodes_of(cell, A) == ["n1"]
    assert cell.jobs[A].choice.reasons == ["suspect", "again"]


async def test_it_goes_back_when_it_insists(broken: World) -> None:
    await lose(broken, preferred_node_id="n1", strict=True)
    assert nodes_of(await broken.cell(), A) == ["n1"]


async def test_it_goes_back_when_it_insists_and_had_to_wait(broken: World) -> None:
    await lose(broken, B)
    await heartbeat(broken.engine, CELL, "n1", max_concurrent_jobs=1)
    await give(broken, "n1")
    wanted = Wanted(preferred_node_id="n1", strict=True, wait_ms=4_000)
    await dispatch(broken.engine, A, "s1", "en", "zh", seed=1, wanted=wanted)
    await heartbeat(broken.engine, CELL, "n1", max_concurrent_jobs=2)
    await heartbeat(broken.engine, CELL, "n1", max_concurrent_jobs=1)
    await fail(broken.engine, A, 1, "n1", reason="broken")
    assert nodes_of(await broken.cell(), A, B) == ["", ""]
    await heartbeat(broken.engine, CELL, "n1", max_concurrent_jobs=2)
    assert nodes_of(await broken.cell(), A, B) == ["n1", ""]


async def test_it_does_not_go_back_because_it_prefers_the_suspect(broken: World) -> None:
    """Not at once, not when a slot comes free; but a node that it merely had is better than none."""
    await lose(broken, preferred_node_id="n1")
    assert nodes_of(await broken.cell(), A) == [""]
    await heartbeat(broken.engine, CELL, "n1", health="degraded")
    await heartbeat(broken.engine, CELL, "n1", health="ready")
    assert nodes_of(await broken.cell(), A) == [""]


async def test_it_goes_back_where_most_are_suspect(broken: World) -> None:
    """Then it is not they that are to blame."""
    await drain(broken.engine, CELL, "n2")
    await drain(broken.engine, CELL, "n3")
    await lose(broken)
    assert nodes_of(await broken.cell(), A) == ["n1"]


async def test_it_goes_back_where_most_have_come_to_be_suspect_while_it_waited(broken: World) -> None:
    await lose(broken)
    await drain(broken.engine, CELL, "n2")
    await drain(broken.engine, CELL, "n3")
    await heartbeat(broken.engine, CELL, "n1", health="degraded")
    await heartbeat(broken.engine, CELL, "n1", health="ready")
    assert nodes_of(await broken.cell(), A) == ["n1"]


@pytest.mark.parametrize(("slots", "expected"), [(1, ""), (2, "n1")])
async def test_where_most_have_come_to_be_suspect_a_newcomer_has_what_is_left(
    broken: World, slots: int, expected: str
) -> None:
    """A has waited for a node that it may have now: it comes first."""
    await lose(broken)
    await heartbeat(broken.engine, CELL, "n1", max_concurrent_jobs=slots)
    for node_id in ("n2", "n3"):
        await drain(broken.engine, CELL, node_id)
    assert nodes_of(await broken.cell(), A) == [""]
    answer = await dispatch(broken.engine, B, "s1", "en", "zh", seed=1)
    if expected:
        assert isinstance(answer, Placed)
        assert (await choice(broken, B)).reasons == ["panic"]
    else:
        assert code_of(answer) == "ALL_CANDIDATES_FULL_OR_FAILED"
    assert nodes_of(await broken.cell(), A) == ["n1"]
    assert (await choice(broken, A)).reasons == ["waited", "suspect", "again"]
    assert (await broken.cell()).nodes["n1"].used == slots


async def test_where_nobody_waits_a_newcomer_in_a_panic_draws_once(broken: World) -> None:
    for node_id in ("n2", "n3"):
        await drain(broken.engine, CELL, node_id)
    await doubt(broken, "n1")
    await place(broken, B)
    cell = await broken.cell()
    assert cell.jobs[B].choice.reasons == ["panic"]
    assert cell.jobs[B].seed == (MULTIPLIER + INCREMENT) % MODULUS


async def test_a_suspect_serves_those_behind_it_that_it_has_not_had(broken: World) -> None:
    """A must hurry more than B, but n1 had it."""
    await lose_one_of_three(broken)
    assert nodes_of(await broken.cell(), A, B, C) == ["", "n1", ""]


async def test_a_node_that_fails_whatever_it_gets_costs_each_who_waits_one_try(broken: World) -> None:
    await lose_one_of_three(broken)
    for job_id in (B, C):
        await fail(broken.engine, job_id, 1, "n1", reason="broken")
    cell = await broken.cell()
    assert nodes_of(cell, A, B, C) == ["", "", ""]
    assert [cell.jobs[job_id].past.tries for job_id in (A, B, C)] == [1, 1, 1]
    assert await audit_whole(broken.engine, CELL) == []


async def test_of_two_suspects_it_goes_to_the_one_that_has_not_had_it(broken: World) -> None:
    await join(broken, "n4")
    await join(broken, "n5", max_concurrent_jobs=1)
    await give(broken, "n5")
    await doubt(broken, "n4")
    answer = await dispatch(broken.engine, A, "s1", "en", "zh", wanted=Wanted(preferred_node_id="n1"), seed=1)
    assert isinstance(answer, Placed)
    assert (await stopped(broken.engine, A, 1, "n1")).state == "RETRYING"  # type: ignore[union-attr]
    assert nodes_of(await broken.cell(), A) == ["n4"]
    await stopped(broken.engine, A, 2, "n4")
    assert nodes_of(await broken.cell(), A) == [""]


async def test_who_waits_and_is_cancelled_leaves_every_line(broken: World) -> None:
    await lose(broken)
    await cancel(broken.engine, A)
    assert (await broken.cell()).queue == []


@pytest.mark.parametrize("strict", [False, True])
async def test_a_newcomer_that_wishes_for_the_suspect_comes_after_who_had_it_in_a_panic(
    broken: World, strict: bool
) -> None:
    await lose(broken)
    await heartbeat(broken.engine, CELL, "n1", max_concurrent_jobs=1)
    await drain(broken.engine, CELL, "n2")
    await drain(broken.engine, CELL, "n3")
    wanted = Wanted(preferred_node_id="n1", strict=strict)
    answer = await dispatch(broken.engine, B, "s1", "en", "zh", seed=1, wanted=wanted)
    assert code_of(answer) == ("PREFERRED_NODE_UNAVAILABLE" if strict else "ALL_CANDIDATES_FULL_OR_FAILED")
    assert nodes_of(await broken.cell(), A) == ["n1"]


async def test_whether_most_are_suspect_is_asked_of_those_that_could_have_the_job(broken: World) -> None:
    """Nodes without a service that it needs are not among them."""
    for node_id in ("n4", "n5"):
        await join(broken, node_id, services={"asr": False})
    await lose(broken)
    await drain(broken.engine, CELL, "n2")
    await drain(broken.engine, CELL, "n3")
    await heartbeat(broken.engine, CELL, "n1", health="degraded")
    await heartbeat(broken.engine, CELL, "n1", health="ready")
    assert nodes_of(await broken.cell(), A) == ["n1"]


async def test_a_private_node_that_is_not_suspect_gets_back_who_prefers_it(world: World) -> None:
    await join(world, accept_public_jobs=False)
    await place(world, wanted=Wanted(preferred_node_id="n1"))
    await fail(world.engine, A, 1, "n1", reason="broken")
    assert nodes_of(await world.cell(), A) == ["n1"]


async def test_that_it_went_back_is_said_once(world: World) -> None:
    """To a node that had the job, and has seen the utterance too."""
    await join(world)
    hints = Hints(seen_node_ids=["n1"])
    await dispatch(world.engine, A, "s1", "en", "zh", seed=1, hints=hints)
    await fail(world.engine, A, 1, "n1", reason="broken")
    assert (await choice(world, A)).reasons == ["again"]


@pytest.mark.parametrize("policy", Policy)
async def test_who_was_served_after_waiting_keeps_its_policy(world: World, policy: Policy) -> None:
    await join(world, health="degraded")
    await dispatch(world.engine, A, "s1", "en", "zh", seed=1, wanted=Wanted(wait_ms=4_000, policy=policy.name))
    await heartbeat(world.engine, CELL, "n1", health="ready")
    chosen = await choice(world)
    assert (chosen.policy, chosen.candidates, chosen.reasons) == (policy, 1, ["waited"])
