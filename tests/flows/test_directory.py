"""assign_home, vacate, forget_home, enter_homes, route, unroute: which node is in which cell, and who serves what."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from lingua_scheduler.core.records import DEPARTED_MS, FORGET_FROM, Home
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.assign_home import Home as Assigned
from lingua_scheduler.flows.assign_home import assign_home
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.enter_homes import HomesEntered, enter_homes
from lingua_scheduler.flows.forget_home import Forgotten, forget_home
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.flows.route import Routed, route
from lingua_scheduler.flows.unroute import Unrouted, unroute
from lingua_scheduler.flows.vacate import Occupied, Vacated, vacate
from lingua_scheduler.store.keys import DIRECTORY, cell_key
from lingua_scheduler.views.home import HomeView, Nowhere, read_home
from lingua_scheduler.views.homes import Homes, read_homes
from lingua_scheduler.views.room import Room, read_room
from lingua_scheduler.views.routes import RoutedPairs, Routes, read_routed, read_routes
from tests.support.cells import watch
from tests.support.stage import PLAIN, T0, code_of, join, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

SMALL = Rules(cell_capacity=2)


async def assign(world: World, node_id: str, *pairs: str, full: Assigned | None = None) -> Assigned:
    home = await assign_home(world.engine, node_id, pairs, full=full)
    assert isinstance(home, Assigned), home
    return home


async def settle(world: World, node_id: str, *pairs: str) -> str:
    """The cell into which a node comes, if a cell that is full by the directory's count is really full."""
    home = await assign(world, node_id, *pairs)
    if dict((await read_routes(world.engine)).cells)[home.cell] > world.rules.cell_capacity:
        home = await assign(world, node_id, *pairs, full=home)
    return home.cell


async def cells(world: World) -> dict[str, int]:
    """How many nodes are at home in each cell; that must be what the homes say."""
    counted = dict((await read_routes(world.engine)).cells)
    page = await read_homes(world.engine, count=1_000)
    assert isinstance(page, Homes)
    homes = [home.cell for _, home in page.homes]
    assert {cell: homes.count(cell) for cell in counted} == counted
    assert set(homes) <= counted.keys()
    return counted


async def kept(world: World, name: str) -> dict[str, Any]:
    flat = await world.engine.command("HGETALL", cell_key(world.engine.prefix, DIRECTORY, name), cell=DIRECTORY)
    return {key.decode(): value for key, value in zip(flat[::2], flat[1::2], strict=True)}


async def enter(world: World, home: Assigned, node_id: str = "n1") -> Registered | str:
    answer = await register(world.engine, home.cell, node_id, stamp=home.stamp, **PLAIN, nonce=node_id)
    return answer if isinstance(answer, Registered) else answer.code


async def test_the_first_node_opens_the_first_cell_and_whoever_asks_again_is_told_the_same(world: World) -> None:
    assert await read_routes(world.engine) == Routes(0, [], [])
    assert await read_home(world.engine, "n1") == Nowhere()
    assert await assign(world, "n1") == Assigned("c0", T0, is_new=True)
    assert await read_home(world.engine, "n1") == HomeView("c0", T0)
    assert await read_routes(world.engine) == Routes(1, [("c0", 1)], [])
    assert await assign(world, "n1") == Assigned("c0", T0 + 1)
    assert await read_home(world.engine, "n1") == HomeView("c0", T0 + 1)
    assert await read_routes(world.engine) == Routes(1, [("c0", 1)], [])


async def test_each_stamp_is_greater_than_the_last_even_if_time_stands_or_goes_back(world: World) -> None:
    homes = await asyncio.gather(*(assign(world, node_id) for node_id in ("a", "b", "a")))
    assert [home.stamp for home in homes] == [T0, T0 + 1, T0 + 2]
    world.now_ms -= 1_000
    assert (await assign(world, "a")).stamp == T0 + 3
    world.now_ms += 5_000
    assert (await assign(world, "a")).stamp == T0 + 4_000
    assert msgspec.msgpack.decode((await kept(world, "homes"))["b"], type=Home) == Home("c0", T0 + 1)


