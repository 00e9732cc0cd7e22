"""What becomes of a node's work when the node registers again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Event, Standing
from lingua_scheduler.core.wanted import Hints, Wanted
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.register import Registered
from lingua_scheduler.flows.started import started
from tests.support.cells import GONE, HELD, watch
from tests.support.stage import ONE_TRY, T0, A, B, C, D, bring, join, past, place, queued, seed_for, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


async def test_a_new_process_ends_everything_that_the_old_one_had(world: World) -> None:
    """Not yet accepted: at no cost. Accepted: a try, and a node lost. In limbo: over."""
    await join(world, "n1", max_concurrent_jobs=3, process_id="old")
    await bring(world, "DISPATCHED", A, limits=ONE_TRY)
    await bring(world, "RUNNING", B)
    await bring(world, "CANCELLED", C)
    await join(world, "n2")
    world.now_ms += 7
    now = T0 + 7
    answer, changes = await watch(world, join(world, "n1", max_concurrent_jobs=3, process_id="new"))
    assert answer == Registered("NEW_PROCESS", "3-n1", Standing.available, ["en:zh"], [], [])
    assert changes["nodes"] == {
        "n1": {"used": 0, "limbo": 0, "epoch": "3-n1", "standing": 0, "seen_at_ms": now},
        "n2": {"used": 2, "standing": 2},
    }
    assert changes["jobs"][A]["past"] == past((1, "n1", "died_early", now, "RETRYING"))
    assert changes["jobs"][B]["past"] == past((1, "n1", "died", now, "RETRYING"), tries=1, lost=1)
    assert changes["leases"] == {
        f"n1:{A}:1": GONE,
        f"n1:{B}:1": GONE,
        f"n1:{C}:1": GONE,
        f"n2:{A}:2": HELD,
        f"n2:{B}:2": HELD,
    }
    assert changes["limbo"] == {f"n1:{C}:1": GONE}
    assert changes["due"] == {
        "n:n1": now + 35_000,
        f"l:n1:{C}:1": GONE,
        f"j:{A}": now + 5_000,
        f"j:{B}": now + 5_000,
    }
    assert changes["outbox"] == {Event("reserved", job_id, 2, "n2", "2-n2", "", now): now for job_id in (A, B)}
    assert changes["counts"] == {"epoch": 3}


@pytest.mark.parametrize(("drained", "reason"), [(False, "not_ready"), (True, "draining")])
@pytest.mark.parametrize("silent", [False, True])
async def test_what_stands_against_a_job_s_own_node_is_what_it_is_while_it_registers(
    world: World, drained: bool, reason: str, silent: bool
) -> None:
    """Not what it was before: it is heard just now."""
    await join(world, "n1", process_id="old")
    wanted, limits = Wanted(preferred_node_id="n1", strict=True), Limits(run_ms=60_000)
    await bring(world, "RUNNING", A, wanted=wanted, limits=limits)
    if drained:
        await drain(world.engine, CELL, "n1")
    if silent:
        world.now_ms += 35_000
        await sweep(world)
        assert (await world.cell()).nodes["n1"].standing == Standing.stale
    await join(world, "n1", process_id="new", health="degraded")
    cell = await world.cell()
    assert (cell.jobs[A].state, cell.jobs[A].past.reasons) == ("RETRYING", [f"preferred {reason}"])
    assert cell.nodes["n1"].reported == "degraded"


async def test_what_a_node_served_before_is_no_pool_while_its_work_goes_to_others(world: World) -> None:
    """It was alone in it: a job that wishes for a pool is not told that this one is full."""
    await join(world, "n1", process_id="old")
    wanted, hints = Wanted(policy="sticky_pool"), Hints(last_pool="red")
    await bring(world, "RESERVED", A, wanted=wanted, hints=hints)
    await join(world, "n1", process_id="new", semantic_langs=["fr", "en"], nmt_pairs=[["fr", "en"]])
    cell = await world.cell()
    assert (cell.jobs[A].state, cell.jobs[A].past.reasons) == ("RETRYING", [])
    assert cell.pairs.keys() == {"fr:en"}


@pytest.mark.parametrize("connection", ["", "y"])
async def test_a_new_process_gets_its_own_job_again_when_nobody_else_can(world: World, connection: str) -> None:
    """After its own claims are in the ledger: it waited for no longer than that, and drew no lot."""
    await join(world, process_id="old", connection="x", max_concurrent_jobs=1)
    await bring(world, "RUNNING")
    world.now_ms += 7
    now = T0 + 7
    said: dict[str, Any] = {"process_id": "new", "connection": connection, "max_concurrent_jobs": 1}
    answer, changes = await watch(world, join(world, **said))
    assert answer == Registered("NEW_PROCESS", "2-n1", Standing.available, ["en:zh"], [], [], "x")
    assert changes == {
        "nodes": {"n1": {"epoch": "2-n1", "seen_at_ms": now, "nonce": connection}},
        "profiles": {
            "n1": {"process": "new", "connection": connection, "registered_at_ms": now, "opened_ms": now},
        },
        "jobs": {
            A: {
                "state": "RESERVED",
                "attempt": 2,
                "epoch": "2-n1",
                "reserved_at_ms": now,
                "dispatched_at_ms": 0,
                "accepted_at_ms": 0,
                "started_at_ms": 0,
                "past": past((1, "n1", "died", now, "RETRYING"), tries=1, lost=1),
            }
        },
        "leases": {f"n1:{A}:1": GONE, f"n1:{A}:2": HELD},
        "due": {"n:n1": now + 35_000, f"j:{A}": now + 5_000},
        "outbox": {Event("reserved", A, 2, "n1", "2-n1", "", now): now},
        "counts": {"epoch": 2},
    }


async def test_a_new_process_is_not_given_what_its_claims_leave_no_room_for(world: World) -> None:
    await join(world, process_id="old", max_concurrent_jobs=1)
    await bring(world, "RUNNING")
    answer, changes = await watch(world, join(world, process_id="new", max_concurrent_jobs=1, running=[(B, 1)]))
    assert answer == Registered("NEW_PROCESS", "2-n1", Standing.full, ["en:zh"], [(B, 1)], [])
    lease = f"n1:{B}:1"
    died = past((1, "n1", "died", T0, "RETRYING"), tries=1, lost=1)
    assert changes == {
        "nodes": {"n1": {"limbo": 1, "epoch": "2-n1"}},
        "profiles": {"n1": {"process": "new"}},
        "jobs": {A: {"state": "RETRYING", "past": died}},
        "leases": {f"n1:{A}:1": GONE, lease: HELD},
        "limbo": {lease: T0},
        "queue": {queued(A, T0 + 60_000): HELD},
        "due": {f"j:{A}": T0 + 60_000, f"l:{lease}": T0 + 60_000},
        "counts": {"epoch": 2},
    }


async def test_two_new_processes_make_a_job_poison(world: World) -> None:
    await join(world, process_id="p1")
    await bring(world, "RUNNING")
    await join(world, process_id="p2")
    await ack(world.engine, A, 2, "n1")
    _, changes = await watch(world, join(world, process_id="p3"))
    job = (await world.cell()).jobs[A]
    assert (job.state, job.past.reason, job.past.lost) == ("FAILED", "poison", 2)
    assert changes["outbox"] == {Event("ended", A, 2, "n1", "2-n1", "poison", T0): T0}
    assert changes["counts"] == {"epoch": 3, "FAILED": 1}


async def test_what_a_new_process_says_it_runs_takes_slots_until_it_has_stopped(world: World) -> None:
    """Nothing of it is known, so all of it is cancelled; more than its slots is more than its slots."""
    await join(world, process_id="old")
    running = [(D, 2), (B, 1), (D, 10)]
    answer, changes = await watch(world, join(world, process_id="new", running=running))
    leases = [f"n1:{B}:1", f"n1:{D}:10", f"n1:{D}:2"]
    assert answer == Registered("NEW_PROCESS", "2-n1", Standing.full, ["en:zh"], [(B, 1), (D, 10), (D, 2)], [])
    assert changes == {
        "nodes": {"n1": {"used": 3, "limbo": 3, "ceiling": 3, "epoch": "2-n1", "standing": 2}},
        "profiles": {"n1": {"process": "new"}},
        "standing": {"n1": 18},
        "room": {1: 0},
        "leases": dict.fromkeys(leases, HELD),
        "limbo": dict.fromkeys(leases, T0),
        "due": {f"l:{lease}": T0 + 60_000 for lease in leases},
        "counts": {"epoch": 2},
    }


async def test_a_new_node_s_unknown_work_is_counted_too(world: World) -> None:
    answer, changes = await watch(world, join(world, running=[(A, 1)]))
    assert answer == Registered("NEW", "1-n1", Standing.available, ["en:zh"], [(A, 1)], [])
    assert changes["leases"] == {f"n1:{A}:1": HELD}
    node = changes["nodes"]["n1"]
    assert (node.used, node.limbo, node.ceiling, node.standing) == (1, 1, 2, 0)


async def test_work_that_was_forgotten_by_the_engine_is_told_apart_from_its_new_attempt(world: World) -> None:
    """A fail-over forgot the job; the node still runs it when the caller sends the same dispatch again."""
    await join(world, running=[(A, 1)])
    placed = await place(world)
    assert (placed.node_id, placed.attempt_id) == ("n1", 2)
    cell = await world.cell()
    assert cell.leases == [f"n1:{A}:1", f"n1:{A}:2"]
    assert cell.nodes["n1"].used == 2


async def test_a_resync_ends_what_the_node_has_lost_and_cancels_what_it_should_not_have(world: World) -> None:
    """A runs and is named; B ran and is not; C is fenced and named; d is fenced and not; e is nobody's."""
    await join(world, "n1", max_concurrent_jobs=4)
    await bring(world, "RUNNING", A)
    await bring(world, "ACCEPTED", B)
    await bring(world, "CANCELLED", C)
    await bring(world, "CANCELLED", D)
    await join(world, "n2")
    world.now_ms += 7
    now = T0 + 7
    answer, changes = await watch(
        world,
        join(world, "n1", max_concurrent_jobs=4, epoch="1-n1", running=[(C, 1), (A, 1), ("c0.e", 5)]),
    )
    assert answer == Registered("RESYNC", "1-n1", Standing.available, ["en:zh"], [(C, 1), ("c0.e", 5)], [])
    assert changes["nodes"] == {
        "n1": {"used": 3, "standing": 0, "seen_at_ms": now},
        "n2": {"used": 1},
    }
    assert changes["jobs"].keys() == {B}
    assert changes["jobs"][B]["past"] == past((1, "n1", "dropped", now, "RETRYING"), tries=1)
    assert changes["leases"] == {
        f"n1:{B}:1": GONE,
        f"n1:{D}:1": GONE,
        "n1:c0.e:5": HELD,
        f"n2:{B}:2": HELD,
    }
    assert changes["limbo"] == {f"n1:{D}:1": GONE, "n1:c0.e:5": now}
    assert changes["outbox"] == {Event("reserved", B, 2, "n2", "2-n2", "", now): now}
    assert changes["due"] == {
        "n:n1": now + 35_000,
        f"l:n1:{D}:1": GONE,
        "l:n1:c0.e:5": now + 60_000,
        f"j:{B}": now + 5_000,
    }


