"""When more than half of a fleet is silent, it is rather we who do not hear: nobody is given up for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import GONE_FROM, Event, Standing
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.overhear import Overheard, overhear
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.views.silence import Silence, read_silence
from tests.support.cells import watch
from tests.support.stage import T0, A, B, bring, calls, join, keep_alive, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.cell import Cell
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

#: When nodes that were last heard as the test began are silent, and when they are given up.
OFFLINE_MS = 45_000
STALE, OFFLINE = T0 + 35_000, T0 + OFFLINE_MS


async def fall_silent(world: World, silent: int, heard: int) -> tuple[list[str], list[str]]:
    """A fleet of which so many, s0, s1, …, are silent since T0, and so many, n0, n1, …, are not. It is OFFLINE."""
    quiet, loud = [f"s{number}" for number in range(silent)], [f"n{number}" for number in range(heard)]
    await asyncio.gather(*(join(world, node_id, connection=node_id) for node_id in quiet + loud))
    await grow_old(world, *loud)
    return quiet, loud


async def grow_old(world: World, *heard: str) -> None:
    """OFFLINE has come; those who were not heard meanwhile are known to be silent."""
    world.now_ms = STALE
    await keep_alive(world, *heard)
    await sweep(world)
    world.now_ms = OFFLINE


def standing(cell: Cell, *node_ids: str) -> set[Standing]:
    return {Standing(cell.nodes[node_id].standing) for node_id in node_ids}


def alarms(cell: Cell) -> list[Event]:
    return [event for event, _ in cell.outbox if event.kind == "mass_silence"]


async def test_nobody_is_given_up_and_somebody_is_told(world: World) -> None:
    await fall_silent(world, 4, 2)
    answer, changes = await watch(world, sweep(world), judged=True)
    assert answer == Settled(4, False)
    assert changes == {
        "due": {f"n:s{number}": OFFLINE + 1_000 for number in range(4)},
        "outbox": {Event("mass_silence", "", 4, "", "", "2", OFFLINE): OFFLINE},
        "counts": {"silence": OFFLINE},
    }


@pytest.mark.parametrize(
    ("silent", "heard", "others", "given_up"),
    [
        (4, 0, (0, 0), 4),
        (4, 0, (1, 0), 0),
        (4, 6, (2, 0), 4),
        (4, 6, (3, 0), 0),
        (5, 0, (0, 5), 5),
        (5, 0, (0, 4), 0),
    ],
)
async def test_those_of_other_cells_count_as_much(
    world: World, silent: int, heard: int, others: tuple[int, int], given_up: int
) -> None:
    """More than half of the fleet, and not of the cell that is looked at."""
    await fall_silent(world, silent, heard)
    assert await overhear(world.engine, CELL, *others) == Overheard()
    await sweep(world)
    cell = await world.cell()
    assert sum(node.lost_at_ms > 0 for node in cell.nodes.values()) == given_up
    seen = [(event.attempt, event.detail) for event in alarms(cell)]
    assert seen == ([] if given_up else [(silent + others[0], str(heard + others[1]))])


@pytest.mark.parametrize(("later_ms", "given_up"), [(19_999, 0), (20_000, 4)])
async def test_what_was_told_of_others_counts_for_a_while(world: World, later_ms: int, given_up: int) -> None:
    await fall_silent(world, 4, 0)
    await overhear(world.engine, CELL, 3, 0)
    world.now_ms += later_ms
    await sweep(world)
    assert sum(node.lost_at_ms > 0 for node in (await world.cell()).nodes.values()) == given_up


@pytest.mark.parametrize(
    ("silent", "heard", "given_up"),
    [(3, 3, True), (4, 4, True), (4, 3, False), (3, 2, False), (2, 3, True), (5, 0, False), (4, 0, True), (3, 1, True)],
)
async def test_more_than_half_of_five_or_more_must_be_silent(
    world: World, silent: int, heard: int, given_up: bool
) -> None:
    """Exactly half of them is no mass silence, and four nodes are no mass."""
    quiet, loud = await fall_silent(world, silent, heard)
    await sweep(world)
    cell = await world.cell()
    assert standing(cell, *quiet) == {Standing.lost if given_up else Standing.stale}
    assert standing(cell, *loud) <= {Standing.available}
    assert len(alarms(cell)) == (0 if given_up else 1)


@pytest.mark.parametrize(("silent", "given_up"), [(1, True), (2, False)])
async def test_how_many_nodes_are_a_mass_is_a_setting(make_world: MakeWorld, silent: int, given_up: bool) -> None:
    world = await make_world(Rules(mass_silence_nodes=2))
    quiet, _ = await fall_silent(world, silent, 0)
    await sweep(world)
    assert standing(await world.cell(), *quiet) == {Standing.lost if given_up else Standing.stale}


async def test_who_is_lost_already_is_neither_silent_nor_heard(world: World) -> None:
    """Two are lost: of the other five, two are silent and three are heard."""
    names = [f"n{number}" for number in range(7)]
    await asyncio.gather(*(join(world, node_id, connection=node_id) for node_id in names))
    await lose(world, "n0", "n1")
    await grow_old(world, "n4", "n5", "n6")
    await sweep(world)
    assert standing(await world.cell(), "n2", "n3") == {Standing.lost}


async def test_who_is_lost_already_does_not_outnumber_the_silent(world: World) -> None:
    """Four are lost: of the other five, three are silent and two are heard."""
    names = [f"n{number}" for number in range(9)]
    await asyncio.gather(*(join(world, node_id, connection=node_id) for node_id in names))
    await lose(world, *names[:4])
    await grow_old(world, "n7", "n8")
    await sweep(world)
    cell = await world.cell()
    assert standing(cell, "n4", "n5", "n6") == {Standing.stale}
    assert alarms(cell) == [Event("mass_silence", "", 3, "", "", "2", OFFLINE)]


async def lose(world: World, *node_ids: str) -> None:
    for node_id in node_ids:
        await disconnect(world.engine, CELL, node_id, node_id)
    world.now_ms += 500
    await sweep(world)


async def test_all_nodes_count_whatever_they_can_do_and_however_they_stand(world: World) -> None:
    """Silent are one of each of three kinds; heard are one that is drained and one that serves nothing."""
    await join(world, "s0")
    await join(world, "s1", tts_langs=["zh"])
    await join(world, "s2", nmt_pairs=[["zh", "en"]])
    await join(world, "n0")
    await join(world, "n1", nmt_pairs=[])
    await drain(world.engine, CELL, "n0")
    await grow_old(world, "n0", "n1")
    await sweep(world)
    assert alarms(await world.cell()) == [Event("mass_silence", "", 3, "", "", "2", OFFLINE)]


async def test_a_silent_node_that_serves_nothing_is_silent(world: World) -> None:
    for number in range(5):
        await join(world, f"s{number}", nmt_pairs=[])
    await grow_old(world)
    await sweep(world)
    assert alarms(await world.cell()) == [Event("mass_silence", "", 5, "", "", "0", OFFLINE)]


@pytest.mark.parametrize(("silent", "heard"), [(5, 0), (40, 0), (40, 41)])
async def test_however_many_are_judged_a_sweep_counts_them_once(world: World, silent: int, heard: int) -> None:
    """Also if it is no mass silence, and they are given up."""
    await fall_silent(world, silent, heard)
    before = await calls(world)
    assert (await sweep(world)).number >= silent
    assert (await calls(world) - before)["hrandfield"] == 1
    assert standing(await world.cell(), "s0", f"s{silent - 1}") == {Standing.lost if heard else Standing.stale}


async def test_each_sweep_counts_anew(world: World) -> None:
    await fall_silent(world, 5, 0)
    for _ in range(3):
        before = await calls(world)
        assert await sweep(world) == Settled(5, False)
        assert (await calls(world) - before)["hrandfield"] == 1
        world.now_ms += 1_000


@pytest.mark.parametrize("silent", [11, 12, 15, 16])
async def test_who_falls_silent_at_once_was_not_heard_last_at_once(world: World, silent: int) -> None:
    """Of twenty nodes that beat every 15 s, so many are cut off in one moment; they were heard up to 15 s apart."""
    quiet, loud = [f"s{number}" for number in range(silent)], [f"n{number}" for number in range(20 - silent)]
    await asyncio.gather(*(join(world, node_id) for node_id in quiet + loud))
    for number, node_id in enumerate(quiet):
        world.now_ms = T0 + 15_000 * number // silent
        await keep_alive(world, node_id)
    for after_ms in range(0, 46_000, 1_000):
        world.now_ms = T0 + 15_000 + after_ms
        if after_ms % 15_000 == 0:
            await keep_alive(world, *loud)
        await sweep(world)
    cell = await world.cell()
    assert standing(cell, *quiet) == {Standing.stale}
    assert alarms(cell) == [Event("mass_silence", "", silent, "", "", str(20 - silent), T0 + OFFLINE_MS)]


@pytest.mark.parametrize(("ago_ms", "given_up"), [(21_999, True), (22_000, False)])
async def test_two_thirds_of_what_makes_a_node_stale_are_silence_enough(
    make_world: MakeWorld, ago_ms: int, given_up: bool
) -> None:
    """Three of six, and one more whose last word is so long ago."""
    world = await make_world(Rules(stale_ms=33_000))
    await asyncio.gather(*(join(world, f"s{number}") for number in range(3)), join(world, "late"))
    await asyncio.gather(*(join(world, f"n{number}") for number in range(3)))
    world.now_ms = OFFLINE - ago_ms
    await keep_alive(world, "late")
    await grow_old(world, "n0", "n1", "n2")
    await sweep(world)
    assert standing(await world.cell(), "s0", "s1", "s2") == {Standing.lost if given_up else Standing.stale}


@pytest.mark.parametrize(("silent", "deaf"), [(250, False), (450, True)])
async def test_a_large_cell_is_judged_by_a_sample(world: World, silent: int, deaf: bool) -> None:
    """So many of 600: far enough from a half. What is told of it is told of all."""
    quiet, loud = [f"s{number}" for number in range(silent)], [f"n{number}" for number in range(600 - silent)]
    await asyncio.gather(*(join(world, node_id) for node_id in quiet + loud))
    await grow_old(world, *loud)
    seen = await read_silence(world.engine, CELL)
    assert isinstance(seen, Silence)
    assert abs(seen.silent - silent) < 100
    assert abs(seen.heard - (600 - silent)) < 100
    while (await sweep(world)).more:
        pass
    cell = await world.cell()
    assert [event.attempt > 300 for event in alarms(cell)] == [True] * deaf
    assert standing(cell, *quiet) == {Standing.stale if deaf else Standing.lost}


async def test_each_of_them_counts_once_for_the_sweep(world: World) -> None:
    await fall_silent(world, 5, 0)
    assert await reap(world.engine, CELL, 5) == Settled(5, False)


async def test_it_is_told_once_a_minute(world: World) -> None:
    await fall_silent(world, 5, 0)
    for after_ms in (0, 1_000, 30_000, 59_999):
        world.now_ms = OFFLINE + after_ms
        await sweep(world)
        assert len(alarms(await world.cell())) == 1
    world.now_ms = OFFLINE + 61_000
    _, changes = await watch(world, sweep(world), judged=True)
    now = OFFLINE + 61_000
    assert changes == {
        "due": {f"n:s{number}": now + 1_000 for number in range(5)},
        "outbox": {Event("mass_silence", "", 5, "", "", "0", now): now},
        "counts": {"silence": now},
    }


@pytest.mark.parametrize(("looks", "told"), [((58_999, 59_999), 1), ((59_000, 60_000), 2)])
async def test_the_minute_is_exact(world: World, looks: tuple[int, ...], told: int) -> None:
    await fall_silent(world, 5, 0)
    for after_ms in (0, *looks):
        world.now_ms = OFFLINE + after_ms
        assert await sweep(world) == Settled(5, False)
    assert len(alarms(await world.cell())) == told


async def test_it_is_looked_at_again_after_a_second(world: World) -> None:
    await fall_silent(world, 5, 0)
    await sweep(world)
    world.now_ms += 999
    assert await watch(world, sweep(world), judged=True) == (Settled(0, False), {})
    world.now_ms += 1
    assert await sweep(world) == Settled(5, False)


async def test_when_enough_are_heard_the_others_are_given_up(world: World) -> None:
    """Of four silent ones in six, one is heard: three of six are no mass, and are lost within a second."""
    await fall_silent(world, 4, 2)
    await sweep(world)
    await keep_alive(world, "s0")
    cell = await world.cell()
    assert standing(cell, "s0") == {Standing.available}
    assert standing(cell, "s1", "s2", "s3") == {Standing.stale}
    world.now_ms += 1_000
    await sweep(world)
    cell = await world.cell()
    assert standing(cell, "s1", "s2", "s3") == {Standing.lost}
    assert [event.node for event, _ in cell.outbox if event.kind == "lost"] == ["s1", "s2", "s3"]


async def test_when_all_are_heard_they_serve_at_once(world: World) -> None:
    quiet, loud = await fall_silent(world, 4, 2)
    await sweep(world)
    await keep_alive(world, *quiet)
    cell = await world.cell()
    assert standing(cell, *quiet, *loud) == {Standing.available}
    assert cell.room == {1: 6}
    assert {cell.nodes[node_id].flaps for node_id in quiet} == {0}
    assert {cell.nodes[node_id].recent for node_id in quiet} == {0}


async def test_any_word_of_a_silent_node_is_heard(world: World) -> None:
    await join(world, "s0")
    await bring(world, "DISPATCHED", limits=Limits(ack_ms=80_000, run_ms=80_000, timeout_ms=80_000))
    await fall_silent(world, 4, 1)
    await sweep(world)
    await ack(world.engine, A, 1, "s0")
    await sweep(world)
    assert standing(await world.cell(), "s0") == {Standing.available}


async def test_work_stays_with_silent_nodes_and_new_work_does_not_go_to_them(world: World) -> None:
    await join(world, "s0")
    await bring(world, "RUNNING", limits=Limits(run_ms=80_000, timeout_ms=80_000))
    await fall_silent(world, 5, 0)
    await sweep(world)
    cell = await world.cell()
    assert (cell.jobs[A].state, cell.jobs[A].node, cell.jobs[A].attempt) == ("RUNNING", "s0", 1)
    answer = await dispatch(world.engine, B, "s1", "en", "zh")
    assert isinstance(answer, Refusal)
    assert answer.breakdown == Breakdown(pool=5, stale=5)


async def test_a_job_s_own_time_goes_on(world: World) -> None:
    """It is late, whether we hear or not."""
    await join(world, "s0")
    await bring(world, "RUNNING", limits=Limits(run_ms=44_000, max_retry=0))
    await fall_silent(world, 5, 0)
    await sweep(world)
    assert (await world.cell()).jobs[A].past.attempts[0].cause == "run_timeout"


async def test_we_may_be_deaf_but_not_for_ever(make_world: MakeWorld) -> None:
    world = await make_world(Rules(mass_silence_ms=20_000))
    quiet, _ = await fall_silent(world, 5, 0)
    await sweep(world)
    world.now_ms = OFFLINE + 19_999
    await sweep(world)
    assert standing(await world.cell(), *quiet) == {Standing.stale}
    world.now_ms = OFFLINE + 20_999
    _, changes = await watch(world, sweep(world), judged=True)
    now = world.now_ms
    assert changes == {
        "nodes": {
            node_id: {
                "lost_at_ms": now,
                "standing": Standing.lost,
                "flaps": 1,
                "flapped_at_ms": now,
                "recent": 1,
            }
            for node_id in quiet
        },
        "standing": dict.fromkeys(quiet, 24),
        "due": {f"n:{node_id}": GONE_FROM + now + 3_600_000 for node_id in quiet},
        "outbox": {Event("lost", "", 0, node_id, epoch, "silent", now): now for node_id, epoch in await epochs(world)},
    }


async def epochs(world: World) -> list[tuple[str, str]]:
    return [(node_id, node.epoch) for node_id, node in (await world.cell()).nodes.items()]


@pytest.mark.parametrize(("after_ms", "lost"), [(599_999, False), (600_000, True)])
async def test_ten_minutes_are_the_bound_and_count_from_when_each_would_have_been_given_up(
    world: World, after_ms: int, lost: bool
) -> None:
    quiet, _ = await fall_silent(world, 5, 0)
    world.now_ms = OFFLINE + after_ms
    await sweep(world)
    assert standing(await world.cell(), *quiet) == {Standing.lost if lost else Standing.stale}


async def test_none_at_all_is_a_setting_too(make_world: MakeWorld) -> None:
    world = await make_world(Rules(mass_silence_ms=0))
    quiet, _ = await fall_silent(world, 5, 0)
    await sweep(world)
    cell = await world.cell()
    assert standing(cell, *quiet) == {Standing.lost}
    assert alarms(cell) == []


async def test_a_sweep_that_comes_late_sees_how_many_are_silent_before_it_judges_any(world: World) -> None:
    """Nobody has looked for minutes: first all are called silent, and then it is seen to be a mass silence."""
    names = [f"n{number}" for number in range(6)]
    await asyncio.gather(*(join(world, node_id) for node_id in names))
    world.now_ms += 300_000
    answer, changes = await watch(world, sweep(world), judged=True)
    assert answer == Settled(6, True)
    assert changes == {
        "nodes": {node_id: {"standing": Standing.stale} for node_id in names},
        "standing": dict.fromkeys(names, 23),
        "room": {1: 0},
        "due": {f"n:{node_id}": world.now_ms for node_id in names},
    }
    answer, changes = await watch(world, sweep(world), judged=True)
    assert answer == Settled(6, False)
    assert changes.keys() == {"due", "outbox", "counts"}
    await keep_alive(world, *names)
    assert (await world.cell()).room == {1: 6}


async def test_more_than_one_sweep_sees_are_all_called_silent_before_any_is_judged(world: World) -> None:
    """They were last heard in the course of half a minute, and one look settles fewer than there are."""
    for number in range(150):
        world.now_ms = T0 + 200 * number
        await join(world, f"n{number}")
    world.now_ms = T0 + 300_000
    for _ in range(10):
        await reap(world.engine, CELL, 40)
    cell = await world.cell()
    assert {node.standing for node in cell.nodes.values()} == {Standing.stale}
    assert len(alarms(cell)) == 1


async def test_a_late_sweep_by_a_dispatch_is_no_different(world: World) -> None:
    names = [f"n{number}" for number in range(6)]
    await asyncio.gather(*(join(world, node_id) for node_id in names))
    world.now_ms += 300_000
    answer = await dispatch(world.engine, A, "s1", "en", "zh")
    assert isinstance(answer, Refusal)
    assert answer.breakdown == Breakdown(pool=6, stale=6)
    assert len(alarms(await world.cell())) == 1


async def test_a_single_silent_node_is_called_so_before_it_is_given_up(world: World) -> None:
    await join(world)
    world.now_ms += 45_000
    for answer, found in ((Settled(1, True), Standing.stale), (Settled(1, False), Standing.lost)):
        assert await sweep(world) == answer
        assert standing(await world.cell(), "n1") == {found}


async def fall_deaf(world: World, quiet: int, loud: int, apart_ms: int = 1_000) -> tuple[list[str], list[str]]:
    """So many nodes do not answer on their sockets, one after the other; so many do."""
    names = [f"s{number}" for number in range(quiet)], [f"n{number}" for number in range(loud)]
    await asyncio.gather(*(join(world, node_id, connection=node_id) for node_id in [*names[0], *names[1]]))
    for node_id in names[0]:
        world.now_ms += apart_ms
        await disconnect(world.engine, CELL, node_id, node_id, "unheard")
    return names


async def test_nodes_that_do_not_answer_on_their_sockets_are_silent_at_once(world: World) -> None:
    await join(world, "s0", connection="s0")
    await bring(world, "RUNNING")
    world.now_ms += 7
    _, changes = await watch(world, disconnect(world.engine, CELL, "s0", "s0", "unheard"))
    until = T0 + 7 + 10_000
    assert changes == {
        "nodes": {"s0": {"standing": Standing.stale, "away_until_ms": until, "unheard": 1}},
        "standing": {"s0": 23},
        "room": {1: 0},
        "due": {"n:s0": until},
    }


@pytest.mark.parametrize(("silent", "heard", "given_up"), [(3, 3, True), (4, 3, False), (3, 2, False), (4, 0, True)])
async def test_more_than_half_do_not_answer_on_their_sockets(
    world: World, silent: int, heard: int, given_up: bool
) -> None:
    """The first of them has its time until the last could be asked: then it is seen how many there are."""
    quiet, loud = await fall_deaf(world, silent, heard)
    world.now_ms = T0 + 11_000
    await sweep(world)
    cell = await world.cell()
    assert standing(cell, quiet[0]) == {Standing.lost if given_up else Standing.stale}
    assert standing(cell, *quiet[1:]) == {Standing.stale}
    assert standing(cell, *loud) <= {Standing.available}
    assert [(event.attempt, event.detail) for event in alarms(cell)] == ([] if given_up else [(silent, str(heard))])


async def test_who_does_not_answer_on_its_socket_is_given_up_as_silent(world: World) -> None:
    await fall_deaf(world, 1, 0)
    world.now_ms = T0 + 10_999
    await sweep(world)
    assert standing(await world.cell(), "s0") == {Standing.stale}
    world.now_ms += 1
    await sweep(world)
    cell = await world.cell()
    node = cell.nodes["s0"]
    assert (node.lost_at_ms, node.flaps, node.recent) == (world.now_ms, 1, 1)
    assert [event.detail for event, _ in cell.outbox if event.kind == "lost"] == ["silent"]


@pytest.mark.parametrize(("told_ms", "given_up"), [(11_000, True), (10_999, False)])
async def test_what_other_cells_said_before_its_time_was_over_is_not_enough(
    world: World, told_ms: int, given_up: bool
) -> None:
    """They are asked seldom, and a socket's silence is short: whoever is judged waits until they are heard of anew."""
    [quiet], _ = await fall_deaf(world, 1, 0)
    world.now_ms = T0 + told_ms
    await overhear(world.engine, CELL, 4, 5)
    world.now_ms = T0 + 11_000
    await sweep(world)
    cell = await world.cell()
    assert standing(cell, quiet) == {Standing.lost if given_up else Standing.stale}
    assert alarms(cell) == []
    assert given_up or cell.due[f"n:{quiet}"] == T0 + 12_000