async def test_a_fleet_that_outgrows_its_cells_gets_another_without_an_operator(make_world: MakeWorld) -> None:
    world = await make_world(SMALL)
    homes = [await settle(world, f"n{number}") for number in range(5)]
    assert homes == ["c0", "c0", "c1", "c1", "c2"]
    assert await cells(world) == {"c0": 2, "c1": 2, "c2": 1}
    assert (await read_routes(world.engine)).version == 3
    # Who is at home stays there, however full it is.
    assert [(await assign(world, f"n{number}")).cell for number in range(5)] == homes
    assert await cells(world) == {"c0": 2, "c1": 2, "c2": 1}


async def test_the_cells_of_a_fleet_are_named_like_its_first(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=1))

    async def named(first: str, node_id: str) -> str:
        full = await assign_home(world.engine, node_id, first=first)
        assert isinstance(full, Assigned)
        home = await assign_home(world.engine, node_id, first=first, full=full)
        return home.cell if isinstance(home, Assigned) else home.code

    assert await assign_home(world.engine, "n0", first="main") == Assigned("main", T0, is_new=True)
    assert [await named("main", f"n{number}") for number in (1, 2)] == ["main0", "main1"]
    assert [await named("abcdefghijklmnop", f"m{number}") for number in (1, 2)] == ["abcdefghijklmnop", "abcdefghij0"]


async def test_a_full_cell_is_tried_before_another_is_opened_for_there_may_be_places_of_the_gone(
    make_world: MakeWorld,
) -> None:
    world = await make_world(Rules(cell_capacity=1))
    await join(world, "gone", connection="x")
    await route(world.engine, CELL, ["en:zh"])
    await assign(world, "gone")
    await disconnect(world.engine, CELL, "gone", "x")
    world.now_ms += 1_000
    await sweep(world)
    home = await assign(world, "n1", "en:zh")
    assert home.cell == CELL
    assert isinstance(await enter(world, home), Registered)
    assert (await world.cell()).nodes.keys() == {"n1"}
    # Nobody is in the home of the one that is gone, and whoever looks gives it up.
    assert await vacate(world.engine, CELL, "gone", T0) == Vacated()
    assert await forget_home(world.engine, "gone", CELL, T0) == Forgotten(True)
    assert await cells(world) == {"c0": 1}


async def test_where_nobody_has_room_the_cell_that_serves_its_pairs_is_tried(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=1))
    await settle(world, "a")
    await settle(world, "b")
    await route(world.engine, "c1", ["en:zh"])
    assert (await assign(world, "n1", "en:zh")).cell == "c1"
    assert (await assign(world, "n2", "en:de")).cell == "c1"
    assert (await assign(world, "n3", "en:de", full=Assigned("c1", 1))).cell == "c2"


async def test_of_equals_the_first_by_name_is_taken_and_of_others_the_fuller(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=9))
    await enter_homes(world.engine, "c9", ["a", "b"])
    await enter_homes(world.engine, "c5", ["c"])
    assert (await assign(world, "n1")).cell == "c9"
    await enter_homes(world.engine, "c5", ["d", "e"])
    assert (await assign(world, "n2")).cell == "c5"


async def test_a_node_goes_where_most_of_its_pairs_are_served_while_there_is_room(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=3))
    await enter_homes(world.engine, "c0", ["a0", "b0"])
    await enter_homes(world.engine, "c1", ["a1"])
    await route(world.engine, "c0", ["en:zh", "en:de"])
    await route(world.engine, "c1", ["en:de", "en:fr", "*:ja"])
    assert (await assign(world, "a", "en:de", "en:fr")).cell == "c1"
    assert (await assign(world, "b", "en:fr")).cell == "c1"
    # There is no room any more where its pair is served.
    assert (await assign(world, "c", "en:fr")).cell == "c0"
    assert await cells(world) == {"c0": 3, "c1": 3}
    assert await settle(world, "d", "en:fr") == "c2"