@pytest.mark.parametrize("state", ["RESERVED", "DISPATCHED"])
@pytest.mark.parametrize("connection", ["", "y"])
async def test_an_assignment_that_a_new_socket_does_not_know_of_is_given_to_another_node(
    world: World, state: Any, connection: str
) -> None:
    """A node without a socket finds it in its mailbox."""
    await join(world, "n1", connection="x")
    await bring(world, state, limits=ONE_TRY)
    await join(world, "n2")
    _, changes = await watch(world, join(world, "n1", epoch="1-n1", connection=connection, running=[]))
    if connection:
        assert changes["jobs"][A]["past"] == past((1, "n1", "undelivered", T0, "RETRYING"), undelivered=1)
        assert changes["leases"] == {f"n1:{A}:1": GONE, f"n2:{A}:2": HELD}
    else:
        assert changes == {"profiles": {"n1": {"connection": ""}}, "nodes": {"n1": {"nonce": ""}}}


async def test_a_node_that_does_not_say_what_it_runs_keeps_what_it_has(world: World) -> None:
    await join(world, connection="x")
    await bring(world, "RUNNING")
    await bring(world, "CANCELLED", B)
    _, changes = await watch(world, join(world, epoch="1-n1", connection="y"))
    assert changes == {"profiles": {"n1": {"connection": "y"}}, "nodes": {"n1": {"nonce": "y"}}}


