"""A node that failed three of its last five jobs is under suspicion: what counts, and for how long."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, SUSPECTS, Event, Standing
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.evict import evict
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.heartbeat import Beaten, heartbeat
from lingua_scheduler.flows.intents import Intended
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.resume import resume
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.flows.undeliver import undeliver
from tests.support.cells import GONE, watch
from tests.support.pasts import DONE, FAILED, doubt, give, live
from tests.support.stage import ONE_SECOND, ONE_TRY, T0, A, B, C, bring, join, keep_alive, past, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.core.records import NodeRecord
    from tests.support.world import World

    Way = Callable[[World], Awaitable[object]]


async def node(world: World, node_id: str = "n1") -> NodeRecord:
    return (await world.cell()).nodes[node_id]


async def test_the_third_failure_of_five_puts_a_node_under_suspicion(world: World) -> None:
    await join(world)
    await live(world, "n1", "xx")
    await place(world, limits=ONE_TRY)
    answer, changes = await watch(world, fail(world.engine, A, 1, "n1", reason="broken"), judged=True)
    assert answer == Failed("FAILED", 1, False)
    blamed = past((1, "n1", "failed", T0, "FAILED"), tries=1, reason="broken")
    assert changes == {
        "nodes": {"n1": {"used": 0, "recent": 0b111, "standing": Standing.suspect, "probe_at_ms": T0 + 5_000}},
        "standing": {"n1": 17},
        "room": {1: SUSPECTS},
        "jobs": {A: {"state": "FAILED", "ended_at_ms": T0, "past": blamed}},
        "leases": {f"n1:{A}:1": GONE},
        "due": {f"j:{A}": FORGET_FROM + T0 + 120_000, "n:n1": T0 + 5_000},
        "outbox": {
            Event("ended", A, 1, "n1", "1-n1", "broken", T0): T0,
            Event("suspected", "", 3, "n1", "1-n1", f"failed {A}", T0): T0,
        },
        "counts": {"FAILED": 3},
    }


async def test_two_failures_are_remembered_and_change_nothing_else(world: World) -> None:
    await join(world)
    await live(world, "n1", "x")
    await place(world, limits=ONE_TRY)
    _, changes = await watch(world, fail(world.engine, A, 1, "n1", reason="broken"), judged=True)
    assert changes["nodes"] == {"n1": {"used": 0, "recent": 0b11}}
    assert changes.keys() == {"nodes", "jobs", "leases", "due", "outbox", "counts"}
    assert changes["due"].keys() == {f"j:{A}"}


async def test_a_failure_in_limbo_counts_as_it_happens(world: World) -> None:
    """The third ack timeout: the slot stays taken, and the node is suspect and holds it."""
    await join(world)
    await live(world, "n1", "xx")
    await bring(world, "DISPATCHED", limits=ONE_TRY)
    world.now_ms += 5_000
    _, changes = await watch(world, sweep(world), judged=True)
    suspected = {"limbo": 1, "recent": 0b111, "standing": Standing.suspect, "probe_at_ms": T0 + 10_000}
    assert changes["nodes"] == {"n1": suspected}
    assert changes["room"] == {1: SUSPECTS}
    assert changes["due"]["n:n1"] == T0 + 10_000


async def test_who_was_sent_nothing_owes_no_answer(world: World) -> None:
    """Whoever dispatched these jobs died before it could hand them over: three of them, and the node is not suspect."""
    await join(world, max_concurrent_jobs=3)
    for job_id in (A, B, C):
        await place(world, job_id, limits=ONE_TRY)
    world.now_ms += 5_000
    _, changes = await watch(world, sweep(world), judged=True)
    assert changes["nodes"] == {"n1": {"limbo": 3}}
    assert {fields["past"].attempts[-1].cause for fields in changes["jobs"].values()} == {"unsent"}


async def _hold(world: World, early: bool) -> None:
    await bring(world, "RESERVED" if early else "RUNNING")


async def _late(world: World, state: Any, after_ms: int, **asked: Any) -> None:
    await bring(world, state, **asked)
    world.now_ms += after_ms
    await sweep(world)


async def _lose(world: World, early: bool) -> None:
    await _hold(world, early)
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    await sweep(world)


async def _die(world: World, early: bool) -> None:
    await _hold(world, early)
    await join(world, process_id="p2", connection="y")


async def _leave(world: World, early: bool) -> None:
    """And come back."""
    await _hold(world, early)
    await leave(world.engine, CELL, "n1")
    await join(world)


async def _drop(world: World) -> None:
    await bring(world, "RUNNING")
    await join(world, epoch="1-n1", process_id="p1", connection="y", running=[])


async def _then(world: World, call: Callable[..., Awaitable[object]], *args: Any, **named: Any) -> None:
    await place(world)
    await call(world.engine, *args, **named)


#: How each way for an attempt to end comes about, and how many failures that is.
WAYS: dict[str, tuple[int, Way]] = {
    "undelivered": (1, lambda world: _then(world, undeliver, A, 1, "n1")),
    "overloaded": (0, lambda world: _then(world, fail, A, 1, "n1", reason="", overloaded=True)),
    "failed": (1, lambda world: _then(world, fail, A, 1, "n1", reason="")),
    "stopped": (1, lambda world: _then(world, stopped, A, 1, "n1")),
    "dropped": (1, _drop),
    "ack_timeout": (1, lambda world: _late(world, "DISPATCHED", 5_000)),
    "unsent": (0, lambda world: _late(world, "RESERVED", 5_000)),
    "run_timeout": (1, lambda world: _late(world, "RUNNING", 30_000)),
    "lost_early": (1, lambda world: _lose(world, early=True)),
    "lost": (1, lambda world: _lose(world, early=False)),
    "died_early": (1, lambda world: _die(world, early=True)),
    "died": (1, lambda world: _die(world, early=False)),
    "left_early": (0, lambda world: _leave(world, early=True)),
    "left": (0, lambda world: _leave(world, early=False)),
    "evicted": (0, lambda world: _then(world, evict, CELL, "n1")),
    "cancelled": (0, lambda world: _then(world, cancel, A)),
    "expired": (0, lambda world: _late(world, "RESERVED", 1_000, limits=ONE_SECOND)),
}


def test_every_way_for_an_attempt_to_end_is_tried_here() -> None:
    assert WAYS.keys() == {cause.name for cause in CAUSES}


@pytest.mark.parametrize("cause", WAYS)
async def test_what_is_the_node_s_own_fault_counts_and_nothing_else(world: World, cause: str) -> None:
    await join(world, process_id="p1", connection="x")
    failures, way = WAYS[cause]
    await way(world)
    cell = await world.cell()
    assert cell.jobs[A].past.attempts[0].cause == cause
    assert cell.nodes["n1"].recent.bit_count() == failures


@pytest.mark.parametrize("come_back", [False, True], ids=["lost", "a new process"])
async def test_a_node_that_takes_all_its_jobs_with_it_has_failed_once(world: World, come_back: bool) -> None:
    await join(world, max_concurrent_jobs=3, process_id="p1", connection="x")
    for job_id in (A, B, C):
        await bring(world, "RUNNING", job_id)
    if come_back:
        await join(world, process_id="p2", connection="y")
    else:
        await disconnect(world.engine, CELL, "n1", "x")
        world.now_ms += 500
        await sweep(world)
    cell = await world.cell()
    assert {job.past.attempts[0].cause for job in cell.jobs.values()} == {"died" if come_back else "lost"}
    assert cell.nodes["n1"].recent == 1


@pytest.mark.parametrize("handover", [False, True])
@pytest.mark.parametrize(
    ("said", "after_ms", "swept", "how", "cause"),
    [
        ({"process_id": "p2"}, 0, False, "NEW_PROCESS", "died"),
        ({"process_id": "p2"}, 10_000, False, "NEW_PROCESS", "died"),
        ({}, 10_000, False, "RENEWED", "lost"),
        ({"process_id": "p2"}, 10_000, True, "NEW_PROCESS", "lost"),
        ({}, 10_000, True, "RENEWED", "lost"),
    ],
    ids=["at once", "late, before a sweep", "late, of old, before a sweep", "late", "late, of old"],
)
async def test_a_node_that_lost_its_jobs_with_its_socket_has_failed_once_however_that_is_noticed(
    world: World, said: dict[str, Any], after_ms: int, swept: bool, how: str, cause: str, handover: bool
) -> None:
    await join(world, max_concurrent_jobs=2, process_id="p1", connection="x")
    for job_id in (A, B):
        await bring(world, "RUNNING", job_id)
    await disconnect(world.engine, CELL, "n1", "x", "handover" if handover else "closed")
    world.now_ms += after_ms
    if swept:
        await sweep(world)
    for connection in ("y", "z"):
        answer = await join(world, connection=connection, **said)
        assert answer.how == (how if connection == "y" else "CONTINUED")
        cell = await world.cell()
        assert {cell.jobs[job_id].past.attempts[0].cause for job_id in (A, B)} == {cause}
        assert cell.nodes["n1"].recent == 1


@pytest.mark.parametrize("after_ms", [499, 500])
async def test_who_is_back_with_all_its_jobs_has_failed_none(world: World, after_ms: int) -> None:
    await join(world, connection="x")
    await bring(world, "RUNNING")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += after_ms
    assert (await join(world, connection="y", epoch="1-n1", running=[(A, 1)])).how == "RESYNC"
    assert (await node(world)).recent == 0
    assert (await world.cell()).jobs[A].state == "RUNNING"


async def test_the_third_loss_that_a_registration_notices_puts_a_node_under_suspicion(world: World) -> None:
    await join(world, process_id="p1", connection="x")
    await live(world, "n1", "xx")
    await disconnect(world.engine, CELL, "n1", "x")
    answer = await join(world, process_id="p2", connection="y")
    assert answer.standing == Standing.suspect
    assert ((await node(world)).recent, (await node(world)).probe_at_ms) == (0b111, T0 + 5_000)


async def test_a_node_that_is_new_has_failed_nothing(world: World) -> None:
    await join(world, process_id="p1")
    assert (await node(world)).recent == 0


async def test_silence_counts_once_it_is_final(world: World) -> None:
    await join(world)
    world.now_ms += 35_000
    await sweep(world)
    assert (await node(world)).recent == 0
    world.now_ms += 10_000
    await sweep(world)
    assert ((await node(world)).recent, (await node(world)).standing) == (1, Standing.lost)


async def test_every_past_of_six_jobs_is_judged_by_its_last_five(world: World) -> None:
    """64 nodes, one for each past, live side by side."""
    pasts = ["".join(outcomes) for outcomes in itertools.product(FAILED + DONE, repeat=6)]
    names = {f"n{number:02}": outcomes for number, outcomes in enumerate(pasts)}
    await asyncio.gather(*(join(world, node_id) for node_id in names))
    for length in range(1, 7):
        await asyncio.gather(*(live(world, node_id, outcomes[length - 1]) for node_id, outcomes in names.items()))
        cell = await world.cell()
        for node_id, outcomes in names.items():
            window = outcomes[:length][-5:]
            suspect = window.count(FAILED) >= 3
            record = cell.nodes[node_id]
            assert record.recent == int("".join("1" if one == FAILED else "0" for one in window), 2), outcomes
            assert (record.probe_at_ms > 0) == suspect, outcomes
            # Whoever did its last job is tried again at once; whoever failed it is not.
            doubtful = suspect and window.endswith(FAILED)
            assert record.standing == (Standing.suspect if doubtful else Standing.available), outcomes


async def test_a_node_that_never_failed_has_no_failures_to_be_remembered_by(world: World) -> None:
    await join(world)
    await place(world)
    _, changes = await watch(world, done(world.engine, A, 1, "n1"), judged=True)
    assert changes["nodes"] == {"n1": {"used": 0, "typical_ms": 1}}


@pytest.mark.parametrize(
    ("said", "how"),
    [({"epoch": "1-n1"}, "RESYNC"), ({}, "CONTINUED"), ({"process_id": "p2"}, "NEW_PROCESS")],
)
async def test_a_registration_clears_nobody(world: World, said: dict[str, Any], how: str) -> None:
    await join(world, process_id="p1")
    await doubt(world, "n1")
    answer = await join(world, **said)
    assert (answer.how, answer.standing) == (how, Standing.suspect)
    assert (await node(world)).recent == (0b1111 if how == "NEW_PROCESS" else 0b111)


async def test_who_leaves_and_joins_is_a_new_node(world: World) -> None:
    await join(world)
    await doubt(world, "n1")
    await leave(world.engine, CELL, "n1")
    assert (await join(world)).standing == Standing.available
    assert (await node(world)).recent == 0


async def test_failures_of_one_tick_count_one_by_one(world: World) -> None:
    await join(world, max_concurrent_jobs=4)
    jobs = [await give(world, "n1") for _ in range(4)]
    answers = await asyncio.gather(
        *(fail(world.engine, job_id, 1, "n1", reason="") for job_id in jobs[:2]),
        done(world.engine, jobs[2], 1, "n1"),
        fail(world.engine, jobs[3], 1, "n1", reason=""),
    )
    assert len(answers) == 4
    record = await node(world)
    assert record.recent.bit_count() == 3
    assert (record.used, record.standing, record.probe_at_ms) == (0, Standing.suspect, T0 + 5_000)


async def test_a_failure_that_is_told_twice_counts_once(world: World) -> None:
    await join(world)
    job_id = await give(world, "n1")
    for _ in range(3):
        await fail(world.engine, job_id, 1, "n1", reason="")
    assert (await node(world)).recent == 1


class TestSuspicionAndWhatElseIsSaidOfANode:
    """The first that holds is how it stands; what is beneath comes to light again."""

    async def test_a_suspect_that_is_drained_is_draining_and_suspect_again_after_it(self, world: World) -> None:
        await join(world)
        await doubt(world, "n1")
        answer, changes = await watch(world, drain(world.engine, CELL, "n1"), judged=True)
        assert answer == Intended("draining", Standing.draining, 0)
        assert changes == {
            "nodes": {"n1": {"intent": "draining", "standing": Standing.draining}},
            "standing": {"n1": 22},
            "room": {1: 0},
        }
        answer, changes = await watch(world, resume(world.engine, CELL, "n1"), judged=True)
        assert answer == Intended("active", Standing.suspect, 0)
        assert changes == {
            "nodes": {"n1": {"intent": "active", "standing": Standing.suspect}},
            "standing": {"n1": 17},
            "room": {1: SUSPECTS},
        }

    async def test_the_time_for_a_probe_comes_while_it_is_drained(self, world: World) -> None:
        await join(world)
        await doubt(world, "n1")
        await drain(world.engine, CELL, "n1")
        world.now_ms += 5_000
        await sweep(world)
        assert await resume(world.engine, CELL, "n1") == Intended("active", Standing.available, 0)

    async def test_a_suspect_that_is_overloaded_rests_without_blame(self, world: World) -> None:
        await join(world)
        await doubt(world, "n1")
        job_id = await give(world, "n1")
        _, changes = await watch(world, fail(world.engine, job_id, 1, "n1", reason="", overloaded=True), judged=True)
        assert changes["room"] == {1: 0}
        assert changes["due"]["n:n1"] == T0 + 1_000
        record = await node(world)
        assert (record.recent, record.standing, record.rest_until_ms) == (0b111, Standing.resting, T0 + 1_000)
        world.now_ms += 1_000
        _, changes = await watch(world, sweep(world), judged=True)
        # The job comes back to the only node there is.
        assert changes["nodes"] == {"n1": {"used": 1, "standing": Standing.suspect}}
        assert changes["due"]["n:n1"] == T0 + 5_000

    async def test_who_cannot_be_written_to_for_the_third_time_rests_and_is_suspect_then(self, world: World) -> None:
        await join(world)
        await live(world, "n1", "xx")
        await place(world, limits=Limits(max_retry=0))
        await undeliver(world.engine, A, 1, "n1")
        record = await node(world)
        assert (record.recent, record.standing, record.probe_at_ms) == (0b111, Standing.resting, T0 + 5_000)
        world.now_ms += 500
        await sweep(world)
        assert (await node(world)).standing == Standing.suspect

    async def test_a_suspect_falls_stale_like_any_other_and_wakes_as_a_suspect_that_is_due_for_a_probe(
        self, world: World
    ) -> None:
        await join(world, max_concurrent_jobs=1)
        await doubt(world, "n1")
        await bring(world, "RUNNING", limits=Limits(run_ms=60_000))
        world.now_ms += 35_000
        await sweep(world)
        assert (await node(world)).standing == Standing.stale
        answer = await heartbeat(world.engine, CELL, "n1")
        assert answer == Beaten("1-n1", Standing.suspect_full, [])
        await done(world.engine, A, 1, "n1")
        assert (await node(world)).standing == Standing.available

    async def test_a_suspect_that_is_not_ready_is_suspect_when_it_is(self, world: World) -> None:
        await join(world)
        await doubt(world, "n1")
        for health, standing in (("degraded", Standing.not_ready), ("ready", Standing.suspect)):
            answer = await heartbeat(world.engine, CELL, "n1", health=health)
            assert answer == Beaten("1-n1", standing, [])

    async def test_a_suspect_without_a_free_slot_is_full(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1)
        await doubt(world, "n1")
        _, changes = await watch(world, place(world), judged=True)
        assert changes["nodes"] == {"n1": {"used": 1, "standing": Standing.suspect_full}}
        assert (changes["standing"], changes["room"]) == ({"n1": 19}, {1: 0})
        await keep_alive(world, "n1")
        assert (await node(world)).standing == Standing.suspect_full


async def test_each_step_into_suspicion_and_out_of_it_is_told_once_with_its_reason(world: World) -> None:
    await join(world)
    for number, ends in enumerate("xxxx..."):
        job_id = f"{CELL}.{number}"
        # One under suspicion is probed when its time has come.
        world.now_ms += 10_000
        await keep_alive(world, "n1")
        await place(world, job_id, limits=ONE_TRY)
        if ends == "x":
            await fail(world.engine, job_id, 1, "n1", reason="broken")
        else:
            await done(world.engine, job_id, 1, "n1")
    told = [event for event, _ in (await world.cell()).outbox if event.kind in {"suspected", "trusted"}]
    assert [(event.kind, event.node, event.attempt, event.detail) for event in told] == [
        ("suspected", "n1", 3, f"failed {CELL}.2"),
        ("trusted", "n1", 0, ""),
    ]


async def test_of_a_node_that_rests_it_is_told_once_until_the_rest_is_over(world: World) -> None:
    await join(world, max_concurrent_jobs=4)
    for number in range(3):
        await place(world, f"{CELL}.{number}", limits=ONE_TRY)
    busy: dict[str, Any] = {"reason": "busy", "overloaded": True, "retry_after_ms": 300}
    for number in range(2):
        await fail(world.engine, f"{CELL}.{number}", 1, "n1", **busy)
    world.now_ms += 301
    await fail(world.engine, f"{CELL}.2", 1, "n1", **busy)
    told = [event for event, _ in (await world.cell()).outbox if event.kind == "resting"]
    assert [(event.attempt, event.detail, event.at_ms) for event in told] == [
        (300, "overloaded", T0),
        (300, "overloaded", T0 + 301),
    ]