async def test_a_node_of_a_pair_that_nobody_serves_goes_to_the_fullest_cell_with_room(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=3))
    await enter_homes(world.engine, "c0", ["a0"])
    await enter_homes(world.engine, "c1", ["a1", "b1"])
    await enter_homes(world.engine, "c2", ["a2", "b2", "c2"])
    assert (await assign(world, "a", "en:zh")).cell == "c1"
    assert (await assign(world, "b")).cell == "c0"
    assert await cells(world) == {"c0": 2, "c1": 3, "c2": 3}


async def test_only_who_was_sent_to_a_full_cell_last_gets_another(make_world: MakeWorld) -> None:
    world = await make_world(SMALL)
    first, second = await assign(world, "n1"), await assign(world, "n1")
    # The others get no new stamp, or nobody would ever be the last.
    assert await assign(world, "n1", full=first) == second
    assert await assign(world, "n1", full=Assigned("c7", T0 + 1)) == Assigned("c0", T0 + 2)
    assert await assign(world, "n1", full=second) == Assigned("c0", T0 + 2)
    assert await assign(world, "n1", full=Assigned("c0", T0 + 2)) == Assigned("c1", T0 + 3)
    assert await cells(world) == {"c0": 0, "c1": 1}
    assert await assign(world, "n2", full=Assigned("c0", 1)) == Assigned("c1", T0 + 4, is_new=True)


async def test_a_home_is_forgotten_only_by_who_names_its_stamp(world: World) -> None:
    await assign(world, "n1")
    await assign(world, "n1")
    for cell, stamp in (("c0", T0), ("c1", T0 + 1), ("c0", T0 + 2)):
        assert await forget_home(world.engine, "n1", cell, stamp) == Forgotten(False)
    assert await forget_home(world.engine, "n2", "c0", T0 + 1) == Forgotten(False)
    assert await cells(world) == {"c0": 1}
    answers = await asyncio.gather(*(forget_home(world.engine, "n1", "c0", T0 + 1) for _ in range(2)))
    assert answers == [Forgotten(True), Forgotten(False)]
    assert await cells(world) == {"c0": 0}
    assert await read_home(world.engine, "n1") == Nowhere()


async def test_a_cell_that_knows_a_node_or_what_is_wanted_of_it_is_not_vacated(world: World) -> None:
    await join(world)
    assert (await watch(world, vacate(world.engine, CELL, "n1", T0)))[1] == {}
    assert await vacate(world.engine, CELL, "n1", T0) == Occupied()
    await drain(world.engine, CELL, "n1")
    await leave(world.engine, CELL, "n1")
    assert await vacate(world.engine, CELL, "n1", T0) == Occupied()


async def test_nobody_comes_in_by_a_home_that_was_given_up(world: World) -> None:
    home = await assign(world, "n1")
    answer, changes = await watch(world, vacate(world.engine, CELL, "n1", home.stamp))
    assert answer == Vacated()
    assert changes == {"departed": {"n1": T0}, "due": {"d:n1": FORGET_FROM + T0 + DEPARTED_MS}}
    assert (await watch(world, enter(world, home))) == ("HOME_GONE", {})
    assert await enter(world, Assigned("c0", T0 - 1)) == "HOME_GONE"
    assert isinstance(await enter(world, Assigned("c0", T0 + 1)), Registered)
    # Who is there already is there, by whatever he was sent.
    assert isinstance(await enter(world, home), Registered)
    assert isinstance(await enter(world, Assigned("c0", 0), "n2"), Registered)