async def test_a_node_that_continues_is_compared_too(world: World) -> None:
    await join(world)
    await bring(world, "RUNNING", limits=ONE_TRY)
    answer, changes = await watch(world, join(world, running=[]))
    assert answer.how == "CONTINUED"
    assert changes["jobs"][A]["state"] == "FAILED"
    assert changes["counts"] == {"FAILED": 1}
    assert changes["outbox"] == {Event("ended", A, 1, "n1", "1-n1", "dropped", T0): T0}


async def test_a_legacy_node_after_its_grace_leaves_its_attempts_in_limbo(world: World) -> None:
    await join(world, "n1", connection="x", max_concurrent_jobs=3)
    await bring(world, "DISPATCHED", A, limits=ONE_TRY)
    await bring(world, "RUNNING", B)
    await join(world, "n2")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    now = T0 + 500
    answer, changes = await watch(world, join(world, "n1", connection="y", max_concurrent_jobs=3))
    assert answer == Registered("RENEWED", "3-n1", Standing.available, ["en:zh"], [], [], "x")
    assert changes["nodes"] == {
        "n1": {"limbo": 2, "epoch": "3-n1", "standing": 0, "away_until_ms": 0, "seen_at_ms": now, "nonce": "y"},
        "n2": {"used": 2, "standing": 2},
    }
    assert changes["jobs"][A]["past"] == past((1, "n1", "lost_early", now, "RETRYING"))
    assert changes["jobs"][B]["past"] == past((1, "n1", "lost", now, "RETRYING"), tries=1, lost=1)
    assert changes["limbo"] == {f"n1:{A}:1": now, f"n1:{B}:1": now}
    assert changes["outbox"] == {
        Event("fenced", A, 1, "n1", "1-n1", "lost_early", now): now,
        Event("fenced", B, 1, "n1", "1-n1", "lost", now): now,
        Event("reserved", A, 2, "n2", "2-n2", "", now): now,
        Event("reserved", B, 2, "n2", "2-n2", "", now): now,
    }


