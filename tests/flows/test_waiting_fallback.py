"""Who waits for a `yue` node gets a `zh` node only when no live node is in the `yue` pool, and by the fall itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, Event
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import Placed
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.evict import evict
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.reap import Settled, reap
from tests.support.cells import GONE, HELD, together, watch
from tests.support.falls import STALE, asks, crowd, until_stale, yue_node, zh_node
from tests.support.stage import (
    T0,
    A,
    B,
    C,
    code_of,
    join,
    nodes_of,
    past,
    queued,
    served,
    sweep,
    wait,
    waiting,
)
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.cells import Changes
    from tests.support.world import World

BUSY = f"{CELL}.busy"
NOW = T0 + 7
DEADLINE = T0 + 60_000
NOTHING: tuple[Settled, Changes] = (Settled(0, False), {})


async def test_a_job_that_waits_with_a_fallback_stands_in_its_list_but_in_no_line_for_it(world: World) -> None:
    await yue_node(world)
    await zh_node(world)
    await asks(world, A)
    await drain(world.engine, CELL, "yue")
    _, changes = await watch(world, fail(world.engine, A, 1, "yue", reason="broken"))
    assert changes == {
        "nodes": {"yue": {"used": 0}},
        "jobs": {A: {"state": "RETRYING", "past": past((1, "yue", "failed", T0, "RETRYING"), tries=1)}},
        "leases": {f"yue:{A}:1": GONE},
        "queue": {queued(A, DEADLINE, "yue:en"): HELD},
        "due": {f"j:{A}": DEADLINE},
    }
    lines = ("fzh:en:yue:en", "wyue:en", "x1")
    assert (await world.cell()).queue == [f"{line}:{DEADLINE:015}:{A}" for line in lines]


async def test_a_node_of_both_pools_has_one_line_for_it(world: World) -> None:
    both = {"semantic_langs": ["yue", "zh"], "nmt_pairs": [["yue", "en"], ["zh", "en"]]}
    await yue_node(world, "n1", health="degraded", **both)
    await wait(world, {A: 60_000}, "yue:en")
    assert [place.split(":")[0] for place in (await world.cell()).queue] == ["fzh", "wyue", "x1"]
    await heartbeat(world.engine, CELL, "n1", health="ready")
    cell = await world.cell()
    assert (nodes_of(cell, A), cell.queue) == (["n1"], [])


async def test_nobody_looks_by_the_clock(world: World) -> None:
    await yue_node(world)
    await zh_node(world)
    await asyncio.gather(asks(world, A), asks(world, B))
    await drain(world.engine, CELL, "yue")
    await fail(world.engine, A, 1, "yue", reason="broken")
    world.now_ms += 60
    _, changes = await watch(world, fail(world.engine, B, 1, "yue", reason="broken"))
    assert changes["due"] == {f"j:{B}": DEADLINE}
    for now in (T0 + 100, STALE - 1):
        world.now_ms = now
        assert await watch(world, reap(world.engine, CELL)) == NOTHING


async def test_a_yue_node_takes_it(world: World) -> None:
    await yue_node(world, max_concurrent_jobs=1)
    await asks(world, BUSY)
    await wait(world, {A: 60_000}, "yue:en")
    world.now_ms = NOW
    _, changes = await watch(world, done(world.engine, BUSY, 1, "yue"))
    assert changes == together(
        {
            "jobs": {BUSY: {"state": "FINISHED", "ended_at_ms": NOW}},
            "leases": {f"yue:{BUSY}:1": GONE},
            "due": {f"j:{BUSY}": FORGET_FROM + NOW + 120_000},
            "outbox": {Event("ended", BUSY, 1, "yue", "1-yue", "", NOW): NOW},
            "counts": {"FINISHED": 1},
        },
        served(A, "yue", "1-yue", pair="yue:en"),
    )
    assert (await world.cell()).queue == []


@pytest.mark.parametrize("standing", ["full", "draining", "evicted", "not_ready", "resting", "away"])
async def test_a_zh_node_does_not_take_it_while_a_yue_node_lives(world: World, standing: str) -> None:
    """However it stands, unless it may be dead."""
    await yue_node(world, max_concurrent_jobs=1, connection="x")
    await asks(world, BUSY, limits=Limits(max_retry=9))
    await wait(world, {A: 60_000}, "yue:en")
    if standing in {"draining", "evicted"}:
        await (drain if standing == "draining" else evict)(world.engine, CELL, "yue")
    elif standing == "not_ready":
        await heartbeat(world.engine, CELL, "yue", health="degraded")
    elif standing == "resting":
        await fail(world.engine, BUSY, 1, "yue", reason="", overloaded=True, retry_after_ms=1_000)
    elif standing == "away":
        await disconnect(world.engine, CELL, "yue", "x")
    _, changes = await watch(world, zh_node(world))
    assert not changes.keys() & {"jobs", "queue", "leases", "outbox"}
    world.now_ms += 499
    assert await watch(world, reap(world.engine, CELL)) == NOTHING


async def test_the_sweep_that_finds_the_last_yue_node_dead_gives_it_a_zh_node(world: World) -> None:
    """The zh node had room all the time: nobody else would come to wake the job."""
    await yue_node(world, max_concurrent_jobs=1)
    await asks(world, BUSY, limits=Limits(timeout_ms=20_000, run_ms=20_000, ack_ms=20_000))
    await wait(world, {A: 60_000}, "yue:en")
    await cancel(world.engine, BUSY)
    await zh_node(world)
    await until_stale(world, "zh")
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes["jobs"][A].pop("seed")
    assert changes == together(
        {
            "nodes": {"yue": {"standing": 7}, "zh": {"used": 1}},
            "standing": {"yue": 23},
            "due": {"n:yue": T0 + 45_000},
        },
        served(A, "zh", "3-zh", STALE, pair="yue:en"),
    )
    assert (await world.cell()).queue == []


@pytest.mark.parametrize(
    "fall",
    [
        "lost",
        "another capability",
        "no capability",
        "another registration",
        "another process",
        "left",
    ],
)
async def test_whatever_makes_the_last_yue_node_fall_gives_it_a_zh_node(world: World, fall: str) -> None:
    await yue_node(world, health="degraded", connection="x", process_id="p")
    await wait(world, {A: 60_000}, "yue:en")
    await disconnect(world.engine, CELL, "yue", "x" if fall == "lost" else "y")
    world.now_ms = T0 + 500
    await zh_node(world)
    assert nodes_of(await world.cell(), A) == [""]
    if fall == "lost":
        call: Any = reap(world.engine, CELL)
    elif fall == "left":
        call = leave(world.engine, CELL, "yue")
    elif fall.endswith("capability"):
        pairs = [["yue", "fr"]] if fall.startswith("another") else []
        call = heartbeat(world.engine, CELL, "yue", nmt_pairs=pairs)
    else:
        epoch = "1-yue" if fall == "another registration" else ""
        call = yue_node(world, nmt_pairs=[["yue", "fr"]], connection="x", process_id="q", epoch=epoch)
    _, changes = await watch(world, call)
    assert nodes_of(await world.cell(), A) == ["zh"]
    assert changes["queue"] == {queued(A, DEADLINE, "yue:en"): GONE}


@pytest.mark.parametrize("word", [drain, evict])
async def test_an_operator_s_word_that_finds_the_last_yue_node_dead_leaves_nobody_behind(
    world: World, word: Any
) -> None:
    await yue_node(world, health="degraded")
    await wait(world, {A: 60_000}, "yue:en")
    world.now_ms = STALE
    await zh_node(world)
    await watch(world, word(world.engine, CELL, "yue"))
    await sweep(world)
    assert nodes_of(await world.cell(), A) == ["zh"]


@pytest.mark.parametrize(("slots", "found"), [(1, ["zh", ""]), (2, ["zh", "zh"])])
async def test_what_the_last_yue_node_had_is_behind_those_who_wait(world: World, slots: int, found: list[str]) -> None:
    """Even with an earlier deadline."""
    await yue_node(world, max_concurrent_jobs=1, connection="x")
    await asks(world, BUSY, limits=Limits(timeout_ms=50_000))
    await wait(world, {A: 60_000}, "yue:en")
    await zh_node(world, max_concurrent_jobs=slots)
    await disconnect(world.engine, CELL, "yue", "x")
    world.now_ms += 500
    await sweep(world)
    assert nodes_of(await world.cell(), A, BUSY) == found


async def test_a_job_on_its_way_to_yue_takes_the_way_to_zh(world: World) -> None:
    await join(world, "yue", nmt_pairs=[["en", "yue"]], health="degraded")
    await wait(world, {A: 60_000}, "en:yue")
    await join(world, "zh")
    assert nodes_of(await world.cell(), A) == [""]
    await heartbeat(world.engine, CELL, "yue", nmt_pairs=[])
    assert nodes_of(await world.cell(), A) == ["zh"]


@pytest.mark.parametrize("said", [{}, {"tts_langs": ["en"]}])
async def test_one_of_two_yue_nodes_falls_and_the_other_keeps_the_job(world: World, said: dict[str, Any]) -> None:
    """In the same group or in another."""
    await yue_node(world, "yue1", health="degraded")
    await yue_node(world, "yue2", health="degraded", **said)
    await wait(world, {A: 60_000}, "yue:en")
    await zh_node(world)
    await heartbeat(world.engine, CELL, "yue1", nmt_pairs=[])
    assert nodes_of(await world.cell(), A) == [""]
    await heartbeat(world.engine, CELL, "yue2", nmt_pairs=[])
    assert nodes_of(await world.cell(), A) == ["zh"]


async def test_a_yue_node_that_lacks_what_the_job_needs_keeps_it_all_the_same(world: World) -> None:
    """It lives, and that is the rule."""
    await yue_node(world, services={"asr": False})
    await zh_node(world)
    await asks(world, A, wanted=Wanted(wait_ms=60_000))
    assert nodes_of(await world.cell(), A) == [""]
    await heartbeat(world.engine, CELL, "zh", max_concurrent_jobs=3)
    assert nodes_of(await world.cell(), A) == [""]
    await heartbeat(world.engine, CELL, "yue", nmt_pairs=[])
    assert nodes_of(await world.cell(), A) == ["zh"]


async def test_a_zh_node_that_joins_when_no_yue_node_lives_takes_it(world: World) -> None:
    await wait(world, {A: 60_000}, "yue:en")
    await zh_node(world)
    cell = await world.cell()
    assert (nodes_of(cell, A), cell.queue) == (["zh"], [])


async def test_a_zh_node_that_comes_to_have_room_takes_it_once_the_last_yue_node_is_gone(world: World) -> None:
    """By deadline among those who wait for zh itself."""
    await zh_node(world, max_concurrent_jobs=1)
    await asks(world, BUSY, "zh")
    await wait(world, {C: 60_000}, "zh:en")
    await wait(world, {A: 50_000, B: 70_000}, "yue:en")
    world.now_ms = NOW
    order = []
    for job_id, attempt in ((BUSY, 1), (A, 2), (C, 2)):
        await done(world.engine, job_id, attempt, "zh")
        order += [name for name, job in (await world.cell()).jobs.items() if job.state == "RESERVED"]
    assert order == [A, C, B]
    assert (await world.cell()).queue == []


async def test_a_zh_node_that_comes_to_have_room_leaves_it_to_the_yue_node_that_lives(world: World) -> None:
    await yue_node(world, health="degraded")
    await wait(world, {A: 50_000}, "yue:en")
    await wait(world, {B: 60_000}, "zh:en")
    await zh_node(world, max_concurrent_jobs=9)
    assert nodes_of(await world.cell(), A, B) == ["", "zh"]
    await heartbeat(world.engine, CELL, "yue", health="ready")
    assert nodes_of(await world.cell(), A) == ["yue"]


async def test_those_who_wait_are_served_in_order_until_there_is_no_node(world: World) -> None:
    await zh_node(world, max_concurrent_jobs=2)
    await yue_node(world, health="degraded")
    await wait(world, {A: 50_000, B: 45_000, C: 60_000}, "yue:en")
    await until_stale(world, "zh")
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    for job_id in (A, B):
        assert changes["jobs"][job_id].pop("seed")
    assert changes == together(
        {
            "nodes": {"zh": {"used": 2, "standing": 2}, "yue": {"standing": 7}},
            "standing": {"zh": 18, "yue": 39},
            "room": {1: 0},
            "due": {"n:yue": T0 + 45_000},
        },
        served(A, "zh", "1-zh", STALE, deadline=T0 + 50_000, pair="yue:en"),
        served(B, "zh", "1-zh", STALE, deadline=T0 + 45_000, pair="yue:en"),
    )
    assert waiting(await world.cell()) == [queued(C, DEADLINE, "yue:en")]


async def test_a_fall_avoids_the_nodes_that_had_the_job(world: World) -> None:
    for node_id in ("zh1", "zh2"):
        await zh_node(world, node_id)
    await asks(world, A)
    had = (await world.cell()).jobs[A].node
    other = "zh2" if had == "zh1" else "zh1"
    await yue_node(world, health="degraded")
    await fail(world.engine, A, 1, had, reason="broken")
    assert nodes_of(await world.cell(), A) == [""]
    await heartbeat(world.engine, CELL, "yue", nmt_pairs=[])
    assert nodes_of(await world.cell(), A) == [other]


async def test_those_whom_a_fall_serves_count_for_the_sweep(world: World) -> None:
    await join(world, "zzz")
    await crowd(world, 4, slots=9)
    assert await reap(world.engine, CELL, 5) == Settled(1, True)
    assert await reap(world.engine, CELL, 5) == Settled(1, False)


class TestAtMost64AtATime:
    """The due-list comes back for the rest."""

    async def test_the_65th_is_served_by_the_next_visit(self, world: World) -> None:
        names = await crowd(world, 65, slots=100)
        assert await sweep(world) == Settled(1, True)
        cell = await world.cell()
        assert nodes_of(cell, *names) == ["zh"] * 64 + [""]
        assert (len(waiting(cell)), cell.due["f:"]) == (1, STALE)
        answer, changes = await watch(world, reap(world.engine, CELL))
        assert answer == Settled(1, False)
        assert changes["jobs"][names[-1]].pop("seed")
        last = served(names[-1], "zh", "1-zh", STALE, pair="yue:en")
        assert changes == together({"nodes": {"zh": {"used": 65}}, "due": {"f:": GONE}}, last)

    async def test_exactly_64_are_served_at_once(self, world: World) -> None:
        await crowd(world, 64, slots=100)
        assert await sweep(world) == Settled(1, False)
        cell = await world.cell()
        assert (cell.queue, "f:" in cell.due) == ([], False)

    async def test_the_64th_that_finds_no_node_calls_nobody_back(self, world: World) -> None:
        await crowd(world, 65, slots=63)
        assert await sweep(world) == Settled(1, False)
        cell = await world.cell()
        assert (len(waiting(cell)), "f:" in cell.due) == (2, False)

    async def test_a_visit_that_finds_no_node_for_the_rest_is_the_last(self, world: World) -> None:
        await crowd(world, 65, slots=64)
        assert await sweep(world) == Settled(1, True)
        assert await watch(world, reap(world.engine, CELL)) == (Settled(1, False), {"due": {"f:": GONE}})
        assert len(waiting(await world.cell())) == 1

    async def test_a_newcomer_is_behind_all_of_them(self, world: World) -> None:
        """The dispatch goes on with them, over several runs where it must, and has what is left."""
        names = await crowd(world, 130, slots=131)
        assert isinstance(await asks(world, A, "zh"), Placed)
        assert nodes_of(await world.cell(), *names) == ["zh"] * 130
        assert code_of(await asks(world, B, "zh")) == "ALL_CANDIDATES_FULL_OR_FAILED"

    async def test_a_node_that_has_not_served_all_who_wait_for_it_is_theirs(self, world: World) -> None:
        await yue_node(world, health="degraded")
        names = [f"{CELL}.j{n:03}" for n in range(65)]
        await wait(world, dict.fromkeys(names, 60_000), "zh:en")
        await wait(world, {A: 70_000}, "yue:en")
        await zh_node(world, max_concurrent_jobs=65)
        await heartbeat(world.engine, CELL, "yue", nmt_pairs=[])
        assert nodes_of(await world.cell(), A, names[-1]) == ["", ""]
        await sweep(world)
        assert nodes_of(await world.cell(), A, names[-1]) == ["", "zh"]


async def test_a_dispatch_that_finds_the_fall_serves_those_who_wait_before_it_chooses(world: World) -> None:
    await zh_node(world, max_concurrent_jobs=1)
    await yue_node(world, health="degraded")
    await wait(world, {A: 60_000}, "yue:en")
    await until_stale(world, "zh")
    assert code_of(await asks(world, B, "zh")) == "ALL_CANDIDATES_FULL_OR_FAILED"
    assert nodes_of(await world.cell(), A) == ["zh"]


@pytest.mark.parametrize("zh", ["a-zh", "zh"])
async def test_a_fall_does_not_overtake_who_waits_for_the_node_that_has_just_rested(world: World, zh: str) -> None:
    """A must hurry more than B, and one sweep finds both that the zh node has rested and that B may go there."""
    await yue_node(world, health="degraded")
    await wait(world, {B: 90_000}, "yue:en")
    await zh_node(world, zh, max_concurrent_jobs=1)
    await asks(world, A, "zh")
    await fail(world.engine, A, 1, zh, reason="", overloaded=True, retry_after_ms=35_000)
    await until_stale(world, zh)
    assert await sweep(world) == Settled(2, False)
    assert nodes_of(await world.cell(), A, B) == [zh, ""]


async def test_a_node_that_goes_over_from_yue_to_zh_takes_who_must_hurry(world: World) -> None:
    """Its own fall lets A go to it; C waits for just such a node, and has less time."""
    await yue_node(world, "n1", semantic_langs=["yue", "zh"], max_concurrent_jobs=1, health="degraded")
    await wait(world, {A: 50_000}, "yue:en")
    await wait(world, {C: 40_000}, "zh:en")
    await heartbeat(world.engine, CELL, "n1", nmt_pairs=[["zh", "en"]], health="ready")
    assert nodes_of(await world.cell(), A, C) == ["", "n1"]


async def test_of_two_pairs_that_fall_together_the_earliest_deadline_goes_first(world: World) -> None:
    await zh_node(world, nmt_pairs=[["zh", "en"], ["zh", "fr"]], max_concurrent_jobs=1)
    await yue_node(world, nmt_pairs=[["yue", "en"], ["yue", "fr"]], health="degraded")
    await wait(world, {A: 50_000}, "yue:en")
    await wait(world, {C: 40_000}, "yue:fr")
    await heartbeat(world.engine, CELL, "yue", nmt_pairs=[])
    assert nodes_of(await world.cell(), A, C) == ["", "zh"]


async def test_a_node_of_any_group_lets_them_fall(world: World) -> None:
    """Its group has a higher number than there are standings."""
    for number in range(9):
        await join(world, f"k{number}", labels={"kind": str(number)})
    await yue_node(world, health="degraded")
    await zh_node(world)
    await wait(world, {A: 60_000}, "yue:en")
    assert nodes_of(await world.cell(), A) == [""]
    await heartbeat(world.engine, CELL, "yue", nmt_pairs=[])
    assert nodes_of(await world.cell(), A) == ["zh"]