async def test_a_home_that_was_given_up_twice_is_remembered_by_its_last_stamp_for_a_day(world: World) -> None:
    await vacate(world.engine, CELL, "n1", T0 + 5)
    world.now_ms += 1_000
    assert await vacate(world.engine, CELL, "n1", T0 + 3) == Vacated()
    assert (await world.cell()).departed == {"n1": T0 + 5}
    world.now_ms += DEPARTED_MS - 1
    await reap(world.engine, CELL)
    assert await enter(world, Assigned("c0", T0 + 5)) == "HOME_GONE"
    world.now_ms += 1
    await reap(world.engine, CELL)
    assert ((await world.cell()).departed, (await world.cell()).due) == ({}, {})


async def test_a_full_cell_shuts_out_who_was_sent_there_so_that_no_two_of_them_part(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=1))
    await join(world, "other")
    answer, changes = await watch(world, enter(world, Assigned("c0", T0 + 7)))
    assert answer == "CELL_FULL"
    assert changes == {"departed": {"n1": T0 + 7}, "due": {"d:n1": FORGET_FROM + T0 + DEPARTED_MS}}
    await leave(world.engine, CELL, "other")
    assert await enter(world, Assigned("c0", T0 + 6)) == "HOME_GONE"
    assert isinstance(await enter(world, Assigned("c0", T0 + 8)), Registered)
    # Who did not come by a home is only told.
    assert await enter(world, Assigned("c0", 0), "n3") == "CELL_FULL"
    assert "n3" not in (await world.cell()).departed


async def test_nodes_that_the_directory_has_lost_are_entered_again_where_they_are(world: World) -> None:
    await assign(world, "a")
    assert await enter_homes(world.engine, "c4", ["a", "b", "c"]) == HomesEntered(2, ["a"])
    assert await cells(world) == {"c0": 1, "c4": 2}
    assert (await read_routes(world.engine)).version == 2
    assert await read_home(world.engine, "b") == HomeView("c4", T0 + 1)
    assert await read_home(world.engine, "c") == HomeView("c4", T0 + 2)
    assert await enter_homes(world.engine, "c4", ["b", "c", "d"]) == HomesEntered(1, [])
    assert await cells(world) == {"c0": 1, "c4": 3}
    assert (await read_routes(world.engine)).version == 2


async def test_the_directory_knows_which_cells_serve_a_pair(world: World) -> None:
    assert await route(world.engine, "c0", ["en:zh", "en:de"]) == Routed(1)
    assert await route(world.engine, "c1", ["en:zh"]) == Routed(2)
    assert await route(world.engine, "c1", ["en:zh"]) == Routed(2)
    assert await route(world.engine, "c1", []) == Routed(2)
    routes = await read_routes(world.engine, ["en:de", "fr:de", "en:zh"])
    assert routes == Routes(2, [], [["c0"], [], ["c0", "c1"]])
    assert await read_routed(world.engine, "c1") == RoutedPairs("0", 3, ["en:zh"])
    page = await read_routed(world.engine, "c0")
    assert isinstance(page, RoutedPairs)
    assert (page.cursor, page.seen, sorted(page.pairs)) == ("0", 1, ["en:de", "en:zh"])
    assert await read_routed(world.engine, "c2") == RoutedPairs("0", 0, [])


async def test_as_many_pairs_as_a_node_can_have_are_routed(world: World) -> None:
    names = [f"a{number}:b" for number in range(1_201)]
    assert await route(world.engine, "c0", names) == Routed(1)
    assert await route(world.engine, "c1", [*names, "one:more"]) == Routed(2)
    found = await kept(world, "routes")
    assert len(found) == 1_202
    assert all(msgspec.msgpack.decode(found[name]) == ["c0", "c1"] for name in names)
    assert await route(world.engine, "c0", [*names, "one:more"]) == Routed(3)
    assert msgspec.msgpack.decode((await kept(world, "routes"))["one:more"]) == ["c1", "c0"]


