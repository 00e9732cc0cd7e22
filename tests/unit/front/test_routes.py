"""In which order cells are asked."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, cast

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.front.directory import Directory
from lingua_scheduler.front.routes import RouteBook, Ways
from lingua_scheduler.views.routes import Routes

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

EN_ZH = Pair("en", "zh")


async def book(**room: int) -> RouteBook:
    """Of a fleet whose cells had so much room."""
    directory = Directory(cast("Engine", None), "c0")
    await directory.learn(Routes(1, [(cell, 1) for cell in room], []), "")
    routes = RouteBook(directory)
    routes._known[str(EN_ZH)] = 1, Ways(list(room), [])
    routes._room = {(str(EN_ZH), cell): number for cell, number in room.items()}
    return routes


async def test_cells_are_drawn_by_how_much_room_they_have() -> None:
    routes = await book(c0=1, c1=3, c2=0)
    first = Counter([(await routes.ordered(EN_ZH, ["c0", "c1", "c2"]))[0] for _ in range(2_000)])
    assert first["c2"] == 0
    assert 300 < first["c0"] < 700
    assert {(await routes.ordered(EN_ZH, ["c2", "c1", "c0"]))[2] for _ in range(50)} == {"c2"}


async def test_those_that_are_wished_for_come_first_if_they_serve_it() -> None:
    routes = await book(c0=1, c1=100, c2=0)
    for _ in range(20):
        assert (await routes.ordered(EN_ZH, ["c0", "c1", "c2"], ["c7", "c2", "c0", "c2"])) == ["c2", "c0", "c1"]


async def test_a_cell_that_refused_has_no_room() -> None:
    routes = await book(c0=9, c1=1)
    routes.refused(EN_ZH, "c0")
    assert {(await routes.ordered(EN_ZH, ["c0", "c1"]))[0] for _ in range(20)} == {"c1"}
    assert routes.with_room(EN_ZH, but="c1") is None
    assert routes.with_room(EN_ZH, but="c0") == "c1"


async def test_a_cell_that_could_not_be_asked_comes_last_and_nobody_goes_on_there() -> None:
    routes = await book(c0=9, c1=1, c2=0)
    routes.down("c0")
    for _ in range(20):
        assert await routes.ordered(EN_ZH, ["c0", "c1", "c2"], ["c0"]) == ["c1", "c2", "c0"]
        assert routes.begin_at("en", "zh") == "c1"
    assert routes.with_room(EN_ZH, but="c1") is None
    # After a while somebody tries it again.
    routes._down["c0"] -= 11
    assert await routes.ordered(EN_ZH, ["c0", "c1", "c2"], ["c0"]) != ["c1", "c2", "c0"]
    assert routes.with_room(EN_ZH, but="c1") == "c0"


async def test_a_job_begins_where_there_is_room_or_in_the_first_cell_if_nobody_knows() -> None:
    routes = await book(c0=0, c1=5)
    assert {routes.begin_at("en", "zh") for _ in range(20)} == {"c1"}
    assert routes.begin_at("en-GB", "zh-Hans") == "c1"
    assert routes.begin_at("en", "fr") == "c0"
    assert routes.begin_at("?", "zh") == "c0"


async def test_a_version_that_goes_back_is_a_directory_that_has_lost_something() -> None:
    directory = Directory(cast("Engine", None), "c0")
    grown: list[tuple[str, ...]] = []
    directory.on_growth.append(lambda: grown.append(directory.cells))
    assert not await directory.learn(Routes(7, [("c10", 1), ("c2", 1), ("c0", 1)], []), "")
    assert grown[-1] == ("c0", "c2", "c10")
    assert await directory.learn(Routes(6, [], []), "")
    assert directory.cells == ("c0", "c2", "c10")
    assert await directory.learn(Routes(9, [], []), "")


async def test_what_another_server_says_may_lack_something_whatever_its_version_is() -> None:
    directory = Directory(cast("Engine", None), "c0")
    learned = [
        await directory.learn(Routes(version, [], []), reign) for version, reign in enumerate(("", "a", "", "a"))
    ]
    assert learned == [False, False, False, False]
    assert await directory.learn(Routes(4, [], []), "b")
    assert directory.reign == "b"


async def test_a_cell_that_others_opened_is_begun_here_before_anybody_is_sent_there() -> None:
    begun: list[str] = []

    async def begin(cell: str) -> None:
        assert cell not in directory.cells
        begun.append(cell)
        if cell == "c2":
            raise DependencyDown("UNREACHABLE", "away")

    directory = Directory(cast("Engine", None), "c0", begin)
    for _ in range(2):
        await directory.learn(Routes(1, [("c0", 1), ("c1", 1)], []), "")
    assert (begun, directory.cells) == (["c1"], ("c0", "c1"))
    # One that nobody serves just now is known all the same, and begun when it is served.
    begun.clear()
    await directory.learn(Routes(2, [("c2", 1)], []), "")
    assert (begun, directory.cells) == (["c2"], ("c0", "c1", "c2"))