@pytest.mark.parametrize("running", [None, []])
async def test_a_renewed_node_gets_its_own_job_again_when_nobody_else_can(world: World, running: Any) -> None:
    await join(world, connection="x")
    await bring(world, "RUNNING")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    answer, changes = await watch(world, join(world, connection="y", running=running))
    now, old, new = T0 + 500, f"n1:{A}:1", f"n1:{A}:2"
    assert answer == Registered("RENEWED", "2-n1", Standing.available, ["en:zh"], [], [], "x")
    kept = running is None
    assert changes["nodes"] == {
        "n1": {"epoch": "2-n1", "seen_at_ms": now, "away_until_ms": 0, "nonce": "y"}
        | ({"used": 2, "limbo": 1, "standing": 2} if kept else {"standing": 0})
    }
    assert changes["jobs"][A]["past"] == past((1, "n1", "lost", now, "RETRYING"), tries=1, lost=1)
    assert changes["leases"] == {new: HELD} | ({} if kept else {old: GONE})
    assert changes.get("limbo") == ({old: now} if kept else None)
    assert changes["due"] == {"n:n1": now + 35_000, f"j:{A}": now + 5_000} | (
        {f"l:{old}": now + 60_000} if kept else {}
    )
    assert changes["outbox"] == {
        Event("fenced", A, 1, "n1", "1-n1", "lost", now): now,
        Event("reserved", A, 2, "n1", "2-n1", "", now): now,
    }


