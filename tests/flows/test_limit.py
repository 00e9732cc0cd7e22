"""The operator's word on a node's slots: it can only take from what the node says, and the node cannot undo it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, Intent, Standing
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.dispatch import Waiting, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.intents import Intended
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.limit import Limited, limit
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.resume import resume
from tests.support.cells import GONE, watch
from tests.support.stage import T0, A, B, C, D, bring, code_of, join, keep_alive, place
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

WEEK_MS = 604_800_000


async def wait_for(world: World, job_id: str) -> None:
    answer = await dispatch(world.engine, job_id, "s1", "en", "zh", seed=1, wanted=Wanted(wait_ms=30_000))
    assert isinstance(answer, Waiting), answer


async def gone(world: World, most: int | None = 1) -> None:
    """A node that was limited when it left."""
    await join(world)
    await limit(world.engine, CELL, "n1", most)
    await leave(world.engine, CELL, "n1")


async def test_a_node_has_no_more_slots_than_the_operator_lets_it_have(world: World) -> None:
    await join(world, max_concurrent_jobs=4)
    answer, changes = await watch(world, limit(world.engine, CELL, "n1", 1))
    assert answer == Limited(1, 4)
    assert changes == {"nodes": {"n1": {"max": 1, "ceiling": 1, "limit": 1}}}
    await place(world)
    refused = await dispatch(world.engine, B, "s1", "en", "zh")
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.breakdown) == ("ALL_CANDIDATES_FULL_OR_FAILED", Breakdown(pool=1, full=1))


async def test_a_node_never_has_more_slots_than_it_says(world: World) -> None:
    await join(world, max_concurrent_jobs=2)
    answer, changes = await watch(world, limit(world.engine, CELL, "n1", 1024))
    assert answer == Limited(2, 2)
    assert changes == {"nodes": {"n1": {"limit": 1024}}}


async def test_none_takes_the_limit_away(world: World) -> None:
    await join(world, max_concurrent_jobs=4)
    await limit(world.engine, CELL, "n1", 1)
    answer, changes = await watch(world, limit(world.engine, CELL, "n1", None))
    assert answer == Limited(4, 4)
    assert changes == {"nodes": {"n1": {"max": 4, "ceiling": 4, "limit": 0}}}
    assert await watch(world, limit(world.engine, CELL, "n1", None)) == (Limited(4, 4), {})


async def test_what_a_node_holds_above_a_lowered_limit_stays_and_nothing_is_added(world: World) -> None:
    await join(world, max_concurrent_jobs=4)
    for job_id in (A, B, C):
        await bring(world, "RUNNING", job_id)
    answer, changes = await watch(world, limit(world.engine, CELL, "n1", 2))
    assert answer == Limited(2, 4)
    assert changes == {
        "nodes": {"n1": {"max": 2, "ceiling": 3, "limit": 2, "standing": Standing.full}},
        "standing": {"n1": 18},
        "room": {1: 0},
    }
    await done(world.engine, A, 1, "n1")
    assert code_of(await dispatch(world.engine, D, "s1", "en", "zh")) == "ALL_CANDIDATES_FULL_OR_FAILED"
    await done(world.engine, B, 1, "n1")
    await place(world, D)
    assert (await world.cell()).nodes["n1"].used == 2


@pytest.mark.parametrize(("said", "slots"), [(None, 2), (1, 1), (2, 2), (3, 2), (1024, 2)])
async def test_a_node_cannot_undo_it_by_what_it_says(world: World, said: int | None, slots: int) -> None:
    registered = await join(world, max_concurrent_jobs=4)
    await limit(world.engine, CELL, "n1", 2)
    await heartbeat(world.engine, CELL, "n1", max_concurrent_jobs=said)
    record = (await world.cell()).nodes["n1"]
    assert (record.max, record.own_max, record.limit, record.ceiling) == (slots, said or 4, 2, slots)
    for again in ({"epoch": registered.epoch}, {"process_id": "another"}):
        await join(world, **again, max_concurrent_jobs=said or 4)
        record = (await world.cell()).nodes["n1"]
        assert (record.max, record.own_max, record.limit, record.ceiling) == (slots, said or 4, 2, slots)
    assert await limit(world.engine, CELL, "n1", None) == Limited(said or 4, said or 4)


async def test_what_a_node_said_meanwhile_counts_when_the_limit_is_gone(world: World) -> None:
    await join(world, max_concurrent_jobs=4)
    await limit(world.engine, CELL, "n1", 1)
    _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", max_concurrent_jobs=7))
    assert changes == {"nodes": {"n1": {"own_max": 7}}}
    assert await limit(world.engine, CELL, "n1", None) == Limited(7, 7)


@pytest.mark.parametrize("most", [2, None])
async def test_whoever_waits_gets_the_slot_in_the_same_breath(world: World, most: int | None) -> None:
    await join(world, max_concurrent_jobs=2)
    await limit(world.engine, CELL, "n1", 1)
    await place(world)
    await wait_for(world, B)
    assert await limit(world.engine, CELL, "n1", most) == Limited(2, 2)
    cell = await world.cell()
    assert (cell.jobs[B].node, cell.nodes["n1"].used, cell.queue, cell.counts["accepted"]) == ("n1", 2, [], 2)


async def test_a_limit_that_still_leaves_no_room_serves_nobody(world: World) -> None:
    await join(world, max_concurrent_jobs=4)
    await limit(world.engine, CELL, "n1", 2)
    await place(world)
    await place(world, B)
    await wait_for(world, C)
    await limit(world.engine, CELL, "n1", 1)
    await limit(world.engine, CELL, "n1", 2)
    cell = await world.cell()
    assert (cell.jobs[C].state, cell.nodes["n1"].used) == ("WAITING", 2)


async def test_a_limit_changes_nothing_else_of_what_is_known_of_a_node(world: World) -> None:
    await join(world, max_concurrent_jobs=4)
    await drain(world.engine, CELL, "n1")
    world.now_ms += 5
    _, changes = await watch(world, limit(world.engine, CELL, "n1", 2))
    assert changes == {"nodes": {"n1": {"max": 2, "ceiling": 2, "limit": 2}}}
    assert await resume(world.engine, CELL, "n1") == Intended("active", Standing.available, 0)
    assert (await world.cell()).nodes["n1"].max == 2


async def test_a_limit_that_finds_its_node_silent_says_so_and_lets_those_who_wait_fall_back(world: World) -> None:
    """It is no sign of life: whoever judges a node first serves those who wait for just that."""
    await join(world, "yue", semantic_langs=["yue"], nmt_pairs=[["yue", "en"]], max_concurrent_jobs=1)
    await join(world, "zh", semantic_langs=["zh"], nmt_pairs=[["zh", "en"]])
    limits = Limits(timeout_ms=90_000, ack_ms=60_000)
    for job_id in (A, B):
        await dispatch(world.engine, job_id, "s1", "yue", "en", limits=limits, wanted=Wanted(wait_ms=60_000), seed=1)
    world.now_ms += 35_000
    await keep_alive(world, "zh")
    assert await limit(world.engine, CELL, "yue", 1) == Limited(1, 1)
    cell = await world.cell()
    assert (cell.nodes["yue"].standing, cell.jobs[B].node, cell.counts["accepted"]) == (Standing.stale, "zh", 2)


async def test_an_unknown_node_is_refused(world: World) -> None:
    answer, changes = await watch(world, limit(world.engine, CELL, "n1", 1))
    assert answer == Refusal("UNKNOWN_NODE", "No node n1 is registered: it has left, or must register first.")
    assert changes == {}
    assert code_of(await limit(world.engine, CELL, "n 1", 1)) == "INVALID_MESSAGE"
    assert code_of(await limit(world.engine, "{c0}", "n1", 1)) == "INVALID_MESSAGE"


@pytest.mark.parametrize("wrong", [0, -1, 1025, 1.0, True, "2"])
async def test_a_limit_has_the_bounds_of_a_node_s_own_word(world: World, wrong: Any) -> None:
    await join(world)
    answer, changes = await watch(world, limit(world.engine, CELL, "n1", wrong))
    assert (code_of(answer), changes) == ("INVALID_MESSAGE", {})


async def test_limits_of_one_tick_each_get_their_own_answer(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=2)
    await join(world, "n2", max_concurrent_jobs=3)
    await limit(world.engine, CELL, "n1", 1)
    await limit(world.engine, CELL, "n2", 1)
    await place(world)
    await place(world, B)
    await wait_for(world, C)
    await wait_for(world, D)
    asked = (("n1", 2), ("n3", 1), ("n2", 2), ("n1", 1))
    answers = await asyncio.gather(*(limit(world.engine, CELL, node_id, most) for node_id, most in asked))
    assert [code_of(answer) for answer in answers] == ["", "UNKNOWN_NODE", "", ""]
    assert [answers[0], answers[2], answers[3]] == [Limited(2, 2), Limited(2, 3), Limited(1, 2)]
    cell = await world.cell()
    assert (cell.jobs[C].node, cell.jobs[D].node) == ("n1", "n2")
    assert (cell.nodes["n1"].used, cell.nodes["n1"].max, cell.nodes["n1"].ceiling) == (2, 1, 2)


# Of a node that is gone it is kept with the name.


async def test_a_node_that_leaves_leaves_the_limit_behind(world: World) -> None:
    await join(world, "n0")
    await join(world, "n1")
    await limit(world.engine, CELL, "n1", 1)
    world.now_ms += 7
    _, changes = await watch(world, leave(world.engine, CELL, "n1"))
    assert changes == {
        "nodes": {"n1": GONE},
        "profiles": {"n1": GONE},
        "standing": {"n1": GONE},
        "room": {1: 1},
        "intents": {"n1": Intent("active", 1)},
        "due": {"n:n1": GONE, "i:n1": FORGET_FROM + T0 + 7 + WEEK_MS},
    }


async def test_a_node_that_comes_back_is_limited_as_before(world: World) -> None:
    await gone(world)
    answer, changes = await watch(world, join(world, max_concurrent_jobs=4))
    assert answer.how == "NEW"
    record = changes["nodes"]["n1"]
    assert (record.max, record.own_max, record.limit, record.ceiling, record.intent) == (1, 4, 1, 1, "active")
    assert changes["intents"] == {"n1": GONE}
    assert changes["due"] == {"i:n1": GONE, "n:n1": T0 + 35_000}


async def test_a_limit_that_was_taken_away_leaves_nothing_behind(world: World) -> None:
    await gone(world, None)
    assert await world.keys() == 1


async def test_the_limit_of_a_node_that_is_gone_can_be_changed(world: World) -> None:
    await gone(world)
    world.now_ms += 7
    answer, changes = await watch(world, limit(world.engine, CELL, "n1", 3))
    assert answer == Limited(3, 0)
    assert changes == {"intents": {"n1": {"limit": 3}}, "due": {"i:n1": FORGET_FROM + T0 + 7 + WEEK_MS}}
    answer, changes = await watch(world, limit(world.engine, CELL, "n1", None))
    assert answer == Limited(0, 0)
    assert changes == {"intents": {"n1": GONE}, "due": {"i:n1": GONE}}
    assert code_of(await limit(world.engine, CELL, "n1", 3)) == "UNKNOWN_NODE"


async def test_both_words_of_the_operator_are_kept_of_a_node_that_is_gone(world: World) -> None:
    await join(world)
    await drain(world.engine, CELL, "n1")
    await leave(world.engine, CELL, "n1")
    assert await limit(world.engine, CELL, "n1", 1) == Limited(1, 0)
    assert (await world.cell()).intents == {"n1": Intent("draining", 1)}
    assert await resume(world.engine, CELL, "n1") == Intended("active", Standing.lost, 0)
    assert (await world.cell()).intents == {"n1": Intent("active", 1)}
    assert await drain(world.engine, CELL, "n1") == Intended("draining", Standing.lost, 0)
    assert await limit(world.engine, CELL, "n1", None) == Limited(0, 0)
    assert (await world.cell()).intents == {"n1": Intent("draining", 0)}


async def test_the_limit_is_forgotten_in_the_end(world: World) -> None:
    await gone(world)
    world.now_ms += WEEK_MS - 1
    assert await reap(world.engine, CELL) == Settled(0, False)
    world.now_ms += 1
    assert await reap(world.engine, CELL) == Settled(1, False)
    assert await world.keys() == 1
