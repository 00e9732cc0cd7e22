"""A grace is a promise: the job stays with its node, and nobody counts its time meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.attempts import Delivered
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.undeliver import undeliver
from lingua_scheduler.store.keys import cell_key
from tests.support.cells import watch
from tests.support.stage import T0, A, B, bring, join, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.support.world import World

GRACE_MS = 10_000


async def hung_up(world: World, state: State, **asked: Any) -> None:
    """The scheduler closed the socket of the node that has A; another one has room."""
    await join(world, "n1", connection="x", process_id="p1")
    await bring(world, state, **asked)
    await join(world, "n2")
    await disconnect(world.engine, CELL, "n1", "x", "handover")


@pytest.mark.parametrize(("state", "after_ms"), [("RESERVED", 5_000), ("DISPATCHED", 9_999)])
async def test_an_ack_is_not_overdue_while_its_node_is_in_a_grace(world: World, state: State, after_ms: int) -> None:
    await hung_up(world, state)
    world.now_ms += after_ms
    assert await watch(world, reap(world.engine, CELL)) == (Settled(1, False), {"due": {f"j:{A}": T0 + GRACE_MS}})
    assert await watch(world, reap(world.engine, CELL)) == (Settled(0, False), {})


async def test_a_result_is_not_overdue_while_its_node_is_in_a_grace(world: World) -> None:
    await join(world, "n1", connection="x")
    await bring(world, "RUNNING")
    world.now_ms += 25_000
    await join(world, "n1", connection="x", epoch="1-n1", running=[(A, 1)])
    await disconnect(world.engine, CELL, "n1", "x", "handover")
    await sweep(world)
    world.now_ms += 5_000
    assert await watch(world, reap(world.engine, CELL)) == (Settled(1, False), {"due": {f"j:{A}": T0 + 35_000}})


async def test_a_job_s_deadline_holds_in_a_grace_too(world: World) -> None:
    await hung_up(world, "RESERVED", limits=Limits(ack_ms=5_000, run_ms=6_000, timeout_ms=7_000))
    world.now_ms += 5_000
    assert await watch(world, reap(world.engine, CELL)) == (Settled(1, False), {"due": {f"j:{A}": T0 + 7_000}})
    world.now_ms += 2_000
    await sweep(world)
    assert (await world.cell()).jobs[A].state == "EXPIRED"


@pytest.mark.parametrize("late_ms", [0, 50])
async def test_when_the_grace_is_over_the_node_is_lost_and_not_the_ack_late(world: World, late_ms: int) -> None:
    await hung_up(world, "DISPATCHED")
    world.now_ms += 6_000
    await sweep(world)
    world.now_ms += 4_000 + late_ms
    await sweep(world)
    job = (await world.cell()).jobs[A]
    assert ([past.cause for past in job.past.attempts], job.past.tries) == (["lost_early"], 0)


@pytest.mark.parametrize("state", ["RESERVED", "DISPATCHED"])
async def test_what_a_node_names_when_it_comes_back_it_has_accepted(world: World, state: State) -> None:
    await hung_up(world, state)
    world.now_ms += 6_000
    await sweep(world)
    await join(world, "n1", connection="y", epoch="1-n1", process_id="p1", running=[(A, 1)])
    cell = await world.cell()
    job = cell.jobs[A]
    assert (job.state, job.accepted_at_ms, job.dispatched_at_ms) == (
        "ACCEPTED",
        T0 + 6_000,
        T0 if state == "DISPATCHED" else 0,
    )
    assert cell.due[f"j:{A}"] == T0 + 6_000
    await sweep(world)
    assert (await world.cell()).due[f"j:{A}"] == T0 + 36_000


async def test_what_had_been_accepted_before_keeps_its_time(world: World) -> None:
    await hung_up(world, "RUNNING")
    world.now_ms += 6_000
    await join(world, "n1", connection="y", epoch="1-n1", process_id="p1", running=[(A, 1)])
    job = (await world.cell()).jobs[A]
    assert (job.state, job.accepted_at_ms) == ("RUNNING", T0)


async def test_the_time_of_what_a_legacy_node_has_counts_again_when_it_is_back(world: World) -> None:
    await join(world, "n1", connection="x", acks=False, tells=False)
    await place(world)
    await deliver(world.engine, A, 1, "n1")
    await place(world, B)
    await disconnect(world.engine, CELL, "n1", "x", "handover")
    world.now_ms += 6_000
    await sweep(world)
    await join(world, "n1", connection="y", acks=False, tells=False)
    await sweep(world)
    cell = await world.cell()
    assert cell.due[f"j:{A}"] == T0 + 30_000
    assert [past.cause for past in cell.jobs[B].past.attempts] == ["unsent"]


@pytest.mark.parametrize("connection", ["y", ""], ids=["socket", "polls"])
async def test_what_a_legacy_node_may_not_have_been_told_goes_on_at_once_when_it_is_back(
    world: World, connection: str
) -> None:
    """Its slot stays taken, for it may have it all the same. Whoever polls finds it in his mailbox."""
    await join(world, "n1", connection="x", acks=False, tells=False)
    await place(world)
    await deliver(world.engine, A, 1, "n1")
    await place(world, B)
    await join(world, "n2")
    await disconnect(world.engine, CELL, "n1", "x", "handover")
    left = await undeliver(world.engine, B, 1, "n1", unsure=True)
    assert isinstance(left, Delivered)
    assert (left.state, left.node_id) == ("RESERVED", "n1")
    world.now_ms += 100
    await join(world, "n1", connection=connection, acks=False, tells=False)
    cell = await world.cell()
    assert (cell.jobs[A].state, cell.jobs[A].node) == ("ACCEPTED", "n1")
    job = cell.jobs[B]
    assert (job.state, job.node, job.past.tries) == ("RESERVED", "n2" if connection else "n1", 0)
    assert [past.cause for past in job.past.attempts] == ["unsent"] * bool(connection)
    assert list(cell.limbo) == [f"n1:{B}:1"] * bool(connection)


@pytest.mark.parametrize(
    ("said", "rests_until"), [({"process_id": "p2"}, 0), ({"process_id": "p1", "epoch": "1-n1"}, T0 + 60_000)]
)
async def test_a_new_process_need_not_rest_for_the_old_one(
    world: World, said: dict[str, Any], rests_until: int
) -> None:
    await join(world, "n1", process_id="p1")
    await place(world)
    await fail(world.engine, A, 1, "n1", reason="busy", overloaded=True, retry_after_ms=60_000)
    await join(world, "n1", **said)
    assert (await world.cell()).nodes["n1"].rest_until_ms == rests_until


async def test_a_field_node_whose_semantic_service_is_not_ready_is_in_no_pool_until_it_is(world: World) -> None:
    joined = await join(world, "n1", services={"semantic": False, "asr": True}, lenient=True)
    assert (joined.pairs, joined.warnings) == ([], ["no pool: the service semantic is not ready"])
    again = await join(world, "n1", services={"semantic": True, "asr": False}, lenient=True)
    assert again.pairs == ["en:zh"]


@pytest.mark.parametrize("room", [1, 5])
async def test_a_wrong_index_oversells_nobody(world: World, room: int) -> None:
    """Whatever `room` says: a node is taken only if its own record says that it can be."""
    for node_id in ("n1", "n2"):
        await join(world, node_id, max_concurrent_jobs=1)
    await place(world, A)
    await place(world, B)
    await world.engine.command("HSET", cell_key(world.engine.prefix, CELL, "room"), 1, room)
    for seed in range(8):
        answer = await dispatch(world.engine, f"c0.x{seed}", "s1", "en", "zh", seed=seed * 2**29)
        assert isinstance(answer, Refusal)
        assert answer.code == "ALL_CANDIDATES_FULL_OR_FAILED"
    cell = await world.cell()
    assert [(node.used, node.standing) for node in cell.nodes.values()] == [(1, Standing.full)] * 2
    await world.engine.command("HSET", cell_key(world.engine.prefix, CELL, "room"), 1, 0)


async def test_the_time_of_a_fenced_attempt_is_not_watched_again(world: World) -> None:
    """Its job is somebody else's by now."""
    await join(world, "n1", connection="x", process_id="p1")
    await bring(world, "DISPATCHED")
    await join(world, "n2")
    world.now_ms += 5_000
    await sweep(world)
    assert (await world.cell()).jobs[A].node == "n2"
    await disconnect(world.engine, CELL, "n1", "x", "handover")
    _, changes = await watch(world, join(world, "n1", connection="y", epoch="1-n1", process_id="p1", running=[(A, 1)]))
    assert f"j:{A}" not in changes["due"]
