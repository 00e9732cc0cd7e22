"""Whoever dies between which steps: no node is ever in two cells, and every place that is taken is somebody's.

Two processes want something of the same node, one call of the engine at a time, in every order there is; each may stop
anywhere, for that is what dying is. Then somebody puts in order what they left, and the node comes once more.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import pytest

from lingua_scheduler.core.rules import Rules
from lingua_scheduler.front.directory import Directory
from lingua_scheduler.front.nodes.housing import let_go, take_in
from lingua_scheduler.front.survey import Survey
from lingua_scheduler.views.home import HomeView, read_home
from lingua_scheduler.views.routes import read_routes
from tests.support.several import ONE_SLOT, Instance, cells_of, judge, look_into
from tests.support.steps import Paused
from tests.support.world import CELL, World

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.support.servers import Server

RULES: Final = Rules(cell_capacity=1, stale_ms=10**9, offline_ms=2 * 10**9)
#: So many calls of each at most: that is all of them, but for who is turned away and begins again.
STEPS: Final = 4
#: Nobody is on his way any more.
LATE_MS: Final = 10**13


async def _registers(engine: Any) -> object:
    return await take_in(Directory(engine, CELL), "n1", **ONE_SLOT, nonce="n1")


async def _leaves(engine: Any) -> object:
    return await let_go(Directory(engine, CELL), "n1")


async def _surveys(engine: Any) -> object:
    await Survey(Directory(engine, CELL), lambda: LATE_MS)._compare_homes()
    return None


WHAT: Final[dict[str, Callable[[Any], Awaitable[object]]]] = {
    "registers": _registers,
    "leaves": _leaves,
    "surveys": _surveys,
}


def orders() -> Iterator[str]:
    """Every order in which the one makes up to so many calls, and the other."""
    for ones in range(STEPS + 1):
        for others in range(STEPS + 1):
            for places in combinations(range(ones + others), ones):
                yield "".join("A" if place in places else "B" for place in range(ones + others))


async def begin(world: World, begins: str) -> None:
    """How it is when they come. A cell is full with one node."""
    instance = Instance(world.engine)
    if begins == "it is there":
        await instance.join("n1")
    elif begins == "its cell is full":
        await instance.join("other")
    elif begins == "its home is empty":
        await instance.join("n1")
        await _without_forgetting(instance)


async def _without_forgetting(instance: Instance) -> None:
    """It left its cell, and whoever should have told the directory died."""
    actor = Paused(instance.engine, _leaves)
    await actor.step()
    await actor.die()


async def is_in_one_cell(world: World, story: object) -> None:
    homes = [name for name in await cells_of(world) if "n1" in (await look_into(world, name)).nodes]
    assert len(homes) <= 1, (story, homes)


async def put_in_order(world: World, story: object) -> None:
    """The surveyor finds what was left; the node comes again, and is where the directory says."""
    instance = Instance(world.engine)
    survey = Survey(instance.directory, lambda: LATE_MS)
    for _ in range(4):
        await survey.step()
    await judge(world)
    nodes = {name: len((await look_into(world, name)).nodes) for name in await cells_of(world)}
    assert dict((await read_routes(world.engine)).cells) == nodes, story
    await instance.join("n1")
    home = await read_home(world.engine, "n1")
    assert isinstance(home, HomeView)
    assert "n1" in (await look_into(world, home.cell)).nodes, story
    await is_in_one_cell(world, story)
    await judge(world)


@pytest.mark.parametrize("begins", ["nobody is there", "it is there", "its cell is full", "its home is empty"])
@pytest.mark.parametrize(
    "who",
    [
        ("registers", "registers"),
        ("registers", "leaves"),
        ("registers", "surveys"),
        ("leaves", "surveys"),
    ],
    ids=" and ".join,
)
async def test_however_their_steps_follow_each_other_the_node_is_in_one_cell(
    server: Server, begins: str, who: tuple[str, str]
) -> None:
    for order in orders():
        world = World()
        await world.open(server.url, RULES)
        await begin(world, begins)
        actors = dict(zip("AB", (Paused(world.engine, WHAT[what]) for what in who), strict=True))
        for name in order:
            await actors[name].step()
        await is_in_one_cell(world, (begins, who, order))
        for actor in actors.values():
            await actor.die()
        await put_in_order(world, (begins, who, order))
        await world.close()
