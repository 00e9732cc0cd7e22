"""Every message of a node shows that it lives, whatever the message is worth."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, Standing
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.started import started
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.flows.undeliver import undeliver
from tests.support.cells import watch
from tests.support.stage import T0, A, B, bring, code_of, join, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.store.engine import Engine
    from tests.support.world import World

    Message = Callable[..., Awaitable[object]]


async def failed(engine: Engine, *attempt: Any) -> object:
    return await fail(engine, *attempt, reason="")


MESSAGES: Final[list[Message]] = [ack, started, stopped, done, failed]

#: What a message may name that changes no job of a node that holds A, and what it hears.
WORTHLESS: Final = {
    "UNKNOWN_JOB": (B, 1),
    "NODE_MISMATCH": (A, 2),
}


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("code", WORTHLESS)
async def test_a_message_that_is_worth_nothing_is_a_sign_of_life(world: World, message: Message, code: str) -> None:
    await join(world)
    await place(world)
    world.now_ms += 100
    answer, changes = await watch(world, message(world.engine, *WORTHLESS[code], "n1"))
    assert code_of(answer) == code
    assert changes == {"nodes": {"n1": {"seen_at_ms": T0 + 100}}}


@pytest.mark.parametrize("message", MESSAGES)
async def test_a_message_about_an_attempt_that_is_over_is_a_sign_of_life(world: World, message: Message) -> None:
    await join(world, "n1")
    await place(world)
    await join(world, "n2")
    await undeliver(world.engine, A, 1, "n1")
    world.now_ms += 100
    answer, changes = await watch(world, message(world.engine, A, 1, "n1"))
    assert code_of(answer) == "STALE_ATTEMPT"
    assert changes == {"nodes": {"n1": {"seen_at_ms": T0 + 100}}}


@pytest.mark.parametrize("message", MESSAGES)
async def test_a_message_that_moves_its_job_is_a_sign_of_life(world: World, message: Message) -> None:
    await join(world)
    await place(world)
    world.now_ms += 100
    answer, changes = await watch(world, message(world.engine, A, 1, "n1", "1-n1"))
    assert code_of(answer) == ""
    assert changes["jobs"].keys() == {A}
    assert changes["nodes"]["n1"]["seen_at_ms"] == T0 + 100
    assert "n:n1" not in changes.get("due", {})


async def test_a_repeated_result_is_a_sign_of_life(world: World) -> None:
    await join(world)
    await bring(world, "FINISHED")
    world.now_ms += 100
    _, changes = await watch(world, done(world.engine, A, 1, "n1"))
    assert changes == {"nodes": {"n1": {"seen_at_ms": T0 + 100}}}


@pytest.mark.parametrize("message", MESSAGES)
async def test_signs_of_life_are_written_down_no_more_often_than_silence_matters(
    world: World, message: Message
) -> None:
    await join(world)
    for at, written in ((99, False), (100, True), (199, False), (200, True), (450, True)):
        world.now_ms = T0 + at
        _, changes = await watch(world, message(world.engine, B, 1, "n1"))
        assert changes == ({"nodes": {"n1": {"seen_at_ms": T0 + at}}} if written else {})


@pytest.mark.parametrize("message", MESSAGES)
async def test_a_message_of_another_epoch_is_no_sign_of_life(world: World, message: Message) -> None:
    await join(world)
    await place(world)
    world.now_ms += 100
    answer, changes = await watch(world, message(world.engine, A, 1, "n1", "0-old"))
    assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


@pytest.mark.parametrize("message", MESSAGES)
async def test_a_message_of_a_node_that_nobody_knows_is_no_sign_of_anything(world: World, message: Message) -> None:
    await join(world)
    await place(world)
    world.now_ms += 100
    answer, changes = await watch(world, message(world.engine, A, 1, "n2"))
    assert (code_of(answer), changes) == ("NODE_MISMATCH", {})


async def test_a_message_is_a_sign_of_life_of_nobody_else(world: World) -> None:
    await join(world, "n1")
    await join(world, "n2")
    await place(world)
    world.now_ms += 100
    _, changes = await watch(world, ack(world.engine, B, 1, "n2"))
    assert changes == {"nodes": {"n2": {"seen_at_ms": T0 + 100}}}


@pytest.mark.parametrize("flow", [deliver, undeliver])
async def test_what_was_written_to_a_node_is_no_sign_of_its_life(world: World, flow: Any) -> None:
    await join(world, max_concurrent_jobs=1)
    await place(world)
    world.now_ms += 100
    await flow(world.engine, A, 1, "n1")
    assert (await world.cell()).nodes["n1"].seen_at_ms == T0


async def test_messages_of_one_tick_are_one_sign_of_life(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await place(world)
    world.now_ms += 100
    _, changes = await watch(world, asyncio.gather(done(world.engine, A, 1, "n1"), done(world.engine, B, 1, "n1")))
    assert changes["nodes"] == {"n1": {"used": 0, "standing": 0, "seen_at_ms": T0 + 100}}


async def test_a_node_that_speaks_is_not_stale_by_the_next_look(world: World) -> None:
    """The look comes when it was due; what it finds is a node that was heard since."""
    await join(world)
    world.now_ms += 30_000
    await ack(world.engine, A, 1, "n1")
    world.now_ms += 5_000
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert (answer, changes) == (Settled(1, False), {"due": {"n:n1": T0 + 65_000}})


@pytest.mark.parametrize("message", MESSAGES)
async def test_a_stale_node_that_speaks_is_judged_anew_by_the_next_sweep(world: World, message: Message) -> None:
    await join(world)
    now = world.now_ms = T0 + 40_000
    await sweep(world)
    _, changes = await watch(world, message(world.engine, A, 1, "n1"))
    assert changes == {"nodes": {"n1": {"seen_at_ms": now}}, "due": {"n:n1": now}}
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes == {
        "nodes": {"n1": {"standing": 0}},
        "standing": {"n1": 16},
        "room": {1: 1},
        "due": {"n:n1": now + 35_000},
    }


async def test_a_stale_node_that_speaks_is_judged_anew_by_the_next_dispatch(world: World) -> None:
    await join(world)
    world.now_ms += 35_000
    refusal = await dispatch(world.engine, A, "s1", "en", "zh")
    assert isinstance(refusal, Refusal)
    assert refusal.breakdown == Breakdown(pool=1, stale=1)
    await ack(world.engine, A, 1, "n1")
    assert await place(world) == Placed("RESERVED", "n1", "1-n1", 1, 1, is_new=True, deadline_at_ms=T0 + 95_000)


async def test_a_result_of_a_stale_node_is_taken_and_lets_it_serve_again(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await place(world, limits=Limits(ack_ms=50_000))
    now = world.now_ms = T0 + 35_000
    await sweep(world)
    assert (await world.cell()).nodes["n1"].standing == 7
    answer, changes = await watch(world, done(world.engine, A, 1, "n1"))
    assert answer == Moved("FINISHED")
    assert changes["nodes"] == {"n1": {"used": 0, "seen_at_ms": now}}
    assert changes["due"] == {"n:n1": now, f"j:{A}": FORGET_FROM + now + 120_000}
    await sweep(world)
    assert (await world.cell()).nodes["n1"].standing == 0


async def test_a_drained_node_that_fell_silent_is_stale_and_draining_again_when_it_speaks(world: World) -> None:
    """One that may be dead is called that, whatever was said of it before."""
    await join(world)
    await drain(world.engine, CELL, "n1")
    world.now_ms += 35_000
    _, changes = await watch(world, reap(world.engine, CELL))
    assert changes == {"nodes": {"n1": {"standing": 7}}, "standing": {"n1": 23}, "due": {"n:n1": T0 + 45_000}}
    await ack(world.engine, A, 1, "n1")
    _, changes = await watch(world, reap(world.engine, CELL))
    assert changes == {"nodes": {"n1": {"standing": 6}}, "standing": {"n1": 22}, "due": {"n:n1": T0 + 70_000}}


async def test_a_node_in_its_grace_that_speaks_is_heard_and_its_grace_goes_on(world: World) -> None:
    await join(world, connection="x")
    await drain(world.engine, CELL, "n1")
    await disconnect(world.engine, CELL, "n1", "x", "handover")
    assert (await world.cell()).nodes["n1"].standing == 5
    world.now_ms += 9_999
    _, changes = await watch(world, ack(world.engine, A, 1, "n1"))
    assert changes == {"nodes": {"n1": {"seen_at_ms": T0 + 9_999}}}
    world.now_ms += 1
    await sweep(world)
    node = (await world.cell()).nodes["n1"]
    assert (node.lost_at_ms, node.away_until_ms, node.standing) == (T0 + 10_000, T0 + 10_000, Standing.lost)


@pytest.mark.parametrize("message", MESSAGES)
async def test_a_lost_node_that_speaks_is_heard_and_stays_lost(world: World, message: Message) -> None:
    """Only a beat, its last confirmation or a registration brings it back: it is not looked at before its time."""
    await join(world)
    now = world.now_ms = T0 + 45_000
    for _ in range(2):
        await sweep(world)
    assert (await world.cell()).nodes["n1"].standing == Standing.lost
    _, changes = await watch(world, message(world.engine, A, 1, "n1"))
    assert changes == {"nodes": {"n1": {"seen_at_ms": now}}}


async def test_a_node_that_was_given_a_job_in_the_same_run_is_heard_all_the_same(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await place(world, A)
    await join(world, "n2", max_concurrent_jobs=2)
    await place(world, B)
    world.now_ms += 100
    await asyncio.gather(
        fail(world.engine, A, 1, "n1", reason="broken"), fail(world.engine, B, 1, "n2", reason="broken")
    )
    cell = await world.cell()
    assert (cell.jobs[A].node, cell.jobs[A].attempt) == ("n2", 2)
    assert {node.seen_at_ms for node in cell.nodes.values()} == {T0 + 100}