async def cut_off(world: World, node_id: str = "n1") -> None:
    """Bring a node with one fenced attempt to where it gets no work until it registers again."""
    await join(world, node_id)
    await bring(world, "CANCELLED")
    for _ in range(2):
        world.now_ms += 30_000
        await heartbeat(world.engine, CELL, node_id)
    await sweep(world)
    node = (await world.cell()).nodes[node_id]
    assert (node.cut_off, node.limbo, node.standing) == (1, 1, Standing.not_ready)


@pytest.mark.parametrize("running", [None, [(A, 1)]])
async def test_a_cut_off_node_that_registers_again_has_another_time_to_tell(world: World, running: Any) -> None:
    """It gets work again, and its old attempt stays in limbo, bounded anew."""
    await cut_off(world)
    answer, changes = await watch(world, join(world, epoch="1-n1", running=running))
    now = T0 + 60_000
    assert answer.how == "RESYNC"
    assert answer.cancel == (running or [])
    assert changes["nodes"] == {"n1": {"cut_off": 0, "standing": 0}}
    assert changes["due"] == {f"l:n1:{A}:1": now + 60_000}


async def test_a_cut_off_node_that_registers_and_has_stopped_is_free(world: World) -> None:
    await cut_off(world)
    _, changes = await watch(world, join(world, epoch="1-n1", running=[]))
    assert changes["nodes"] == {"n1": {"cut_off": 0, "standing": 0, "used": 0, "limbo": 0}}
    assert changes["limbo"] == {f"n1:{A}:1": GONE}


async def test_attempts_dropped_by_nodes_of_one_tick_are_all_counted(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await join(world, "n2", max_concurrent_jobs=1)
    await asyncio.gather(bring(world, "RUNNING", A, limits=ONE_TRY), bring(world, "RUNNING", B, limits=ONE_TRY))
    one = {"max_concurrent_jobs": 1, "running": []}
    _, changes = await watch(
        world, asyncio.gather(join(world, "n1", epoch="1-n1", **one), join(world, "n2", epoch="2-n2", **one))
    )
    assert changes["counts"] == {"FAILED": 2}
    assert changes["room"] == {1: 2}


@pytest.mark.parametrize("number", [0, 2**32 - 1])
async def test_a_registration_tells_how_the_node_stands_after_everything(world: World, number: int) -> None:
    """Its dropped attempt comes back to it, drawn first or second: everybody had the job, and n2 is busier."""
    await join(world, "n2")
    await place(world, B)
    await place(world, A, seed=seed_for(seed_for(seed_for(number))))
    await join(world, "n1", max_concurrent_jobs=1)
    await fail(world.engine, A, 1, "n2", reason="")
    await started(world.engine, A, 2, "n1")
    answer, changes = await watch(world, join(world, "n1", max_concurrent_jobs=1, epoch="2-n1", running=[]))
    job = (await world.cell()).jobs[A]
    assert (job.node, job.attempt, job.past.attempts[1].cause) == ("n1", 3, "dropped")
    assert answer.standing == 2
    assert "nodes" not in changes


async def test_a_draining_node_s_dropped_attempt_does_not_come_back_to_it(world: World) -> None:
    await join(world)
    await bring(world, "RUNNING")
    await drain(world.engine, CELL, "n1")
    await join(world, epoch="1-n1", running=[])
    assert (await world.cell()).jobs[A].state == "RETRYING"
    await cancel(world.engine, A)
