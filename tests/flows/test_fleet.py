"""A cell in numbers: how its nodes stand, whose slots are taken or free, which pools there are, who waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import Waiting, dispatch
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.limit import limit
from lingua_scheduler.views import slots as slots_view
from lingua_scheduler.views.counts import read_counts
from lingua_scheduler.views.fleet import Fleet, read_fleet
from lingua_scheduler.views.pools import Pool, read_pools
from lingua_scheduler.views.slots import NodeSlots, Slots, slots_in
from tests.support.cells import watch
from tests.support.falls import yue_node, zh_node
from tests.support.pasts import doubt, give, live
from tests.support.stage import T0, A, B, C, D, bring, calls, code_of, join, keep_alive, place, sweep, wait
from tests.support.wishes import hinder
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


def standing(**numbers: int) -> dict[str, int]:
    return {name.name: numbers.get(name.name, 0) for name in Standing}


async def fleet_of(world: World) -> Fleet:
    found = await read_fleet(world.engine, CELL)
    assert isinstance(found, Fleet), found
    return found


async def pool_of(world: World, pair: str = "en:zh") -> Pool:
    found = await read_pools(world.engine, CELL, pair)
    assert isinstance(found, list), found
    (pool,) = found
    return pool


async def ask(world: World, job_id: str, src: str, tgt: str) -> None:
    answer = await dispatch(world.engine, job_id, "s1", src, tgt, seed=1, wanted=Wanted(wait_ms=30_000))
    assert isinstance(answer, Waiting), answer


async def lose(world: World, node_id: str) -> None:
    """Lose a node that has a socket `x`."""
    await disconnect(world.engine, CELL, node_id, "x")
    world.now_ms += 500
    await sweep(world)


async def test_an_empty_cell_has_nothing_of_anything(world: World) -> None:
    fleet = await fleet_of(world)
    assert fleet == Fleet(T0, standing(), Slots(0, 0, 0), [], 0, 0, fleet.counts, [])
    assert fleet.counts == await read_counts(world.engine, CELL)


async def test_a_cell_is_told_in_numbers(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=2)
    await bring(world, "RUNNING", A)
    await bring(world, "CANCELLED", B)
    await join(world, "n2", semantic_langs=["zh"], nmt_pairs=[["zh", "en"]], max_concurrent_jobs=5)
    await ask(world, C, "en", "zh")
    world.now_ms += 3
    fleet, changes = await watch(world, read_fleet(world.engine, CELL))
    assert changes == {}
    assert isinstance(fleet, Fleet)
    assert fleet == Fleet(
        now_ms=T0 + 3,
        nodes_by_standing=standing(full=1, available=1),
        slots=Slots(total=7, used=2, free=5),
        pools=[
            Pool("en:zh", 1, standing(full=1), slots=2, free=0, waiting=1),
            Pool("zh:en", 1, standing(available=1), slots=5, free=5, waiting=0),
        ],
        in_flight=1,
        waiting=1,
        counts=fleet.counts,
        nodes=fleet.nodes,
    )
    assert sorted(fleet.nodes, key=lambda node: node.node_id) == [
        NodeSlots("n1", 2, 2, 1, Standing.full),
        NodeSlots("n2", 0, 5, 2, Standing.available),
    ]
    assert (fleet.counts, fleet.counts.accepted) == (await read_counts(world.engine, CELL), 2)


@pytest.mark.parametrize("why", ["stale", "draining", "not_ready", "resting"])
async def test_slots_of_a_node_that_takes_nothing_now_are_neither_used_nor_free(world: World, why: str) -> None:
    await join(world, "n1", max_concurrent_jobs=3)
    await hinder(world, "n1", why)
    await join(world, "n2", max_concurrent_jobs=2)
    fleet = await fleet_of(world)
    used = (await world.cell()).nodes["n1"].used
    assert fleet.slots == Slots(total=5, used=used, free=2)
    assert fleet.pools == [Pool("en:zh", 2, standing(available=1, **{why: 1}), slots=5, free=2, waiting=0)]


async def test_lost_nodes_are_counted_and_their_slots_are_not(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=3, connection="x")
    await bring(world, "RUNNING")
    await lose(world, "n1")
    await join(world, "n2", max_concurrent_jobs=2)
    fleet = await fleet_of(world)
    assert fleet.nodes_by_standing == standing(lost=1, available=1)
    assert (fleet.slots, fleet.in_flight, fleet.waiting) == (Slots(total=2, used=1, free=1), 1, 0)
    assert fleet.pools == [Pool("en:zh", 2, standing(lost=1, available=1), slots=2, free=1, waiting=0)]


async def test_slots_of_suspects_can_be_taken(world: World) -> None:
    await join(world, max_concurrent_jobs=3)
    await doubt(world, "n1")
    await give(world, "n1")
    assert await pool_of(world) == Pool("en:zh", 1, standing(suspect=1), slots=3, free=2, waiting=0, suspects=1)


async def test_a_suspect_that_is_tried_with_a_job_stands_as_available_and_is_a_suspect(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=2)
    await join(world, "n2", max_concurrent_jobs=1)
    await doubt(world, "n1", "n2")
    await give(world, "n2")
    world.now_ms += 5_000
    await keep_alive(world, "n1", "n2")
    await sweep(world)
    fleet = await fleet_of(world)
    stand = {node.node_id: (node.standing, node.is_suspect, node.is_doubted) for node in fleet.nodes}
    assert stand == {"n1": (Standing.available, True, True), "n2": (Standing.suspect_full, True, True)}
    assert [(pool.living, pool.suspects) for pool in fleet.pools] == [(2, 2)]
    await drain(world.engine, CELL, "n2")
    fleet = await fleet_of(world)
    stand = {node.node_id: (node.standing, node.is_suspect, node.is_doubted) for node in fleet.nodes}
    assert stand["n2"] == (Standing.draining, True, False)
    assert [(pool.living, pool.suspects) for pool in fleet.pools] == [(1, 1)]
    # One job well done of three is enough.
    await live(world, "n1", "...")
    assert [(pool.living, pool.suspects) for pool in (await fleet_of(world)).pools] == [(1, 0)]


async def test_slots_of_a_node_that_serves_nothing_cannot_be_taken(world: World) -> None:
    await join(world, nmt_pairs=[], max_concurrent_jobs=3)
    fleet = await fleet_of(world)
    assert (fleet.nodes_by_standing, fleet.slots) == (standing(available=1), Slots(total=3, used=0, free=0))
    assert fleet.pools == []


async def test_what_a_node_holds_above_its_slots_is_used_and_makes_nothing_less_than_free(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=3)
    for job_id in (A, B, C):
        await place(world, job_id)
    await limit(world.engine, CELL, "n1", 1)
    await join(world, "n2", max_concurrent_jobs=2)
    assert (await fleet_of(world)).slots == Slots(total=3, used=3, free=2)


async def test_whoever_waits_is_counted_once_and_under_the_pair_that_it_asked_for(world: World) -> None:
    await join(world, "any", semantic_langs=["en"], nmt_pairs="any", health="degraded")
    await join(world, "n1", health="degraded")
    await ask(world, A, "en", "zh")
    await ask(world, B, "en", "fr")
    await wait(world, {C: 60_000, D: 50_000}, "zh:en")
    await join(world, "n2", semantic_langs=["zh"], nmt_pairs=[["zh", "en"]], health="degraded")
    fleet = await fleet_of(world)
    assert {pool.pair: pool.waiting for pool in fleet.pools} == {"en:*": 2, "en:zh": 1, "zh:en": 2}
    assert (fleet.waiting, fleet.in_flight) == (4, 0)
    assert (await pool_of(world, "en:fr")).waiting == 1
    assert (await pool_of(world, "en:de")).waiting == 0
    await cancel(world.engine, B)
    assert (await pool_of(world, "en:fr")).waiting == 0


async def test_languages_are_told_apart_when_one_s_name_begins_another_s(world: World) -> None:
    for node_id, languages in (("n1", ["fi", "en"]), ("n2", ["fil", "en"])):
        await join(world, node_id, semantic_langs=languages, nmt_pairs="any", health="degraded")
    await ask(world, A, "fil", "de")
    found = await read_pools(world.engine, CELL)
    assert isinstance(found, list)
    assert {pool.pair: pool.waiting for pool in found} == {"en:*": 0, "fi:*": 0, "fil:*": 1}


async def test_whoever_may_fall_back_waits_for_its_own_pair(world: World) -> None:
    await yue_node(world, health="degraded")
    await zh_node(world, health="degraded")
    await ask(world, A, "yue", "en")
    fleet = await fleet_of(world)
    assert ({pool.pair: pool.waiting for pool in fleet.pools}, fleet.waiting) == ({"yue:en": 1, "zh:en": 0}, 1)


async def test_no_job_both_has_a_node_and_waits_for_one(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await bring(world, "RUNNING", A)
    await ask(world, B, "en", "zh")
    await heartbeat(world.engine, CELL, "n1", running=[(A, 1), (f"{CELL}.ghost", 1)])
    fleet = await fleet_of(world)
    assert (fleet.in_flight, fleet.waiting, fleet.slots) == (1, 1, Slots(total=1, used=2, free=0))


async def test_all_pages_are_counted_and_no_node_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine cuts a hash in pages once a record in it is long."""
    monkeypatch.setattr(slots_view, "NODES_PER_PAGE", 40)
    names = {f"n{number}" for number in range(100)}
    await asyncio.gather(*(join(world, name, nonce="x" * 100) for name in names))
    before = (await calls(world))["hscan"]
    found = await slots_in(world.engine, CELL)
    assert 1 < (await calls(world))["hscan"] - before < 5
    assert sorted(node.node_id for node in found) == sorted(names)
    assert {(node.used, node.max, node.group, node.standing) for node in found} == {(0, 2, 1, Standing.available)}
    assert (await fleet_of(world)).slots == Slots(total=200, used=0, free=200)


async def test_pages_asked_for_in_one_tick_are_not_mixed_up(world: World) -> None:
    await join(world)
    await place(world)
    one, two = await asyncio.gather(slots_in(world.engine, CELL), slots_in(world.engine, CELL))
    assert one == two == [NodeSlots("n1", 1, 2, 1, Standing.available)]
    fleets = await asyncio.gather(fleet_of(world), fleet_of(world))
    assert fleets[0] == fleets[1]


async def test_a_cell_that_cannot_be_right_never_reaches_the_engine(world: World) -> None:
    assert code_of(await read_fleet(world.engine, "C")) == "INVALID_MESSAGE"
