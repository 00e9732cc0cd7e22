"""Another server serves, and may have forgotten what the last one knew: nobody is chosen who was not heard of anew."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.doubt import Doubted, doubt, doubt_first
from lingua_scheduler.flows.heartbeat import Beaten, heartbeat
from lingua_scheduler.flows.reap import Settled
from lingua_scheduler.store.checks import check_schema
from lingua_scheduler.views.schema import Schema, read_schema
from tests.support.cells import watch
from tests.support.meddling import meddled
from tests.support.stage import T0, A, bring, code_of, join, keep_alive, place, sweep
from tests.support.waiting import wait_until
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.support.meddling import Run
    from tests.support.world import World


class Died(Exception):
    """The process is gone."""


@pytest.fixture
async def begun(world: World) -> World:
    """A cell that a server serves already."""
    await check_schema(world.engine, CELL)
    assert await doubt(world.engine, CELL, "first") == Doubted(0)
    return world


async def reign(world: World) -> int:
    schema = await read_schema(world.engine, CELL)
    assert isinstance(schema, Schema)
    return schema.reign


async def test_under_another_reign_nobody_is_chosen_and_all_keep_their_jobs(begun: World) -> None:
    world, before = begun, await reign(begun)
    await join(world, connection="x")
    await bring(world, "RUNNING")
    await join(world, "n2")
    world.now_ms += 7
    answer, changes = await watch(world, doubt(world.engine, CELL, "second"))
    assert answer == Doubted(2)
    until, after = T0 + 7 + 10_000, await reign(world)
    assert before != after
    assert changes == {
        "nodes": {name: {"standing": 5, "away_until_ms": until} for name in ("n1", "n2")},
        "standing": {"n1": 21, "n2": 21},
        "room": {1: 0},
        "due": {"n:n1": until, "n:n2": until},
        "counts": {"reign": after},
    }


async def test_under_the_same_reign_nothing_happens_whoever_asks(begun: World) -> None:
    await join(begun)
    assert await watch(begun, doubt(begun.engine, CELL, "first")) == (Doubted(0), {})


@pytest.fixture
async def many(begun: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nodes, more than a page has room for. (The engine keeps fewer in one piece, and shows them at once.)"""
    monkeypatch.setattr("lingua_scheduler.flows.doubt.PAGE", 50)
    names = [f"n{number}" for number in range(600)]
    await asyncio.gather(*(join(begun, name) for name in names))
    return names


async def away(world: World) -> list[str]:
    return sorted(name for name, node in (await world.cell()).nodes.items() if node.away_until_ms > 0)


async def test_many_nodes_are_doubted_page_by_page_and_the_reign_is_known_with_the_last(
    begun: World, many: list[str]
) -> None:
    """Whoever dies before leaves a cell that is doubted anew by who comes next."""
    world, before = begun, await reign(begun)

    async def die_after(run: Run) -> object:
        await run()
        raise Died

    with pytest.raises(Died):
        await doubt(meddled(world.engine, doubt=die_after), CELL, "second")
    first = await away(world)
    assert 0 < len(first) < len(many)
    assert await reign(world) == before
    engine = meddled(world.engine)
    assert await doubt(engine, CELL, "second") == Doubted(len(many) - len(first))
    assert len(engine.ran) > 2
    assert await away(world) == sorted(many)
    assert await reign(world) != before
    assert await watch(world, doubt(world.engine, CELL, "second")) == (Doubted(0), {})


async def test_a_new_connection_serves_nobody_before_all_pages_are_done(begun: World, many: list[str]) -> None:
    world = begun
    doubt_first(world.engine, lambda: (CELL,))
    await doubt(world.engine, CELL, "of another server")
    await asyncio.gather(*(join(world, name) for name in many))
    assert await away(world) == []
    era = world.engine.era
    for killing in world.engine.everywhere("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no").values():
        await asyncio.wait([killing])
    await asyncio.to_thread(wait_until, lambda: world.engine.era > era)
    assert await away(world) == sorted(many)


async def test_the_first_reign_of_a_cell_doubts_nobody(world: World) -> None:
    """Another release may have begun it, and its nodes are well."""
    await check_schema(world.engine, CELL)
    await join(world)
    answer, changes = await watch(world, doubt(world.engine, CELL, "first"))
    assert answer == Doubted(0)
    assert changes == {"counts": {"reign": await reign(world)}}


async def test_a_cell_that_nobody_has_begun_is_not_begun_by_that(world: World) -> None:
    for is_back in (False, True):
        assert await watch(world, doubt(world.engine, CELL, "first", is_back=is_back)) == (Doubted(0), {})


async def test_who_is_away_or_lost_has_no_more_time_than_before(begun: World) -> None:
    world = begun
    await join(world, connection="x")
    await join(world, "n2", connection="y")
    await disconnect(world.engine, CELL, "n2", "y")
    world.now_ms += 500
    await sweep(world)
    await disconnect(world.engine, CELL, "n1", "x")
    answer, changes = await watch(world, doubt(world.engine, CELL, "second"))
    assert answer == Doubted(0)
    assert set(changes) == {"counts"}


