"""What the operator wants of a node outlives the node: it is kept with its name until it comes back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.records import FORGET_FROM, Intent, Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.evict import evict
from lingua_scheduler.flows.intents import Intended
from lingua_scheduler.flows.leave import Left, leave
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.register import register
from lingua_scheduler.flows.resume import resume
from tests.support.cells import GONE, watch
from tests.support.stage import PLAIN, T0, A, bring, code_of, join, keep_alive, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

    Mark = Callable[..., Awaitable[Intended | Refusal]]

WEEK_MS = 604_800_000
INTENTS = {"draining": drain, "evicted": evict}


async def gone(world: World, intent: str = "draining", node_id: str = "n1") -> None:
    """A node of which the operator wanted this when it left."""
    await join(world, node_id)
    await INTENTS[intent](world.engine, CELL, node_id)
    await leave(world.engine, CELL, node_id)


def forgotten(at_ms: int) -> int:
    return FORGET_FROM + at_ms + WEEK_MS


@pytest.mark.parametrize("intent", INTENTS)
async def test_a_node_that_leaves_leaves_the_operator_s_word_behind(world: World, intent: str) -> None:
    await join(world, "n0")
    await join(world, "n1")
    await INTENTS[intent](world.engine, CELL, "n1")
    world.now_ms += 7
    answer, changes = await watch(world, leave(world.engine, CELL, "n1"))
    assert answer == Left(0)
    assert changes == {
        "nodes": {"n1": GONE},
        "profiles": {"n1": GONE},
        "standing": {"n1": GONE},
        "intents": {"n1": Intent(intent, 0)},
        "due": {"n:n1": GONE, "i:n1": forgotten(T0 + 7)},
    }


async def test_a_node_of_which_nothing_was_wanted_leaves_nothing_behind(world: World) -> None:
    await gone(world)
    await resume(world.engine, CELL, "n1")
    await join(world)
    await drain(world.engine, CELL, "n1")
    await resume(world.engine, CELL, "n1")
    _, changes = await watch(world, leave(world.engine, CELL, "n1"))
    assert "intents" not in changes
    assert await world.keys() == 1


@pytest.mark.parametrize("intent", INTENTS)
async def test_a_node_that_is_forgotten_leaves_the_operator_s_word_behind(world: World, intent: str) -> None:
    await join(world, "n0")
    await join(world, "n1", connection="x")
    await INTENTS[intent](world.engine, CELL, "n1")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    await sweep(world)
    now = world.now_ms = T0 + 500 + 3_600_000
    await keep_alive(world, "n0")
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes == {
        "nodes": {"n1": GONE},
        "profiles": {"n1": GONE},
        "standing": {"n1": GONE},
        "intents": {"n1": Intent(intent, 0)},
        "due": {"n:n1": GONE, "i:n1": forgotten(now)},
    }


@pytest.mark.parametrize("intent", INTENTS)
async def test_a_node_that_comes_back_is_still_out(world: World, intent: str) -> None:
    await join(world, "n0")
    await gone(world, intent)
    world.now_ms += 7
    answer, changes = await watch(world, join(world, "n1"))
    assert (answer.how, answer.standing) == ("NEW", Standing.draining)
    record = changes.pop("nodes")["n1"]
    assert (record.intent, record.standing, record.group, record.used) == (intent, Standing.draining, 1, 0)
    assert changes.pop("profiles").keys() == {"n1"}
    assert changes == {
        "standing": {"n1": 22},
        "intents": {"n1": GONE},
        "due": {"i:n1": GONE, "n:n1": T0 + 7 + 35_000},
        "counts": {"epoch": 3},
    }
    await keep_alive(world, "n1")
    assert (await world.cell()).nodes["n1"].standing == 6
    assert await resume(world.engine, CELL, "n1") == Intended("active", Standing.available, 0)


async def test_a_node_that_is_refused_leaves_the_word_where_it_is(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=1))
    await gone(world)
    await join(world, "n2")
    answer, changes = await watch(world, register(world.engine, CELL, "n1", **PLAIN))
    assert (code_of(answer), changes) == ("CELL_FULL", {})


async def test_another_node_does_not_take_the_word(world: World) -> None:
    await gone(world)
    _, changes = await watch(world, join(world, "n2"))
    assert "intents" not in changes
    assert (await world.cell()).nodes["n2"].intent == "active"


async def test_a_node_that_comes_back_and_leaves_again_is_out_as_before(world: World) -> None:
    await gone(world, "evicted")
    await join(world)
    world.now_ms += 7
    await leave(world.engine, CELL, "n1")
    cell = await world.cell()
    assert (cell.intents, cell.due) == ({"n1": Intent("evicted", 0)}, {"i:n1": forgotten(T0 + 7)})


@pytest.mark.parametrize("intent", INTENTS)
async def test_a_node_that_is_gone_can_be_resumed(world: World, intent: str) -> None:
    await gone(world, intent)
    world.now_ms += 7
    answer, changes = await watch(world, resume(world.engine, CELL, "n1"))
    assert answer == Intended("active", Standing.lost, 0)
    assert changes == {"intents": {"n1": GONE}, "due": {"i:n1": GONE}}
    assert code_of(await resume(world.engine, CELL, "n1")) == "UNKNOWN_NODE"
    assert (await join(world)).standing == 0


@pytest.mark.parametrize("before", INTENTS)
@pytest.mark.parametrize("after", INTENTS)
async def test_a_node_that_is_gone_can_be_drained_or_evicted_all_the_same(
    world: World, before: str, after: str
) -> None:
    """The week in which that is remembered begins anew."""
    await gone(world, before)
    world.now_ms += 7
    answer, changes = await watch(world, INTENTS[after](world.engine, CELL, "n1"))
    assert answer == Intended(after, Standing.lost, 0)
    assert changes == {"due": {"i:n1": forgotten(T0 + 7)}} | (
        {} if after == before else {"intents": {"n1": {"intent": after}}}
    )


@pytest.mark.parametrize("mark", [drain, evict, resume])
async def test_a_node_that_is_gone_and_of_which_nothing_was_wanted_is_unknown(world: World, mark: Mark) -> None:
    await join(world)
    await leave(world.engine, CELL, "n1")
    answer, changes = await watch(world, mark(world.engine, CELL, "n1"))
    assert answer == Refusal("UNKNOWN_NODE", "No node n1 is registered: it has left, or must register first.")
    assert changes == {}


async def test_the_word_is_forgotten_in_the_end(world: World) -> None:
    await gone(world)
    world.now_ms += WEEK_MS - 1
    assert await watch(world, reap(world.engine, CELL)) == (Settled(0, False), {})
    world.now_ms += 1
    answer, changes = await watch(world, reap(world.engine, CELL))
    assert answer == Settled(1, False)
    assert changes == {"intents": {"n1": GONE}, "due": {"i:n1": GONE}}
    assert await world.keys() == 1


async def test_words_are_forgotten_no_more_than_the_limit_at_a_time(world: World) -> None:
    for node_id in ("n1", "n2", "n3"):
        await gone(world, node_id=node_id)
    world.now_ms += WEEK_MS
    assert await reap(world.engine, CELL, 2) == Settled(2, True)
    assert (await world.cell()).intents == {"n3": Intent("draining", 0)}
    assert await reap(world.engine, CELL, 2) == Settled(1, False)


async def test_a_dispatch_leaves_it_to_the_reapers_to_forget_them(world: World) -> None:
    await gone(world)
    world.now_ms += WEEK_MS
    await join(world, "n2")
    _, changes = await watch(world, place(world))
    assert not changes.keys() & {"intents"}


@pytest.mark.parametrize("said", [{"credential": "other"}, {"process_id": "new"}, {"running": [(A, 1)]}])
async def test_whoever_comes_under_that_name_is_out(world: World, said: dict[str, Any]) -> None:
    await gone(world)
    assert (await join(world, **said)).standing == 6


async def test_an_evicted_node_with_work_leaves_and_comes_back_without_it(world: World) -> None:
    await join(world)
    await bring(world, "RUNNING")
    await evict(world.engine, CELL, "n1")
    await leave(world.engine, CELL, "n1")
    cell = await world.cell()
    assert (cell.leases, cell.limbo, cell.intents) == ([], {}, {"n1": Intent("evicted", 0)})
    await join(world)
    cell = await world.cell()
    assert (cell.jobs[A].state, cell.nodes["n1"].standing, cell.nodes["n1"].used) == ("RETRYING", Standing.draining, 0)
    await resume(world.engine, CELL, "n1")
    assert (await world.cell()).jobs[A].state == "RESERVED"


async def test_marks_of_one_tick_about_a_node_that_is_gone_see_each_other(world: World) -> None:
    await gone(world)
    answers = await asyncio.gather(*(resume(world.engine, CELL, "n1") for _ in range(2)))
    assert [code_of(answer) for answer in answers] == ["", "UNKNOWN_NODE"]
    await gone(world)
    answers = await asyncio.gather(*(evict(world.engine, CELL, node_id) for node_id in ("n1", "n2", "n1")))
    assert [code_of(answer) for answer in answers] == ["", "UNKNOWN_NODE", ""]
    assert (await world.cell()).intents == {"n1": Intent("evicted", 0)}
