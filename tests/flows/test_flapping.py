"""A node that comes and goes rests when it is back, each time twice as long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.health import FLAP_BASE, FLAP_PARTS
from lingua_scheduler.core.records import Event, Standing
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.disconnect import Away, Replaced, disconnect
from lingua_scheduler.flows.dispatch import Waiting, dispatch
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import Beaten, heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.register import Registered
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.views.slots import slots_in
from tests.support.cells import GONE, HELD, watch
from tests.support.stage import T0, A, bring, join, keep_alive, place, queued, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.records import NodeRecord
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World


async def node(world: World) -> NodeRecord:
    return (await world.cell()).nodes["n1"]


#: The first moment of a tenth of the window after T0. Tenths are counted from 1970.
TENTH = T0 + 2_000


def tenths(record: NodeRecord) -> list[int]:
    """How often it was gone in each tenth of the window, seen from the last time, the newest first."""
    return [record.flaps // FLAP_BASE**age % FLAP_BASE for age in range(FLAP_PARTS)]


async def flaps(world: World) -> tuple[int, int]:
    """How often it was gone, and when it was the last time."""
    record = await node(world)
    return sum(tenths(record)), record.flapped_at_ms


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
    _, changes = await watch(world, disconnect(world.engine, CELL, "n1", "x", "handover"), judged=True)
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
    assert changes["outbox"] == {Event("lost", "", 0, "n1", "1-n1", "silent", T0 + 45_000): T0 + 45_000}


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


async def test_whoever_looks_sees_how_often_a_node_was_gone_within_a_while(world: World) -> None:
    await come_and_go(world, 2)
    (seen,) = await slots_in(world.engine, CELL)
    assert (seen.gone, seen.flaps) == (2, False)
    await disconnect(world.engine, CELL, "n1", "x")
    (seen,) = await slots_in(world.engine, CELL)
    assert (seen.gone, seen.flaps) == (3, True)
    world.now_ms += 60_000
    (seen,) = await slots_in(world.engine, CELL)
    assert (seen.gone, seen.flaps) == (0, False)


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
        "outbox": {Event("resting", "", 1_000, "n1", "1-n1", "flapping", T0): T0},
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
    assert (tenths(record), record.rest_until_ms) == ([31] + [0] * 9, T0 + 100)


#: What was in the first moment of a tenth is forgotten when the window is over, what was in its last a tenth sooner.
FORGOTTEN = pytest.mark.parametrize(
    ("gone_at", "after_ms", "standing"),
    [
        (TENTH, 59_999, Standing.resting),
        (TENTH, 60_000, Standing.available),
        (TENTH + 5_999, 54_000, Standing.resting),
        (TENTH + 5_999, 54_001, Standing.available),
    ],
)


@FORGOTTEN
async def test_three_times_in_more_than_the_window_are_not_three_times(
    world: World, gone_at: int, after_ms: int, standing: Standing
) -> None:
    world.now_ms = gone_at
    await come_and_go(world, 2)
    world.now_ms += 30_000
    await keep_alive(world, "n1")
    world.now_ms = gone_at + after_ms
    await disconnect(world.engine, CELL, "n1", "x")
    assert (await join(world, connection="x", epoch="1-n1")).standing == standing
    assert await flaps(world) == (3 if standing == Standing.resting else 1, world.now_ms)


@FORGOTTEN
async def test_who_stayed_away_for_the_whole_window_need_not_rest(
    world: World, gone_at: int, after_ms: int, standing: Standing
) -> None:
    world.now_ms = gone_at
    await come_and_go(world, 2)
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += after_ms
    await sweep(world)
    assert (await join(world, connection="x")).standing == standing


async def go_on_flapping(world: World, every_ms: int, times: int) -> list[int]:
    """n1 is gone for a moment so many times, at this distance; how long it had to rest after each."""
    await join(world, connection="x")
    rests = []
    for _ in range(times):
        for _ in range(2):
            world.now_ms += every_ms // 2
            await keep_alive(world, "n1")
        await disconnect(world.engine, CELL, "n1", "x")
        await join(world, connection="x")
        rests.append(max(0, (await node(world)).rest_until_ms - world.now_ms))
    return rests


@pytest.mark.parametrize("every_ms", [30_000, 50_000, 59_000])
async def test_who_is_gone_less_than_three_times_in_each_window_never_rests(world: World, every_ms: int) -> None:
    assert await go_on_flapping(world, every_ms, 10) == [0] * 10


async def test_who_is_gone_three_times_in_each_window_does_not_rest_longer_and_longer(world: World) -> None:
    assert await go_on_flapping(world, 26_000, 10) == [0, 0] + [1_000] * 8


async def test_each_time_is_remembered_by_its_tenth_of_the_window(world: World) -> None:
    world.now_ms = TENTH
    await join(world, connection="x")
    for at_ms in (0, 5_999, 6_000, 30_000, 59_999):
        world.now_ms = TENTH + at_ms
        await disconnect(world.engine, CELL, "n1", "x")
        await join(world, connection="x")
    assert tenths(await node(world)) == [1, 0, 0, 0, 1, 0, 0, 0, 1, 2]
    world.now_ms = TENTH + 66_000
    await disconnect(world.engine, CELL, "n1", "x")
    assert tenths(await node(world)) == [1, 0, 1, 0, 0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize(("window_ms", "rests"), [(1, [0] * 5), (7, [0, 0, 1_000, 2_000, 2_000])])
async def test_a_window_need_not_have_whole_tenths(make_world: MakeWorld, window_ms: int, rests: list[int]) -> None:
    """Gone once in two milliseconds, that is four times in each seven."""
    world = await make_world(Rules(flap_window_ms=window_ms))
    assert await go_on_flapping(world, 2, 5) == rests


async def test_a_clock_that_was_set_back_makes_nobody_forget(world: World) -> None:
    await come_and_go(world, 2)
    world.now_ms -= 100_000
    await disconnect(world.engine, CELL, "n1", "x")
    assert await flaps(world) == (3, T0 - 100_000)
    assert (await join(world, connection="x")).standing == Standing.resting


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


class TestSilence:
    """A node that falls silent and is heard again need not register, and rests like one that does."""

    QUICK = Rules(stale_ms=1_000, offline_ms=2_000, rest_ms=500)

    async def fall_silent(self, world: World) -> None:
        for wait_ms in (1_000, 1_000):
            world.now_ms += wait_ms
            await sweep(world)
        assert (await node(world)).standing == Standing.lost

    async def test_who_is_heard_again_for_the_third_time_rests(self, make_world: MakeWorld) -> None:
        world = await make_world(self.QUICK)
        await join(world)
        for _ in range(2):
            await self.fall_silent(world)
            assert await heartbeat(world.engine, CELL, "n1") == Beaten("1-n1", Standing.available, [])
        await self.fall_silent(world)
        now = world.now_ms
        answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1"), judged=True)
        assert answer == Beaten("1-n1", Standing.resting, [])
        rests = {"lost_at_ms": 0, "seen_at_ms": now, "rest_until_ms": now + 500, "standing": Standing.resting}
        told = {Event("resting", "", 500, "n1", "1-n1", "flapping", now): now}
        assert changes == {"nodes": {"n1": rests}, "standing": {"n1": 20}, "due": {"n:n1": now + 500}, "outbox": told}
        world.now_ms += 499
        assert await heartbeat(world.engine, CELL, "n1") == Beaten("1-n1", Standing.resting, [])
        world.now_ms += 1
        await sweep(world)
        assert (await node(world)).standing == Standing.suspect

    async def test_each_time_more_it_rests_twice_as_long(self, make_world: MakeWorld) -> None:
        world = await make_world(self.QUICK)
        await join(world)
        rests = []
        for _ in range(6):
            await self.fall_silent(world)
            await keep_alive(world, "n1")
            rests.append(max(0, (await node(world)).rest_until_ms - world.now_ms))
        assert rests == [0, 0, 500, 1_000, 2_000, 4_000]

    async def test_who_has_something_to_confirm_rests_when_it_has(self, make_world: MakeWorld) -> None:
        world = await make_world(self.QUICK)
        await join(world)
        for _ in range(2):
            await self.fall_silent(world)
            await keep_alive(world, "n1")
        await bring(world, "RUNNING")
        await self.fall_silent(world)
        await heartbeat(world.engine, CELL, "n1", running=[(A, 1)])
        record = await node(world)
        assert (record.standing, record.rest_until_ms) == (Standing.lost, 0)
        world.now_ms += 100
        _, changes = await watch(world, stopped(world.engine, A, 1, "n1"), judged=True)
        assert changes["nodes"]["n1"]["rest_until_ms"] == world.now_ms + 500
        assert changes["nodes"]["n1"]["standing"] == Standing.resting
        assert changes["due"]["n:n1"] == world.now_ms + 500


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
