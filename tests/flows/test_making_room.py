"""A full cell: a new node takes the place of one that is gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, GONE_FROM, MAX_LEAVING, MAX_PASSED_OVER, Intent
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.store.engine import Engine
from tests.support.cells import GONE, watch
from tests.support.stage import PLAIN, T0, A, B, bring, calls, code_of, join, keep_alive, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.servers import Server
    from tests.support.world import World

FULL = Refusal("CELL_FULL", "Cell c0 has no room for another node.")
FRENCH: dict[str, Any] = {"semantic_langs": ["fr", "en"], "nmt_pairs": [["fr", "en"]]}


async def lose(world: World, *node_ids: str) -> None:
    """These nodes, each on a socket of its own name, are lost in this order, half a second apart."""
    for node_id in node_ids:
        await disconnect(world.engine, CELL, node_id, node_id)
        world.now_ms += 500
        await sweep(world)
    lost = (await world.cell()).nodes
    assert all(lost[node_id].lost_at_ms for node_id in node_ids)


async def crowd(world: World, *node_ids: str, **said: Any) -> None:
    for node_id in node_ids:
        await join(world, node_id, connection=node_id, **said)


async def knock(world: World, node_id: str = "new") -> Registered | Refusal:
    return await register(world.engine, CELL, node_id, nonce=node_id, **PLAIN)


async def test_the_node_that_is_gone_for_longest_makes_room(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=3))
    await crowd(world, "a", "b", "c")
    await lose(world, "b", "a")
    answer, changes = await watch(world, knock(world))
    assert isinstance(answer, Registered)
    assert (answer.how, answer.epoch) == ("NEW", "4-new")
    assert changes["nodes"]["b"] is GONE
    assert changes["due"] == {"n:b": GONE, "n:new": world.now_ms + 35_000}
    assert (await world.cell()).nodes.keys() == {"a", "c", "new"}
    await knock(world, "newer")
    assert (await world.cell()).nodes.keys() == {"c", "new", "newer"}
    assert await watch(world, knock(world, "newest")) == (FULL, {})


async def test_while_there_is_room_nobody_has_to_go(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=3))
    await crowd(world, "a", "b")
    await lose(world, "a")
    await knock(world)
    assert (await world.cell()).nodes.keys() == {"a", "b", "new"}


async def test_a_node_that_comes_back_itself_needs_nobody_s_place(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=2))
    await crowd(world, "a", "b")
    await lose(world, "a", "b")
    await join(world, "b")
    assert (await world.cell()).nodes.keys() == {"a", "b"}


async def test_its_group_goes_with_it_and_is_no_kind_too_many(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=1, max_groups=1))
    await crowd(world, "a", **FRENCH)
    await lose(world, "a")
    answer = await knock(world)
    assert isinstance(answer, Registered)
    assert (answer.pairs, answer.warnings) == (["en:zh"], [])
    assert (await world.cell()).pairs.keys() == {"en:zh"}


async def test_what_the_operator_wants_of_it_is_kept(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=1))
    await crowd(world, "a")
    await drain(world.engine, CELL, "a")
    await lose(world, "a")
    _, changes = await watch(world, knock(world))
    assert changes["intents"] == {"a": Intent("draining", 0)}
    assert changes["due"]["i:a"] == FORGET_FROM + world.now_ms + 604_800_000


async def test_a_node_in_its_grace_or_silent_keeps_its_place(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=2))
    await crowd(world, "a", "b")
    world.now_ms += 35_000
    await disconnect(world.engine, CELL, "a", "a")
    await sweep(world)
    assert await watch(world, knock(world)) == (FULL, {})


async def test_a_lost_node_whose_work_has_yet_to_go_to_others_keeps_its_place(make_world: MakeWorld) -> None:
    """A sweep moves only so many attempts at a time."""
    world = await make_world(Rules(cell_capacity=1))
    await crowd(world, "a")
    await place(world, A)
    await place(world, B)
    await disconnect(world.engine, CELL, "a", "a")
    world.now_ms += 500
    assert await reap(world.engine, CELL, 1) == Settled(1, True)
    assert (await world.cell()).due["n:a"] == world.now_ms
    assert await watch(world, knock(world)) == (FULL, {})


@pytest.mark.parametrize("tells", [True, False])
async def test_a_lost_node_keeps_its_place_while_it_may_confirm_that_it_stopped(
    make_world: MakeWorld, tells: bool
) -> None:
    world = await make_world(Rules(cell_capacity=2))
    await crowd(world, "a", tells=tells)
    await bring(world, "RUNNING", A, limits=Limits(run_ms=90_000, timeout_ms=300_000))
    await crowd(world, "b")
    await lose(world, "a")
    fenced_at = world.now_ms
    assert (await world.cell()).limbo == {f"a:{A}:1": fenced_at}
    world.now_ms += 59_999
    await keep_alive(world, "b")
    await sweep(world)
    assert await watch(world, knock(world)) == (FULL, {})
    world.now_ms += 1
    await sweep(world)
    _, changes = await watch(world, knock(world))
    assert changes["nodes"]["a"] is GONE
    assert f"a:{A}:1" not in (await world.cell()).leases


async def test_one_that_may_still_confirm_does_not_stand_before_those_that_are_gone(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=3))
    await crowd(world, "a")
    await bring(world, "CANCELLED", A)
    await crowd(world, "b", "c")
    await lose(world, "a", "b")
    await knock(world)
    assert (await world.cell()).nodes.keys() == {"a", "c", "new"}


async def test_a_lost_node_that_still_speaks_is_not_gone(make_world: MakeWorld) -> None:
    """It was silent, is cut off, and has to register; it has every right to."""
    world = await make_world(Rules(cell_capacity=1))
    await crowd(world, "a")
    await bring(world, "RUNNING", A, limits=Limits(run_ms=200_000, timeout_ms=300_000))
    world.now_ms += 45_000
    for _ in range(2):
        await sweep(world)
    lost_at = world.now_ms
    world.now_ms += 60_000
    await sweep(world)
    await heartbeat(world.engine, CELL, "a", running=[(A, 1)])
    record = (await world.cell()).nodes["a"]
    assert (record.lost_at_ms, record.cut_off, record.used) == (lost_at, 1, 1)
    assert await watch(world, knock(world)) == (FULL, {})


async def test_a_node_heard_for_the_last_time_when_it_was_lost_is_gone(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=1, reconnect_grace_ms=0))
    await crowd(world, "a")
    await disconnect(world.engine, CELL, "a", "a")
    await sweep(world)
    record = (await world.cell()).nodes["a"]
    assert record.lost_at_ms == record.seen_at_ms == T0
    assert code_of(await knock(world)) == ""


async def test_a_lost_node_with_two_attempts_keeps_its_place_until_both_are_over(make_world: MakeWorld) -> None:
    """Cut off for the first that it did not confirm, it may still confirm the second, or run it on."""
    world = await make_world(Rules(cell_capacity=1))
    await crowd(world, "a")
    limits = Limits(run_ms=90_000, timeout_ms=300_000)
    await bring(world, "CANCELLED", A, limits=limits)
    world.now_ms += 20_000
    await keep_alive(world, "a")
    await bring(world, "RUNNING", B, limits=limits)
    await lose(world, "a")
    fenced_at = world.now_ms
    assert (await world.cell()).limbo == {f"a:{A}:1": T0, f"a:{B}:1": fenced_at}
    world.now_ms = T0 + 60_000
    await sweep(world)
    assert (await world.cell()).nodes["a"].cut_off
    assert await watch(world, knock(world)) == (FULL, {})
    world.now_ms = fenced_at + 60_000
    assert await watch(world, knock(world)) == (FULL, {})
    await sweep(world)
    assert code_of(await knock(world)) == ""


async def test_in_a_cell_that_was_made_smaller_as_many_go_as_must_or_none(
    make_world: MakeWorld, server: Server
) -> None:
    many = [f"n{number:02}" for number in range(MAX_LEAVING + 2)]
    world = await make_world(Rules(cell_capacity=len(many)))
    await crowd(world, *many)
    await lose(world, *many[:-3])
    small = msgspec.msgpack.encode(Rules(cell_capacity=3))
    async with await Engine.connect(server.url, world.engine.prefix, small, lambda: world.now_ms) as engine:
        assert await watch(world, register(engine, CELL, "new", **PLAIN)) == (FULL, {})
        await lose(world, many[-3])
        assert code_of(await register(engine, CELL, "new", **PLAIN)) == ""
    assert (await world.cell()).nodes.keys() == {*many[-2:], "new"}


async def test_a_cell_that_was_made_much_smaller_takes_nobody_without_a_look(
    make_world: MakeWorld, server: Server
) -> None:
    """Its lost nodes are forgotten in their time; until then whoever knocks costs it nothing."""
    many = [f"n{number:02}" for number in range(MAX_LEAVING + 3)]
    world = await make_world(Rules(cell_capacity=len(many)))
    await crowd(world, *many)
    await lose(world, *many)
    small = msgspec.msgpack.encode(Rules(cell_capacity=3))
    async with await Engine.connect(server.url, world.engine.prefix, small, lambda: world.now_ms) as engine:
        before = await calls(world)
        assert await register(engine, CELL, "new", **PLAIN) == FULL
        assert (await calls(world) - before)["zrangebyscore"] == 0
        world.now_ms += 3_600_000
        await sweep(world)
        assert code_of(await register(engine, CELL, "new", **PLAIN)) == ""


async def test_those_who_may_confirm_stand_behind_those_who_are_gone(make_world: MakeWorld) -> None:
    many = [f"n{number}" for number in range(MAX_PASSED_OVER + 1)]
    world = await make_world(Rules(cell_capacity=len(many) + 1))
    await crowd(world, *many, max_concurrent_jobs=1)
    for number in range(len(many)):
        await bring(world, "RUNNING", f"{CELL}.{number}")
    await crowd(world, "z")
    for node_id in [*many, "z"]:
        await disconnect(world.engine, CELL, node_id, node_id)
    world.now_ms += 500
    await sweep(world)
    due, gone_at = (await world.cell()).due, GONE_FROM + world.now_ms + 3_600_000
    assert {due[f"n:{node_id}"] for node_id in many} == {gone_at + 60_000}
    assert due["n:z"] == gone_at
    assert code_of(await knock(world)) == ""
    assert (await world.cell()).nodes.keys() == {*many, "new"}


async def test_one_whose_last_attempt_is_forgiven_is_gone_like_any_other(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=2))
    await crowd(world, "a", tells=False)
    await bring(world, "RUNNING", A)
    await bring(world, "RUNNING", B)
    await lose(world, "a")
    lost_at = world.now_ms
    gone_at = GONE_FROM + lost_at + 3_600_000
    assert (await world.cell()).due["n:a"] == gone_at + 60_000
    world.now_ms += 60_000
    await reap(world.engine, CELL, 1)
    assert (await world.cell()).due["n:a"] == gone_at + 60_000
    await sweep(world)
    assert (await world.cell()).due["n:a"] == gone_at


@pytest.mark.parametrize("more", [0, 1])
async def test_it_looks_past_so_many_who_are_lost_and_still_speak(make_world: MakeWorld, more: int) -> None:
    """One who has not spoken for as long as a node may be silent does not speak any more."""
    many = [f"n{number:02}" for number in range(MAX_PASSED_OVER + more)]
    world = await make_world(Rules(cell_capacity=len(many) + 1))
    await crowd(world, *many, "z")
    await lose(world, *many, "z")
    for node_id in many:
        await heartbeat(world.engine, CELL, node_id)
    assert code_of(await knock(world)) == ("CELL_FULL" if more else "")
    world.now_ms += 44_999
    assert await knock(world, "newer") == FULL
    world.now_ms += 1
    assert code_of(await knock(world, "newer")) == ""


async def test_one_that_never_confirmed_goes_when_no_other_can(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=3))
    await crowd(world, "a")
    await bring(world, "CANCELLED", A)
    await crowd(world, "b", "c")
    await lose(world, "a")
    world.now_ms += 60_000
    await keep_alive(world, "b", "c")
    await sweep(world)
    world.now_ms += 1_000
    await lose(world, "b")
    due = (await world.cell()).due
    assert due["n:a"] < due["n:b"]
    await knock(world)
    assert (await world.cell()).nodes.keys() == {"a", "c", "new"}
    await knock(world, "newer")
    assert (await world.cell()).nodes.keys() == {"c", "new", "newer"}


async def test_a_lost_node_that_names_something_shortly_before_it_is_forgotten_may_confirm_it(
    make_world: MakeWorld,
) -> None:
    world = await make_world(Rules())
    await join(world, "a")
    await bring(world, "RUNNING", A, limits=Limits(run_ms=200_000, timeout_ms=300_000))
    world.now_ms += 45_000
    for _ in range(2):
        await sweep(world)
    lost_at = world.now_ms
    world.now_ms += 60_000
    await sweep(world)
    world.now_ms = lost_at + 3_600_000 + 59_000
    await heartbeat(world.engine, CELL, "a", running=[(A, 1), (f"{CELL}.x", 1)])
    assert (await world.cell()).due["n:a"] == GONE_FROM + world.now_ms + 60_000
    world.now_ms += 59_999
    await sweep(world)
    assert (await world.cell()).nodes.keys() == {"a"}


async def test_a_lost_node_that_beats_on_and_does_not_register_is_forgotten_in_its_time(make_world: MakeWorld) -> None:
    world = await make_world(Rules(node_record_ttl_ms=50_000))
    await join(world, "a")
    await bring(world, "RUNNING", A, limits=Limits(run_ms=200_000, timeout_ms=300_000))
    world.now_ms += 45_000
    for _ in range(2):
        await sweep(world)
    lost_at = world.now_ms
    for _ in range(11):
        world.now_ms += 10_000
        await sweep(world)
        await heartbeat(world.engine, CELL, "a", running=[(A, 1)])
    assert world.now_ms == lost_at + 110_000
    assert (await world.cell()).nodes == {}


async def test_one_that_confirms_something_after_its_time_may_confirm_the_rest(make_world: MakeWorld) -> None:
    world = await make_world(Rules(node_record_ttl_ms=1_000))
    await crowd(world, "a")
    limits = Limits(run_ms=200_000, timeout_ms=300_000)
    await bring(world, "RUNNING", A, limits=limits)
    await bring(world, "RUNNING", B, limits=limits)
    await lose(world, "a")
    world.now_ms += 30_000
    await stopped(world.engine, A, 1, "a")
    assert (await world.cell()).due["n:a"] == GONE_FROM + world.now_ms + 60_000


async def test_one_that_is_late_to_be_taken_apart_is_late_to_be_forgotten(make_world: MakeWorld) -> None:
    world = await make_world(Rules(node_record_ttl_ms=50_000))
    await crowd(world, "a")
    limits = Limits(run_ms=200_000, timeout_ms=300_000)
    await bring(world, "RUNNING", A, limits=limits)
    await bring(world, "RUNNING", B, limits=limits)
    await disconnect(world.engine, CELL, "a", "a")
    world.now_ms += 500
    await reap(world.engine, CELL, 1)
    world.now_ms += 120_000
    await sweep(world)
    cell = await world.cell()
    assert (cell.limbo[f"a:{B}:1"], cell.due["n:a"]) == (world.now_ms, GONE_FROM + world.now_ms + 60_000)


async def test_one_that_confirms_the_last_when_it_should_be_forgotten_is_due_now(make_world: MakeWorld) -> None:
    world = await make_world(Rules(node_record_ttl_ms=46_000))
    await crowd(world, "a")
    await bring(world, "RUNNING", A, limits=Limits(run_ms=200_000, timeout_ms=300_000))
    await lose(world, "a")
    world.now_ms += 59_000
    await stopped(world.engine, A, 1, "a")
    assert (await world.cell()).due["n:a"] == GONE_FROM + world.now_ms


async def test_a_crowd_that_comes_and_goes_keeps_nobody_out(make_world: MakeWorld) -> None:
    """All at once, in one script: each finds the next that is gone."""
    world = await make_world(Rules(cell_capacity=8))
    strangers = [f"x{number}" for number in range(8)]
    await crowd(world, *strangers)
    for node_id in strangers:
        await disconnect(world.engine, CELL, node_id, node_id)
    world.now_ms += 500
    await sweep(world)
    before = await calls(world)
    answers = await asyncio.gather(*(knock(world, f"n{number}") for number in range(9)))
    assert [code_of(answer) for answer in answers] == [""] * 8 + ["CELL_FULL"]
    assert (await calls(world) - before)["zrangebyscore"] == 9
    assert (await world.cell()).nodes.keys() == {f"n{number}" for number in range(8)}
