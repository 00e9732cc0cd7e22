"""Who waits for a `yue` node takes a `zh` node only when no live node is in the `yue` pool."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, Event
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.reap import Settled, reap
from tests.support.cells import GONE, HELD, together, watch
from tests.support.stage import T0, A, B, C, code_of, join, nodes_of, past, queued, served, sweep, wait
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.flows.register import Registered
    from tests.support.world import World

BUSY = f"{CELL}.busy"
NOW = T0 + 7
DEADLINE = T0 + 60_000
YUE = "yue:en>zh:en"


async def yue_node(world: World, node_id: str = "yue", **said: Any) -> Registered:
    return await join(world, node_id, semantic_langs=["yue"], nmt_pairs=[["yue", "en"]], **said)


async def zh_node(world: World, node_id: str = "zh", **said: Any) -> Registered:
    return await join(world, node_id, semantic_langs=["zh"], nmt_pairs=[["zh", "en"]], **said)


async def test_a_job_that_waits_with_a_fallback_is_looked_at_by_the_clock_too(world: World) -> None:
    await yue_node(world)
    await dispatch(world.engine, A, "s1", "yue", "en", seed=1)
    await drain(world.engine, CELL, "yue")
    _, changes = await watch(world, fail(world.engine, A, 1, "yue", reason="broken"))
    assert changes == {
        "nodes": {"yue": {"used": 0}},
        "jobs": {A: {"state": "RETRYING", "past": past((1, "yue", "failed", T0, "RETRYING"), tries=1)}},
        "leases": {f"yue:{A}:1": GONE},
        "queue": {queued(A, DEADLINE, YUE): HELD},
        "due": {f"j:{A}": DEADLINE, f"w:{YUE}": T0 + 100},
    }


async def test_a_second_one_does_not_put_off_that_look(world: World) -> None:
    await yue_node(world)
    await asyncio.gather(*(dispatch(world.engine, job_id, "s1", "yue", "en", seed=1) for job_id in (A, B)))
    await drain(world.engine, CELL, "yue")
    await fail(world.engine, A, 1, "yue", reason="broken")
    world.now_ms += 60
    _, changes = await watch(world, fail(world.engine, B, 1, "yue", reason="broken"))
    assert changes["due"] == {f"j:{B}": DEADLINE}
    assert (await world.cell()).due[f"w:{YUE}"] == T0 + 100


async def test_a_yue_node_takes_it(world: World) -> None:
    await yue_node(world, max_concurrent_jobs=1)
    await dispatch(world.engine, BUSY, "s1", "yue", "en", seed=1)
    await wait(world, {A: 60_000}, "yue:en")
    world.now_ms = NOW
    _, changes = await watch(world, done(world.engine, BUSY, 1, "yue"))
    assert changes == together(
        {
            "jobs": {BUSY: {"state": "FINISHED", "ended_at_ms": NOW}},
            "leases": {f"yue:{BUSY}:1": GONE},
            "due": {f"j:{BUSY}": FORGET_FROM + NOW + 120_000, f"w:{YUE}": GONE},
            "outbox": {Event("ended", BUSY, 1, "yue", "1-yue", "", NOW): NOW},
            "counts": {"FINISHED": 1},
        },
        served(A, "yue", "1-yue", need=YUE),
    )


async def test_a_zh_node_does_not_take_it_while_a_yue_node_lives(world: World) -> None:
    await yue_node(world, max_concurrent_jobs=1)
    await dispatch(world.engine, BUSY, "s1", "yue", "en", seed=1)
    await wait(world, {A: 60_000}, "yue:en")
    _, changes = await watch(world, zh_node(world))
    assert not changes.keys() & {"jobs", "queue", "leases", "outbox"}
    world.now_ms += 99
    assert await watch(world, reap(world.engine, CELL)) == (Settled(0, False), {})
    world.now_ms += 1
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert (answer, changes) == (Settled(1, False), {"due": {f"w:{YUE}": T0 + 200}})


async def test_the_clock_gives_it_a_zh_node_once_the_last_yue_node_is_dead(world: World) -> None:
    """The zh node had room all the time: nobody comes to wake the job."""
    await yue_node(world, max_concurrent_jobs=1)
    await dispatch(world.engine, BUSY, "s1", "yue", "en", seed=1)
    await wait(world, {A: 60_000}, "yue:en")
    world.now_ms += 34_950
    await cancel(world.engine, BUSY)
    await zh_node(world)
    await sweep(world)
    assert (await world.cell()).due[f"w:{YUE}"] == T0 + 35_050
    world.now_ms += 50
    _, changes = await watch(world, reap(world.engine, CELL))
    assert changes["nodes"] == {"yue": {"standing": 3}}
    assert "jobs" not in changes
    now = world.now_ms = T0 + 35_050
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes["jobs"][A].pop("seed")
    assert changes == together(
        {"nodes": {"zh": {"used": 1}}, "due": {f"w:{YUE}": GONE}},
        served(A, "zh", "3-zh", now, need=YUE),
    )


async def test_a_zh_node_that_comes_to_have_room_takes_it_once_the_last_yue_node_is_gone(world: World) -> None:
    """By deadline among those who wait for zh itself."""
    await zh_node(world, max_concurrent_jobs=1)
    await dispatch(world.engine, BUSY, "s1", "zh", "en", seed=1)
    await wait(world, {C: 60_000}, "zh:en")
    await wait(world, {A: 50_000, B: 70_000}, "yue:en")
    world.now_ms = NOW
    order = []
    for job_id, attempt in ((BUSY, 1), (A, 2), (C, 2)):
        await done(world.engine, job_id, attempt, "zh")
        order += [name for name, job in (await world.cell()).jobs.items() if job.state == "RESERVED"]
    assert order == [A, C, B]
    cell = await world.cell()
    assert cell.queue == []
    assert f"w:{YUE}" not in cell.due


async def test_a_zh_node_that_comes_to_have_room_leaves_it_to_the_yue_node_that_lives(world: World) -> None:
    await yue_node(world, health="degraded")
    await wait(world, {A: 50_000}, "yue:en")
    await wait(world, {B: 60_000}, "zh:en")
    await zh_node(world, max_concurrent_jobs=9)
    assert nodes_of(await world.cell(), A, B) == ["", "zh"]
    await heartbeat(world.engine, CELL, "yue", health="ready")
    assert nodes_of(await world.cell(), A) == ["yue"]


async def test_those_who_wait_look_in_order_until_there_is_no_node(world: World) -> None:
    await zh_node(world, max_concurrent_jobs=2)
    await yue_node(world, health="degraded")
    await wait(world, {A: 50_000, B: 40_000, C: 60_000}, "yue:en")
    await leave(world.engine, CELL, "yue")
    now = world.now_ms = T0 + 100
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    for job_id in (A, B):
        assert changes["jobs"][job_id].pop("seed")
    assert changes == together(
        {
            "nodes": {"zh": {"used": 2, "standing": 1}},
            "standing": {"zh": 17},
            "room": {1: 0},
            "due": {f"w:{YUE}": now + 100},
        },
        served(A, "zh", "1-zh", now, deadline=T0 + 50_000, need=YUE),
        served(B, "zh", "1-zh", now, deadline=T0 + 40_000, need=YUE),
    )


async def test_a_look_avoids_the_nodes_that_had_the_job(world: World) -> None:
    for node_id in ("zh1", "zh2"):
        await zh_node(world, node_id)
    await dispatch(world.engine, A, "s1", "yue", "en", seed=1)
    had = (await world.cell()).jobs[A].node
    other = "zh2" if had == "zh1" else "zh1"
    await yue_node(world, health="degraded")
    await fail(world.engine, A, 1, had, reason="broken")
    assert nodes_of(await world.cell(), A) == [""]
    await leave(world.engine, CELL, "yue")
    world.now_ms += 100
    await sweep(world)
    assert nodes_of(await world.cell(), A) == [other]


async def test_no_more_than_64_are_looked_after_at_a_time(world: World) -> None:
    await zh_node(world, max_concurrent_jobs=100)
    await yue_node(world, health="degraded")
    names = [f"{CELL}.j{number:03}" for number in range(65)]
    await wait(world, dict.fromkeys(names, 60_000), "yue:en")
    await leave(world.engine, CELL, "yue")
    now = world.now_ms = T0 + 100
    assert await sweep(world) == Settled(1, True)
    cell = await world.cell()
    assert nodes_of(cell, *names) == ["zh"] * 64 + [""]
    assert (len(cell.queue), cell.due[f"w:{YUE}"]) == (1, now)
    assert await sweep(world) == Settled(1, False)
    cell = await world.cell()
    assert nodes_of(cell, names[-1]) == ["zh"]
    assert f"w:{YUE}" not in cell.due


async def test_exactly_64_are_looked_after_at_once(world: World) -> None:
    await zh_node(world, max_concurrent_jobs=100)
    await yue_node(world, health="degraded")
    await wait(world, {f"{CELL}.j{number:03}": 60_000 for number in range(64)}, "yue:en")
    await leave(world.engine, CELL, "yue")
    world.now_ms += 100
    assert await sweep(world) == Settled(1, False)
    assert (await world.cell()).queue == []


async def test_the_64th_that_finds_no_node_looks_again_later_and_not_at_once(world: World) -> None:
    await zh_node(world, max_concurrent_jobs=63)
    await yue_node(world, health="degraded")
    await wait(world, {f"{CELL}.j{number:03}": 60_000 for number in range(65)}, "yue:en")
    await leave(world.engine, CELL, "yue")
    now = world.now_ms = T0 + 100
    assert await sweep(world) == Settled(1, False)
    cell = await world.cell()
    assert (len(cell.queue), cell.due[f"w:{YUE}"]) == (2, now + 100)


async def test_one_of_two_is_cancelled_and_the_look_stays_for_the_other(world: World) -> None:
    await wait(world, {A: 60_000, B: 50_000}, "yue:en")
    await cancel(world.engine, B)
    assert (await world.cell()).due[f"w:{YUE}"] == T0 + 100
    _, changes = await watch(world, cancel(world.engine, A))
    assert changes["due"][f"w:{YUE}"] == GONE


async def test_a_dispatch_looks_for_those_who_wait_before_it_chooses(world: World) -> None:
    await zh_node(world, max_concurrent_jobs=1)
    await yue_node(world, health="degraded")
    await wait(world, {A: 60_000}, "yue:en")
    await leave(world.engine, CELL, "yue")
    world.now_ms += 100
    answer = await dispatch(world.engine, B, "s1", "zh", "en")
    assert code_of(answer) == "ALL_CANDIDATES_FULL_OR_FAILED"
    assert nodes_of(await world.cell(), A) == ["zh"]


async def test_a_look_does_not_overtake_who_waits_for_the_node_that_has_just_rested(world: World) -> None:
    """A must hurry more than B, and one sweep finds both that the zh node has rested and that B may look."""
    await yue_node(world)
    await zh_node(world, max_concurrent_jobs=1)
    await dispatch(world.engine, A, "s1", "zh", "en", seed=1)
    await fail(world.engine, A, 1, "zh", reason="", overloaded=True, retry_after_ms=100)
    await dispatch(world.engine, B, "s1", "yue", "en", seed=1, limits=Limits(timeout_ms=90_000))
    await leave(world.engine, CELL, "yue")
    world.now_ms += 100
    await sweep(world)
    assert nodes_of(await world.cell(), A, B) == ["zh", ""]
