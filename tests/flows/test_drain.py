"""The operator's word: drain, and resume."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.evict import evict
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.intents import Intended
from lingua_scheduler.flows.resume import resume
from tests.support.cells import watch
from tests.support.stage import A, B, code_of, join, keep_alive, place
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

INTENTS = {"drain": drain, "evict": evict, "resume": resume}


async def test_a_draining_node_gets_no_new_work_and_keeps_what_it_has(world: World) -> None:
    await join(world)
    await place(world)
    answer, changes = await watch(world, drain(world.engine, CELL, "n1"))
    assert answer == Intended("draining", Standing.draining, 1)
    assert changes == {
        "nodes": {"n1": {"intent": "draining", "standing": 6}},
        "standing": {"n1": 22},
        "room": {1: 0},
    }


async def test_a_repeated_drain_changes_nothing(world: World) -> None:
    await join(world)
    await drain(world.engine, CELL, "n1")
    assert await watch(world, drain(world.engine, CELL, "n1")) == (Intended("draining", Standing.draining, 0), {})


@pytest.mark.parametrize("name", ["drain", "evict"])
async def test_only_resume_undoes_the_operator_s_word(world: World, name: str) -> None:
    registered = await join(world)
    await INTENTS[name](world.engine, CELL, "n1")
    await heartbeat(world.engine, CELL, "n1", health="ready")
    await join(world, epoch=registered.epoch)
    await join(world, process_id="another")
    assert (await world.cell()).nodes["n1"].standing == 6
    answer, changes = await watch(world, resume(world.engine, CELL, "n1"))
    assert answer == Intended("active", Standing.available, 0)
    assert changes == {
        "nodes": {"n1": {"intent": "active", "standing": 0}},
        "standing": {"n1": 16},
        "room": {1: 1},
    }


async def test_resume_lets_a_node_be_chosen_only_as_far_as_it_can_be(world: World) -> None:
    for node_id in ("full", "resting", "stale", "ill", "away"):
        await join(world, node_id, max_concurrent_jobs=1, connection="x")
        if node_id in {"full", "resting"}:
            await place(world, f"{CELL}.{node_id}")
        if node_id == "resting":
            await fail(world.engine, f"{CELL}.resting", 1, "resting", reason="", overloaded=True)
            await cancel(world.engine, f"{CELL}.resting")
        await drain(world.engine, CELL, node_id)
    await heartbeat(world.engine, CELL, "ill", health="degraded")
    await disconnect(world.engine, CELL, "away", "x")
    answers = [await resume(world.engine, CELL, node_id) for node_id in ("full", "resting", "ill", "away")]
    stand = (Standing.full, Standing.resting, Standing.not_ready, Standing.not_ready)
    assert answers == [Intended("active", standing, int(standing == Standing.full)) for standing in stand]
    world.now_ms += 34_999
    assert await resume(world.engine, CELL, "stale") == Intended("active", Standing.available, 0)
    world.now_ms += 1
    assert await resume(world.engine, CELL, "stale") == Intended("active", Standing.stale, 0)


async def test_resume_of_an_active_node_changes_nothing(world: World) -> None:
    await join(world)
    assert await watch(world, resume(world.engine, CELL, "n1")) == (Intended("active", Standing.available, 0), {})


@pytest.mark.parametrize("name", ["drain", "evict", "resume"])
async def test_an_unknown_node_is_refused(world: World, name: str) -> None:
    mark = INTENTS[name]
    answer, changes = await watch(world, mark(world.engine, CELL, "n1"))
    assert answer == Refusal("UNKNOWN_NODE", "No node n1 is registered: it has left, or must register first.")
    assert changes == {}
    assert code_of(await mark(world.engine, CELL, "n 1")) == "INVALID_MESSAGE"
    assert code_of(await mark(world.engine, "{c0}", "n1")) == "INVALID_MESSAGE"


async def test_drains_of_one_tick_each_get_their_own_answer(world: World) -> None:
    await join(world, "n1")
    await join(world, "n2")
    await asyncio.gather(place(world), place(world, B))
    answers, changes = await watch(
        world, asyncio.gather(*(drain(world.engine, CELL, node_id) for node_id in ("n2", "n3", "n1", "n2")))
    )
    assert [code_of(answer) for answer in answers] == ["", "UNKNOWN_NODE", "", ""]
    assert changes["room"] == {1: 0}
    answers, changes = await watch(
        world, asyncio.gather(*(resume(world.engine, CELL, node_id) for node_id in ("n2", "n3", "n1")))
    )
    assert [code_of(answer) for answer in answers] == ["", "UNKNOWN_NODE", ""]
    assert changes["room"] == {1: 2}
    assert (await world.cell()).jobs[A].state == "RESERVED"


async def test_a_drain_that_finds_its_node_silent_lets_those_who_wait_fall_back(world: World) -> None:
    """Whoever judges a node first serves those who wait for just that, and counts them."""
    await join(world, "yue", semantic_langs=["yue"], nmt_pairs=[["yue", "en"]], max_concurrent_jobs=1)
    await join(world, "zh", semantic_langs=["zh"], nmt_pairs=[["zh", "en"]])
    limits = Limits(timeout_ms=90_000, ack_ms=60_000)
    for job_id in (A, B):
        await dispatch(world.engine, job_id, "s1", "yue", "en", limits=limits, wanted=Wanted(wait_ms=60_000), seed=1)
    world.now_ms += 35_000
    await keep_alive(world, "zh")
    assert isinstance(await drain(world.engine, CELL, "yue"), Intended)
    cell = await world.cell()
    assert (cell.jobs[B].node, cell.counts["accepted"]) == ("zh", 2)
