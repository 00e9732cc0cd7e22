"""What is told of the difference between two looks at the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from lingua_scheduler.core.clock import Clock
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.front.changes import Changes
from lingua_scheduler.front.directory import Directory
from lingua_scheduler.loops.chronicler import Chronicler
from lingua_scheduler.views.feed import read_feed
from lingua_scheduler.views.fleet import Fleet, read_fleet
from lingua_scheduler.views.pools import Pool
from lingua_scheduler.views.slots import NodeSlots
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


class Onlooker:
    """Looks at fleets as they are made up."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chronicler = Chronicler(world.engine, "i1", Clock())
        self.changes = Changes(Directory(world.engine, CELL), self.chronicler)

    async def see(self, pools: list[Pool] | None = None, **standings: Standing) -> list[tuple[str, str, str]]:
        """What is told of a fleet whose nodes stand so: what was told before is left out."""
        fleet = await read_fleet(self.world.engine, CELL)
        assert isinstance(fleet, Fleet)
        nodes = [NodeSlots(name, 0, 1, 1, standing) for name, standing in standings.items()]
        self.world.now_ms += 100_000
        before = len(await self._feed())
        now_ms = self.world.now_ms
        await self.changes.see(msgspec.structs.replace(fleet, nodes=nodes, pools=pools or [], now_ms=now_ms))
        while await self.chronicler.turn():
            pass
        return (await self._feed())[before:]

    async def _feed(self) -> list[tuple[str, str, str]]:
        feed = await read_feed(self.world.engine, limit=1_000)
        assert not isinstance(feed, Refusal)
        return [(notice.kind, notice.about, notice.detail) for _, notice in feed]


@pytest.fixture
def onlooker(world: World) -> Onlooker:
    return Onlooker(world)


def pool(pair: str, **standing: int) -> Pool:
    every = {one.name: standing.get(one.name, 0) for one in Standing}
    return Pool(pair, sum(standing.values()), every, 1, 1, 0)


async def test_the_first_look_tells_nothing_for_nobody_knows_how_it_was(onlooker: Onlooker) -> None:
    pools = [pool("en:zh", suspect=1), pool("zh:en", lost=1)]
    assert await onlooker.see(pools, n1=Standing.suspect, n2=Standing.stale) == []
    assert await onlooker.see(pools, n1=Standing.suspect, n2=Standing.stale) == []
    # But it is remembered.
    pools = [pool("en:zh", available=1), pool("zh:en", available=1)]
    assert await onlooker.see(pools, n1=Standing.available, n2=Standing.stale) == [
        ("pair_served", "zh:en", ""),
        ("pair_calm", "en:zh", ""),
        ("node_healed", "n1", "it was suspect"),
    ]


async def test_a_node_is_as_it_was_while_it_drains_or_is_not_ready(onlooker: Onlooker) -> None:
    await onlooker.see(n1=Standing.full)
    assert await onlooker.see(n1=Standing.available) == []
    assert await onlooker.see(n1=Standing.suspect_full) == [("node_suspect", "n1", "")]
    for standing in (Standing.draining, Standing.suspect, Standing.not_ready):
        assert await onlooker.see(n1=standing) == []
    assert await onlooker.see(n1=Standing.available) == [("node_healed", "n1", "it was suspect")]
    # That it is lost is told by its cell.
    assert await onlooker.see(n1=Standing.lost) == []
    assert await onlooker.see(n1=Standing.available) == [("node_healed", "n1", "it was lost")]


async def test_a_node_that_comes_was_well_until_then(onlooker: Onlooker) -> None:
    await onlooker.see()
    assert await onlooker.see(n1=Standing.available) == []
    assert await onlooker.see(n1=Standing.available, n2=Standing.resting) == [("node_resting", "n2", "")]
    assert await onlooker.see(n1=Standing.available) == []


async def test_of_many_at_once_there_is_one_notice(onlooker: Onlooker) -> None:
    names = [f"n{number:02}" for number in range(11)]
    await onlooker.see(None, **dict.fromkeys(names, Standing.available))
    (told,) = await onlooker.see(None, **dict.fromkeys(names, Standing.stale))
    assert told == ("node_silent", "many nodes", f"11 nodes: {', '.join(names)}")
    assert len(await onlooker.see(None, **dict.fromkeys(names[:10], Standing.available))) == 10


async def test_a_pair_is_empty_when_nobody_living_serves_it_and_served_when_somebody_does(onlooker: Onlooker) -> None:
    await onlooker.see([pool("en:zh", full=1), pool("zh:en", available=1)])
    assert await onlooker.see([pool("en:zh", draining=1)]) == [("pair_empty", "en:zh", ""), ("pair_empty", "zh:en", "")]
    # A pair that is new was not empty before.
    pools = [pool("en:zh", resting=1), pool("fr:en", available=1)]
    assert await onlooker.see(pools) == [("pair_served", "en:zh", "")]


async def test_suspicion_does_not_count_where_more_than_half_are_suspect(onlooker: Onlooker) -> None:
    await onlooker.see([pool("en:zh", available=2)])
    assert await onlooker.see([pool("en:zh", available=1, suspect=1)]) == []
    assert await onlooker.see([pool("en:zh", available=1, suspect_full=2)]) == [("pair_panic", "en:zh", "")]
    assert await onlooker.see([pool("en:zh", full=1, suspect=1, lost=5)]) == [("pair_calm", "en:zh", "")]