@pytest.mark.parametrize(("later_ms", "given_up"), [(19_999, False), (20_000, True)])
async def test_other_cells_are_not_waited_for_for_ever(world: World, later_ms: int, given_up: bool) -> None:
    [quiet], _ = await fall_deaf(world, 1, 0)
    await overhear(world.engine, CELL, 4, 5)
    world.now_ms += later_ms
    await sweep(world)
    assert standing(await world.cell(), quiet) == {Standing.lost if given_up else Standing.stale}


@pytest.mark.parametrize("ping_ms", [10_000, 30_000])
async def test_nobody_is_judged_before_all_sockets_were_asked(make_world: MakeWorld, ping_ms: int) -> None:
    """Of twenty, eleven are cut off in one moment: the first is asked at once, the last only after a whole interval."""
    world = await make_world(Rules(ping_interval_ms=ping_ms))
    quiet, loud = [f"s{number}" for number in range(11)], [f"n{number}" for number in range(9)]
    await asyncio.gather(*(join(world, node_id, connection=node_id) for node_id in quiet + loud))
    for number, node_id in enumerate(quiet):
        world.now_ms = T0 + ping_ms * number // 10
        await keep_alive(world, *loud)
        await disconnect(world.engine, CELL, node_id, node_id, "unheard")
        await sweep(world)
    cell = await world.cell()
    assert standing(cell, *quiet) == {Standing.stale}
    assert alarms(cell) == [Event("mass_silence", "", 11, "", "", "9", T0 + ping_ms)]