async def test_a_pair_that_a_cell_does_not_serve_any_more_leads_there_no_more(world: World) -> None:
    await route(world.engine, "c0", ["en:zh", "en:de"])
    await route(world.engine, "c1", ["en:zh"])
    assert await unroute(world.engine, "c0", 1, ["en:de", "en:zh", "fr:de"]) == Unrouted(2)
    assert await read_routes(world.engine, ["en:de", "en:zh"]) == Routes(3, [], [[], ["c1"]])
    assert await unroute(world.engine, "c0", 1, ["en:de", "en:zh"]) == Unrouted(0)
    assert (await read_routes(world.engine)).version == 3
    assert (await kept(world, "routes")).keys() == {"en:zh"}


async def test_who_looked_before_a_node_came_takes_nothing_away(world: World) -> None:
    await route(world.engine, "c0", ["en:zh"])
    await route(world.engine, "c0", ["en:zh"])
    for seen in (0, 1, 3):
        assert await unroute(world.engine, "c0", seen, ["en:zh"]) == Unrouted(0)
    assert await unroute(world.engine, "c2", 0, ["en:zh"]) == Unrouted(0)
    assert await read_routes(world.engine, ["en:zh"]) == Routes(1, [], [["c0"]])
    assert await unroute(world.engine, "c0", 2, ["en:zh"]) == Unrouted(1)
    assert (await read_routes(world.engine)).version == 2


async def test_a_cell_says_how_many_of_its_nodes_have_room_for_a_pair(world: World) -> None:
    assert await read_room(world.engine, CELL, ["en:zh"]) == Room([0], [False])
    for node_id in ("n1", "n2"):
        await join(world, node_id, max_concurrent_jobs=1)
    await join(world, "n3", nmt_pairs="any")
    assert await read_room(world.engine, CELL, ["en:zh", "zh:en", "en:fr", "de:fr"]) == Room(
        [3, 1, 1, 0], [True, True, True, False]
    )
    for number in range(4):
        await place(world, f"{CELL}.{number}")
    assert await read_room(world.engine, CELL, ["en:zh", "en:fr"]) == Room([0, 0], [True, True])


async def test_who_is_under_suspicion_and_has_room_counts(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=4)
    await world.engine.command("HSET", cell_key(world.engine.prefix, CELL, "room"), "1", 2**21 + 3, cell=CELL)
    assert await read_room(world.engine, CELL, ["en:zh"]) == Room([5], [True])
    await world.engine.command("HSET", cell_key(world.engine.prefix, CELL, "room"), "1", 1, cell=CELL)


async def test_homes_are_read_in_pages(world: World) -> None:
    await asyncio.gather(*(assign(world, f"node-{number}") for number in range(600)))
    found: list[str] = []
    cursor, pages = "0", 0
    while pages == 0 or cursor != "0":
        page = await read_homes(world.engine, cursor, 100)
        assert isinstance(page, Homes)
        found += [node_id for node_id, _ in page.homes]
        cursor, pages = page.cursor, pages + 1
    assert (len(set(found)), pages > 3) == (600, True)


async def test_what_cannot_be_right_is_refused_before_the_directory_hears_of_it(world: World) -> None:
    engine = world.engine
    wrong = [
        await assign_home(engine, "-"),
        await assign_home(engine, "n1", first="C"),
        await assign_home(engine, "n1", full=Assigned("{", 1)),
        await forget_home(engine, "n1", "c0", -1),
        await vacate(engine, "c-0", "n1", 1),
        await enter_homes(engine, "c0", ["a", ""]),
        await route(engine, "", []),
        await unroute(engine, "c0", -1, []),
        await read_home(engine, ""),
        await read_homes(engine, "-1"),
        await read_routed(engine, "c0", count=0),
        await read_room(engine, "{", []),
        await register(engine, CELL, "n1", stamp=-1, **PLAIN),
    ]
    assert [code_of(answer) for answer in wrong] == ["INVALID_MESSAGE"] * len(wrong)
    assert await world.keys() == 0
