"""A node that comes and goes rests when it is back, each time twice as long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.records import Event, Rules, Standing
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.disconnect import Away, Replaced, disconnect
from lingua_scheduler.flows.dispatch import Waiting, dispatch
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.register import Registered
from tests.support.cells import GONE, HELD, watch
from tests.support.stage import T0, A, bring, join, keep_alive, place, queued, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.records import NodeRecord
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World


async def node(world: World) -> NodeRecord:
    return (await world.cell()).nodes["n1"]


async def flaps(world: World) -> tuple[int, int]:
    """How often it was gone, and when it was the last time."""
    record = await node(world)
    return record.flaps, record.flapped_at_ms


async def come_and_go(world: World, times: int) -> Registered:
    """n1 loses its socket and is back at once, so often; how it was received the last time."""
    await join(world, connection="x")
    for _ in range(times):
        await disconnect(world.engine, CELL, "n1", "x")
        answer = await join(world, connection="x", epoch=(await node(world)).epoch)
    return answer


async def test_a_socket_that_closes_is_counted(world: World) -> None:
    await join(world, connection="x")
    world.now_ms += 7
    answer, changes = await watch(world, disconnect(world.engine, CELL, "n1", "x"), judged=True)
    assert answer == Away(T0 + 507)
    away = {"away_until_ms": T0 + 507, "standing": Standing.not_ready, "flaps": 1, "flapped_at_ms": T0 + 7}
    assert changes == {
        "nodes": {"n1": away},
        "standing": {"n1": 21},
        "room": {1: 0},
        "due": {"n:n1": T0 + 507},
    }


async def test_a_socket_that_the_scheduler_closes_is_not(world: World) -> None:
    await join(world, connection="x")
    _, changes = await watch(world, disconnect(world.engine, CELL, "n1", "x", handover=True), judged=True)
    assert changes["nodes"] == {"n1": {"away_until_ms": T0 + 10_000, "standing": Standing.not_ready}}


async def test_a_close_that_is_told_twice_or_of_an_old_socket_counts_no_more(world: World) -> None:
    await join(world, connection="x")
    assert await disconnect(world.engine, CELL, "n1", "old") == Replaced()
    for _ in range(2):
        await disconnect(world.engine, CELL, "n1", "x")
    assert await flaps(world) == (1, T0)


async def test_a_node_that_does_not_come_back_in_its_grace_was_gone_once(world: World) -> None:
    await join(world, connection="x")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += 500
    await sweep(world)
    assert (await node(world)).standing == Standing.lost
    assert await flaps(world) == (1, T0)
    await disconnect(world.engine, CELL, "n1", "x")
    await join(world, connection="y", process_id="p2")
    assert await flaps(world) == (1, T0)


async def test_silence_is_counted_when_it_is_final(world: World) -> None:
    await join(world)
    world.now_ms += 35_000
    await sweep(world)
    assert await flaps(world) == (0, 0)
    world.now_ms += 10_000
    _, changes = await watch(world, sweep(world), judged=True)
    lost = {"lost_at_ms": T0 + 45_000, "standing": Standing.lost}
    remembered = {"flaps": 1, "flapped_at_ms": T0 + 45_000, "recent": 1}
    assert changes["nodes"] == {"n1": lost | remembered}
    assert changes["outbox"] == {Event("lost", "", 0, "n1", "1-n1", "", T0 + 45_000): T0 + 45_000}


async def test_a_new_process_whose_predecessor_was_still_there_is_counted(world: World) -> None:
    await join(world, process_id="p1")
    world.now_ms += 7
    assert (await join(world, process_id="p2")).how == "NEW_PROCESS"
    assert await flaps(world) == (1, T0 + 7)


@pytest.mark.parametrize("said", [{"process_id": "p2"}, {"process_id": "p1"}, {"epoch": "1-n1"}])
async def test_who_comes_back_from_a_grace_was_gone_once_whoever_it_is(world: World, said: dict[str, Any]) -> None:
    await join(world, connection="x", process_id="p1")
    await disconnect(world.engine, CELL, "n1", "x")
    await join(world, connection="y", **said)
    assert await flaps(world) == (1, T0)


@pytest.mark.parametrize("said", [{"process_id": "p1"}, {"epoch": "1-n1"}, {}])
async def test_who_registers_again_was_not_gone(world: World, said: dict[str, Any]) -> None:
    await join(world, process_id="p1")
    await join(world, **said)
    assert await flaps(world) == (0, 0)


async def test_the_third_return_in_a_while_begins_with_a_rest(world: World) -> None:
    answer = await come_and_go(world, 2)
    assert answer.standing == Standing.available
    await disconnect(world.engine, CELL, "n1", "x")
    answer, changes = await watch(world, join(world, connection="x", epoch="1-n1"), judged=True)
    assert answer == Registered("RESYNC", "1-n1", Standing.resting, ["en:zh"], [], [])
    assert changes == {
        "nodes": {"n1": {"away_until_ms": 0, "rest_until_ms": T0 + 1_000, "standing": Standing.resting}},
        "standing": {"n1": 20},
        "due": {"n:n1": T0 + 1_000},
    }
    world.now_ms += 1_000
    _, changes = await watch(world, sweep(world), judged=True)
    assert changes == {
        "nodes": {"n1": {"standing": Standing.available}},
        "standing": {"n1": 16},
        "room": {1: 1},
        "due": {"n:n1": T0 + 35_000},
    }


async def test_each_rest_is_twice_as_long_as_the_last_until_the_longest(world: World) -> None:
    await join(world, connection="x")
    rests = []
    for _ in range(10):
        await disconnect(world.engine, CELL, "n1", "x")
        await join(world, connection="x")
        rests.append(max(0, (await node(world)).rest_until_ms - world.now_ms))
    assert rests == [0, 0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


async def test_a_node_that_was_gone_a_thousand_times_rests_no_longer(make_world: MakeWorld) -> None:
    """2 to the power of a thousand and more is no number of milliseconds."""
    world = await make_world(Rules(rest_ms=7, max_rest_ms=100))
    await join(world, connection="x")
    for _ in range(1_100):
        await disconnect(world.engine, CELL, "n1", "x")
        await join(world, connection="x")
    record = await node(world)
    assert (record.flaps, record.rest_until_ms) == (1_100, T0 + 100)


@pytest.mark.parametrize(("after_ms", "standing"), [(59_999, Standing.resting), (60_000, Standing.available)])
async def test_three_times_in_more_than_the_window_are_not_three_times(
    world: World, after_ms: int, standing: Standing
) -> None:
    await come_and_go(world, 2)
    world.now_ms += 30_000
    await keep_alive(world, "n1")
    world.now_ms = T0 + after_ms
    await disconnect(world.engine, CELL, "n1", "x")
    assert (await join(world, connection="x", epoch="1-n1")).standing == standing
    assert (await node(world)).flaps == (3 if standing == Standing.resting else 1)


@pytest.mark.parametrize(("after_ms", "standing"), [(59_999, Standing.resting), (60_000, Standing.available)])
async def test_who_stayed_away_for_the_whole_window_need_not_rest(
    world: World, after_ms: int, standing: Standing
) -> None:
    await come_and_go(world, 2)
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += after_ms
    await sweep(world)
    assert (await join(world, connection="x")).standing == standing


async def test_ways_of_being_gone_add_up(world: World) -> None:
    """A closed socket, a silence and a new process."""
    await join(world, connection="x", process_id="p1")
    await disconnect(world.engine, CELL, "n1", "x")
    await join(world, connection="x", process_id="p1")
    for _ in range(2):
        world.now_ms += 45_000 // 2
        await sweep(world)
    world.now_ms = T0 + 45_000
    for _ in range(2):
        await sweep(world)
    assert await flaps(world) == (2, T0 + 45_000)
    assert (await join(world, process_id="p1")).standing == Standing.available
    assert (await join(world, process_id="p2")).standing == Standing.resting
    assert await flaps(world) == (3, T0 + 45_000)


async def test_a_rest_that_the_node_asked_for_is_not_cut_short(world: World) -> None:
    await come_and_go(world, 2)
    await place(world)
    await fail(world.engine, A, 1, "n1", reason="", overloaded=True, retry_after_ms=30_000)
    await disconnect(world.engine, CELL, "n1", "x")
    await join(world, connection="x", epoch="1-n1")
    assert (await node(world)).rest_until_ms == T0 + 30_000


async def test_a_new_process_need_not_finish_the_rest_of_the_old_one_but_has_its_own(world: World) -> None:
    await join(world, connection="x", process_id="p1")
    await place(world)
    await fail(world.engine, A, 1, "n1", reason="", overloaded=True, retry_after_ms=30_000)
    for number in range(2, 5):
        await disconnect(world.engine, CELL, "n1", "x")
        await join(world, connection="x", process_id=f"p{number}")
    assert (await node(world)).rest_until_ms == T0 + 1_000


async def test_a_beat_does_not_end_the_rest(world: World) -> None:
    await come_and_go(world, 3)
    await heartbeat(world.engine, CELL, "n1", health="ready")
    assert (await node(world)).standing == Standing.resting


async def test_what_the_node_still_runs_stays_with_it(world: World) -> None:
    await come_and_go(world, 2)
    await bring(world, "RUNNING")
    await disconnect(world.engine, CELL, "n1", "x")
    answer = await join(world, connection="x", epoch="1-n1", running=[(A, 1)])
    assert (answer.standing, answer.cancel) == (Standing.resting, [])
    assert (await world.cell()).jobs[A].state == "RUNNING"


async def test_who_waits_is_served_when_the_rest_is_over(world: World) -> None:
    await come_and_go(world, 3)
    answer = await dispatch(world.engine, A, "s1", "en", "zh", seed=1, wanted=Wanted(wait_ms=2_000))
    assert answer == Waiting(1, T0 + 2_000)
    world.now_ms += 1_000
    _, changes = await watch(world, sweep(world), judged=True)
    reserved = {"state": "RESERVED", "attempt": 1, "node": "n1", "epoch": "1-n1", "acks": 1}
    reserved |= {"reserved_at_ms": T0 + 1_000}
    assert changes == {
        "nodes": {"n1": {"used": 1, "standing": Standing.available}},
        "standing": {"n1": 16},
        "room": {1: 1},
        "jobs": {A: reserved},
        "leases": {f"n1:{A}:1": HELD},
        "queue": {queued(A, T0 + 60_000): GONE},
        "due": {f"j:{A}": T0 + 6_000, "n:n1": T0 + 35_000},
        "outbox": {Event("reserved", A, 1, "n1", "1-n1", "", T0 + 1_000): T0 + 1_000},
        "counts": {"accepted": 1},
    }


async def test_who_leaves_and_joins_was_never_gone(world: World) -> None:
    await come_and_go(world, 5)
    await leave(world.engine, CELL, "n1")
    assert (await join(world)).standing == Standing.available
    assert await flaps(world) == (0, 0)
