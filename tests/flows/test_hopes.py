"""Where there are several cells, a retry hopes for a node in another one before it goes back to a node that had it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Event
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import Hints, Wanted
from lingua_scheduler.flows.bring_back import BroughtBack, Stays, bring_back
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.host import Hosted
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.reap import reap
from tests.support.guests import THERE, check, hosted, join_in, lodged, mail, sent
from tests.support.stage import T0, A, B, place
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.records import JobRecord
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

HOPES_MS = 200
DEADLINE = T0 + 60_000


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    return await make_world(Rules(elsewhere_ms=HOPES_MS))


async def job_of(world: World, job_id: str = A) -> JobRecord:
    return (await check(world))[CELL].jobs[job_id]


async def due_of(world: World, job_id: str = A) -> int:
    return (await check(world))[CELL].due[f"j:{job_id}"]


async def break_down(world: World, **asked: Any) -> None:
    """The only node that there is at home has the job, and has failed it."""
    await join_in(world, CELL, "near")
    await place(world, A, **asked)
    assert isinstance(await fail(world.engine, A, 1, "near", reason="broken"), Failed)


async def test_it_hopes_for_a_while_and_then_goes_back(world: World) -> None:
    await break_down(world)
    assert (await job_of(world)).state == "RETRYING"
    assert await due_of(world) == T0 + HOPES_MS
    assert Event("stranded", A, 1, "", "", "en:zh", T0) in await mail(world, CELL)
    world.now_ms += HOPES_MS - 1
    await reap(world.engine, CELL)
    assert (await job_of(world)).state == "RETRYING"
    world.now_ms += 1
    await reap(world.engine, CELL)
    job = await job_of(world)
    assert (job.state, job.attempt, job.node) == ("RESERVED", 2, "near")
    assert job.past.reasons == ["waited", "again"]
    assert (await check(world))[CELL].queue == []


async def test_however_short_it_hopes_others_are_told(make_world: MakeWorld) -> None:
    world = await make_world(Rules(elsewhere_ms=1))
    await break_down(world)
    assert [event.kind for event in await mail(world, CELL)].count("stranded") == 1


async def test_where_there_is_no_other_cell_it_goes_back_at_once(make_world: MakeWorld) -> None:
    world = await make_world(Rules())
    await break_down(world)
    job = await job_of(world)
    assert (job.state, job.attempt, job.node) == ("RESERVED", 2, "near")
    assert not [event for event in await mail(world, CELL) if event.kind == "stranded"]


async def test_another_node_at_home_is_taken_at_once(world: World) -> None:
    await join_in(world, CELL, "new")
    await join_in(world, CELL, "near")
    first = await place(world, A)
    await fail(world.engine, A, 1, first.node_id, reason="broken")
    job = await job_of(world)
    assert (job.state, job.node) == ("RESERVED", "near" if first.node_id == "new" else "new")
    assert not [event for event in await mail(world, CELL) if event.kind == "stranded"]


async def test_another_node_that_comes_to_have_room_takes_it_while_it_hopes(world: World) -> None:
    await break_down(world)
    await join_in(world, CELL, "new")
    job = await job_of(world)
    assert (job.state, job.attempt, job.node) == ("RESERVED", 2, "new")


async def test_a_node_that_had_it_and_comes_to_have_room_does_not_take_it_while_it_hopes(world: World) -> None:
    await join_in(world, CELL, "near", max_concurrent_jobs=2)
    await place(world, A)
    await place(world, B)
    await fail(world.engine, A, 1, "near", reason="broken")
    await done(world.engine, B, 1, "near")
    assert (await job_of(world)).state == "RETRYING"
    world.now_ms += HOPES_MS
    await reap(world.engine, CELL)
    assert (await job_of(world)).node == "near"


async def test_when_it_hopes_no_more_it_waits_for_the_node_that_had_it(world: World) -> None:
    await break_down(world)
    await place(world, B)
    world.now_ms += HOPES_MS
    await reap(world.engine, CELL)
    assert (await job_of(world)).state == "RETRYING"
    assert await due_of(world) == DEADLINE
    await done(world.engine, B, 1, "near")
    assert (await job_of(world)).node == "near"


async def test_it_goes_elsewhere_though_a_node_that_had_it_has_room(world: World) -> None:
    await join_in(world, THERE, "far")
    await break_down(world)
    asked = await sent(world)
    there = await hosted(world, asked)
    assert isinstance(there, Hosted)
    assert await lodged(world, asked, there)
    job = await job_of(world)
    assert (job.state, job.node, job.cell) == ("RESERVED", "far", THERE)


async def test_who_is_turned_away_there_goes_back_at_once(world: World) -> None:
    await break_down(world)
    asked = await sent(world)
    assert await bring_back(world.engine, A, asked.attempt_id) == BroughtBack("RESERVED")
    job = await job_of(world)
    assert (job.attempt, job.node, job.cell) == (3, "near", "")
    assert (await check(world))[CELL].queue == []


async def test_who_will_ask_a_third_cell_hopes_on(world: World) -> None:
    await break_down(world)
    asked = await sent(world)
    world.now_ms += 100
    assert await bring_back(world.engine, A, asked.attempt_id, asks_on=True) == BroughtBack("RETRYING")
    assert await due_of(world) == T0 + 100 + HOPES_MS
    assert (await job_of(world)).cell == ""


async def test_whoever_has_nobody_to_ask_lets_it_go_back_at_once(world: World) -> None:
    await break_down(world)
    assert await bring_back(world.engine, A, 1) == BroughtBack("RESERVED")
    job = await job_of(world)
    assert (job.attempt, job.node, job.past.reasons) == (2, "near", ["waited", "again"])
    assert (await check(world))[CELL].queue == []
    assert await bring_back(world.engine, A, 1) == Stays()
    assert await bring_back(world.engine, A, 2) == Stays()
    assert await job_of(world) == job


async def test_whoever_asked_the_last_one_says_the_number_of_that_question(world: World) -> None:
    await break_down(world)
    asked = await sent(world)
    assert await bring_back(world.engine, A, 1) == Stays()
    await bring_back(world.engine, A, asked.attempt_id, asks_on=True)
    # Somebody who knows of no question, and the loss of a guest that was told before, count no more.
    assert await bring_back(world.engine, A, 1) == Stays()
    assert await bring_back(world.engine, A, asked.attempt_id, "lost", "lost") == Stays()
    assert (await job_of(world)).state == "RETRYING"
    assert await bring_back(world.engine, A, asked.attempt_id) == BroughtBack("RESERVED")
    assert (await job_of(world)).node == "near"


async def test_when_it_hopes_no_more_nobody_need_say_so(world: World) -> None:
    await break_down(world)
    await place(world, B)
    assert await bring_back(world.engine, A, 1) == BroughtBack("RETRYING")
    assert await due_of(world) == DEADLINE
    before = await check(world)
    assert await bring_back(world.engine, A, 1) == Stays()
    assert await check(world) == before


async def test_whoever_does_not_let_it_hope_lets_it_go_back_at_once(world: World) -> None:
    """As an instance does that does not know of other cells yet."""
    await break_down(world)
    asked = await sent(world)
    world.engine.obey(msgspec.msgpack.encode(Rules()))
    assert await bring_back(world.engine, A, asked.attempt_id, asks_on=True) == BroughtBack("RESERVED")
    assert (await job_of(world)).node == "near"


async def test_who_dies_after_asking_costs_a_lease_and_then_it_goes_back(world: World) -> None:
    await break_down(world)
    await sent(world)
    world.now_ms += world.rules.relay_lease_ms - 1
    await reap(world.engine, CELL)
    assert (await job_of(world)).cell == THERE
    world.now_ms += 1
    await reap(world.engine, CELL)
    job = await job_of(world)
    assert (job.state, job.attempt, job.node, job.cell) == ("RESERVED", 3, "near", "")
    assert [event.attempt for event in await mail(world, CELL) if event.kind == "let_go"] == [2]


async def test_who_insists_on_a_node_does_not_hope(world: World) -> None:
    await break_down(world, wanted=Wanted(preferred_node_id="near", strict=True))
    job = await job_of(world)
    assert (job.state, job.attempt, job.node) == ("RESERVED", 2, "near")
    assert not [event for event in await mail(world, CELL) if event.kind == "stranded"]


@pytest.mark.parametrize("how", ["preferred", "bound"])
async def test_who_only_wishes_for_a_node_that_had_it_hopes(world: World, how: str) -> None:
    wished: dict[str, Any] = (
        {"wanted": Wanted(preferred_node_id="near")} if how == "preferred" else {"hints": Hints(bound_node_id="near")}
    )
    await break_down(world, **wished)
    job = await job_of(world)
    assert (job.state, job.past.reasons) == ("RETRYING", [f"{how} seen"])
    world.now_ms += HOPES_MS
    await reap(world.engine, CELL)
    assert (await job_of(world)).node == "near"


async def test_it_hopes_also_where_it_may_go_back_for_another_language(world: World) -> None:
    """The last node of its pair falls, and its fallback is served only by the node that had it."""
    await join_in(world, CELL, "near", semantic_langs=["zh", "en"], nmt_pairs=[["zh", "en"]])
    await dispatch(world.engine, A, "s1", "yue", "en", wanted=Wanted(exclude_node_ids=["last"]))
    await fail(world.engine, A, 1, "near", reason="broken")
    await join_in(world, CELL, "last", semantic_langs=["yue", "en"], nmt_pairs=[["yue", "en"]])
    await leave(world.engine, CELL, "last")
    assert (await job_of(world)).state == "RETRYING"
    world.now_ms += HOPES_MS
    await reap(world.engine, CELL)
    assert (await job_of(world)).node == "near"


@pytest.mark.parametrize(("left_ms", "state"), [(HOPES_MS + 1, "RETRYING"), (HOPES_MS, "RESERVED")])
async def test_it_does_not_hope_until_its_deadline(world: World, left_ms: int, state: str) -> None:
    await join_in(world, CELL, "near")
    await place(world, A, limits=Limits(timeout_ms=1_000))
    world.now_ms += 1_000 - left_ms
    await fail(world.engine, A, 1, "near", reason="broken")
    assert (await job_of(world)).state == state