@pytest.mark.parametrize(("after_ms", "lost"), [(599_999, False), (600_000, True)])
async def test_the_bound_counts_from_the_end_of_the_grace_of_a_socket(world: World, after_ms: int, lost: bool) -> None:
    quiet, _ = await fall_deaf(world, 5, 0, apart_ms=0)
    world.now_ms = T0 + 10_000 + after_ms
    await sweep(world)
    assert standing(await world.cell(), *quiet) == {Standing.lost if lost else Standing.stale}


@pytest.mark.parametrize("says_what_it_runs", [True, False])
async def test_who_comes_back_by_another_socket_in_a_mass_silence_goes_on(
    world: World, says_what_it_runs: bool
) -> None:
    epoch = (await join(world, "s0", connection="s0")).epoch
    await bring(world, "RUNNING", limits=Limits(run_ms=80_000, timeout_ms=80_000))
    await fall_deaf(world, 5, 0)
    world.now_ms = T0 + 40_000
    await sweep(world)
    said = {"epoch": epoch, "running": [(A, 1)]} if says_what_it_runs else {}
    answer = await join(world, "s0", connection="again", **said)
    assert answer.how == ("RESYNC" if says_what_it_runs else "CONTINUED")
    cell = await world.cell()
    node = cell.nodes["s0"]
    assert (node.standing, node.away_until_ms, node.unheard) == (Standing.available, 0, 0)
    assert (cell.jobs[A].state, cell.jobs[A].node, cell.jobs[A].attempt) == ("RUNNING", "s0", 1)


async def test_a_job_of_a_node_that_does_not_answer_is_late_as_any_other(world: World) -> None:
    """Whether it is in a grace or silent is not known: what it was given time for goes on, here and behind it."""
    await join(world, "s0", connection="s0")
    await bring(world, "RUNNING", limits=Limits(run_ms=5_000, max_retry=0))
    await fall_deaf(world, 1, 0)
    world.now_ms = T0 + 5_000
    await sweep(world)
    assert (await world.cell()).jobs[A].past.attempts[0].cause == "run_timeout"


async def test_who_comes_back_as_another_process_was_gone_once(world: World) -> None:
    await join(world, "s0", connection="s0", process_id="p")
    await disconnect(world.engine, CELL, "s0", "s0", "unheard")
    await join(world, "s0", connection="again", process_id="q")
    assert (await world.cell()).nodes["s0"].flaps == 1


async def test_sockets_that_close_are_no_silence(world: World) -> None:
    """All of them at once: each is given up when its grace is over."""
    names = [f"n{number}" for number in range(6)]
    await asyncio.gather(*(join(world, node_id, connection=node_id) for node_id in names))
    await lose(world, *names)
    cell = await world.cell()
    assert standing(cell, *names) == {Standing.lost}
    assert alarms(cell) == []