async def test_who_comes_back_with_what_was_forgotten_has_no_slot_for_more(begun: World) -> None:
    """By its own word, or its instance's: what it runs and nobody knows takes its slot until it has stopped."""
    world = begun
    epoch = (await join(world, connection="x", max_concurrent_jobs=1)).epoch
    await doubt(world.engine, CELL, "second")
    with pytest.raises(AssertionError):
        await place(world)
    forgotten = [("c0.0190a000-0000-7000-8000-000000000009", 1)]
    back = await join(world, connection="x", max_concurrent_jobs=1, epoch=epoch, running=forgotten)
    assert (back.how, back.epoch, back.cancel) == ("RESYNC", epoch, forgotten)
    with pytest.raises(AssertionError):
        await place(world)
    world.now_ms += 2_000
    await heartbeat(world.engine, CELL, "n1", epoch, running=[])
    assert (await place(world)).node_id == "n1"


async def test_a_node_without_a_socket_is_told_to_register(begun: World) -> None:
    world = begun
    await join(world)
    await join(world, "n2", connection="x")
    first, second = [await heartbeat(world.engine, CELL, node_id) for node_id in ("n1", "n2")]
    assert isinstance(first, Beaten)
    assert isinstance(second, Beaten)
    assert (first.must_register, second.must_register) == (False, False)
    await doubt(world.engine, CELL, "second")
    first, second = [await heartbeat(world.engine, CELL, node_id) for node_id in ("n1", "n2")]
    assert isinstance(first, Beaten)
    assert isinstance(second, Beaten)
    # Whoever holds the socket of the other one knows what it has, and takes it in.
    assert (first.must_register, second.must_register) == (True, False)
    await join(world)
    again = await heartbeat(world.engine, CELL, "n1")
    assert isinstance(again, Beaten)
    assert not again.must_register


async def test_who_is_not_heard_of_is_lost_and_its_work_goes_to_others(begun: World) -> None:
    world = begun
    await join(world, connection="x")
    await bring(world, "RUNNING")
    await doubt(world.engine, CELL, "second")
    world.now_ms += 10_000
    await sweep(world)
    cell = await world.cell()
    assert cell.nodes["n1"].lost_at_ms == world.now_ms


@pytest.mark.parametrize("state", ["RESERVED", "DISPATCHED", "RUNNING"])
async def test_who_had_lost_the_engine_is_listened_to_before_a_job_is_late(begun: World, state: State) -> None:
    """What it could not tell may be that the assignment was written, that the node has it, or the result."""
    world = begun
    await join(world)
    await bring(world, state)
    await join(world, "n2")
    world.now_ms += 30_000
    answer, changes = await watch(world, doubt(world.engine, CELL, "first", is_back=True))
    assert (answer, changes) == (Doubted(0), {"counts": {"listening": T0 + 32_000}})
    await keep_alive(world, "n1", "n2")
    assert await watch(world, sweep(world)) == (Settled(1, False), {"due": {f"j:{A}": T0 + 32_000}})
    world.now_ms += 1_999
    assert await watch(world, sweep(world)) == (Settled(0, False), {})
    world.now_ms += 1
    await sweep(world)
    job = (await world.cell()).jobs[A]
    assert (job.attempt, job.node) == (2, "n2")


async def test_nobody_is_listened_to_longer_than_a_job_may_take(begun: World) -> None:
    world = begun
    await join(world)
    await bring(world, "RUNNING", limits=Limits(timeout_ms=31_000))
    world.now_ms += 30_500
    await doubt(world.engine, CELL, "first", is_back=True)
    await keep_alive(world, "n1")
    assert await watch(world, sweep(world)) == (Settled(1, False), {"due": {f"j:{A}": T0 + 31_000}})
    world.now_ms += 500
    await sweep(world)
    assert (await world.cell()).jobs[A].state == "EXPIRED"


async def test_a_job_whose_node_is_in_a_grace_has_whichever_is_longer(begun: World) -> None:
    world = begun
    await join(world, connection="x")
    await bring(world, "DISPATCHED")
    world.now_ms += 5_000
    await doubt(world.engine, CELL, "second", is_back=True)
    assert (await watch(world, sweep(world)))[1] == {"due": {f"j:{A}": T0 + 15_000}}


async def test_what_is_no_cell_and_no_reign_is_refused(world: World) -> None:
    for answer in (await doubt(world.engine, "C 0", "x"), await doubt(world.engine, CELL, "x" * 129)):
        assert isinstance(answer, Refusal)
        assert code_of(answer) == "INVALID_MESSAGE"


async def test_a_new_connection_asks_before_anything_else(begun: World) -> None:
    """Without it whoever calls first would be served. And it says that somebody is back."""
    await join(begun)
    doubt_first(begun.engine, lambda: (CELL,))
    await doubt(begun.engine, CELL, "of another server")
    assert (await begun.cell()).nodes["n1"].away_until_ms > 0
    await join(begun)
    assert (await begun.cell()).nodes["n1"].away_until_ms == 0
    era = begun.engine.era
    for killing in begun.engine.everywhere("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no").values():
        await asyncio.wait([killing])
    await asyncio.to_thread(wait_until, lambda: begun.engine.era > era)
    cell = await begun.cell()
    assert cell.nodes["n1"].away_until_ms > 0
    assert cell.counts["listening"] == begun.now_ms + 2_000
