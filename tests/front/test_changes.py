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
        suspects = {Standing.suspect, Standing.suspect_full}
        nodes = [
            NodeSlots(name, 0, 1, 1, standing, is_suspect=standing in suspects) for name, standing in standings.items()
        ]
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


def pool(pair: str, tried: int = 0, **standing: int) -> Pool:
    """How its nodes stand, and how many of those that are available are suspects that may be tried with a job."""
    every = {one.name: standing.get(one.name, 0) for one in Standing}
    return Pool(pair, sum(standing.values()), every, 1, 1, 0, tried + every["suspect"] + every["suspect_full"])


async def test_the_first_look_tells_nothing_for_nobody_knows_how_it_was(onlooker: Onlooker) -> None:
    pools = [pool("en:zh", suspect=1), pool("zh:en", lost=1)]
    assert await onlooker.see(pools, n1=Standing.suspect, n2=Standing.stale) == []
    assert await onlooker.see(pools, n1=Standing.suspect, n2=Standing.stale) == []
    # But it is remembered.
    pools = [pool("en:zh", available=1), pool("zh:en", available=1)]
    assert await onlooker.see(pools, n1=Standing.available, n2=Standing.available) == [
        ("pair_served", "zh:en", "1 of its 1 nodes are given jobs"),
        ("pair_calm", "en:zh", "0 of its 1 living nodes are suspect"),
        ("node_healed", "n2", "it was silent"),
    ]


async def test_a_node_is_as_it_was_while_it_drains_or_is_not_ready(onlooker: Onlooker) -> None:
    await onlooker.see(n1=Standing.full)
    assert await onlooker.see(n1=Standing.available) == []
    # That it is suspect, and is not any more, is told by its cell.
    assert await onlooker.see(n1=Standing.suspect_full) == []
    assert await onlooker.see(n1=Standing.stale) == [("node_silent", "n1", "")]
    for standing in (Standing.draining, Standing.not_ready):
        assert await onlooker.see(n1=standing) == []
    assert await onlooker.see(n1=Standing.available) == [("node_healed", "n1", "it was silent")]
    # That it is lost is told by its cell.
    assert await onlooker.see(n1=Standing.lost) == []
    assert await onlooker.see(n1=Standing.available) == [("node_healed", "n1", "it was lost")]


async def test_a_node_that_comes_was_well_until_then(onlooker: Onlooker) -> None:
    await onlooker.see()
    assert await onlooker.see(n1=Standing.available) == []
    assert await onlooker.see(n1=Standing.available, n2=Standing.stale) == [("node_silent", "n2", "")]
    assert await onlooker.see(n1=Standing.available) == []


async def test_that_a_node_rests_is_told_by_its_cell_and_that_it_has_rested_here(onlooker: Onlooker) -> None:
    await onlooker.see(n1=Standing.available)
    assert await onlooker.see(n1=Standing.resting) == []
    assert await onlooker.see(n1=Standing.available) == [("node_healed", "n1", "it was resting")]


@pytest.mark.parametrize("standing", [Standing.suspect, Standing.suspect_full])
async def test_a_suspect_that_has_rested_or_is_heard_again_is_still_suspect(
    onlooker: Onlooker, standing: Standing
) -> None:
    await onlooker.see(n1=standing)
    for before, silence, was in (
        (Standing.resting, [], "resting"),
        (Standing.stale, [("node_silent", "n1", "")], "silent"),
        (Standing.lost, [], "lost"),
    ):
        assert await onlooker.see(n1=before) == silence
        assert await onlooker.see(n1=standing) == [("node_suspect", "n1", f"it was {was}, and is still suspect")]
    # That it is trusted again its cell tells.
    assert await onlooker.see(n1=Standing.available) == []


async def test_of_many_at_once_each_is_told_alone_or_with_others(onlooker: Onlooker) -> None:
    names = [f"n{number:03}" for number in range(250)]
    await onlooker.see(None, **dict.fromkeys(names, Standing.available))
    await onlooker.see(None, **dict.fromkeys(names, Standing.stale))
    async with onlooker.chronicler:
        pass
    feed = await read_feed(onlooker.world.engine, limit=1_000)
    assert not isinstance(feed, Refusal)
    told = [about for _, notice in feed for about, _ in (notice.each or [(notice.about, "")])]
    assert (sorted(told), len(feed)) == (names, 10 + 3)


async def test_a_pair_is_empty_when_nobody_living_serves_it_and_served_when_somebody_does(onlooker: Onlooker) -> None:
    await onlooker.see([pool("en:zh", full=1), pool("zh:en", available=1)])
    assert await onlooker.see([pool("en:zh", draining=1)]) == [
        ("pair_empty", "en:zh", "its nodes: 1 draining"),
        ("pair_empty", "zh:en", "its nodes have left"),
    ]
    # A pair that is new was not empty before.
    pools = [pool("en:zh", resting=1), pool("fr:en", available=1)]
    assert await onlooker.see(pools) == [("pair_served", "en:zh", "1 of its 1 nodes are given jobs")]


async def test_suspicion_does_not_count_where_more_than_half_are_suspect(onlooker: Onlooker) -> None:
    await onlooker.see([pool("en:zh", available=2)])
    assert await onlooker.see([pool("en:zh", available=1, suspect=1)]) == []
    told = await onlooker.see([pool("en:zh", available=1, suspect_full=2)])
    assert told == [("pair_panic", "en:zh", "2 of its 3 living nodes are suspect")]
    told = await onlooker.see([pool("en:zh", full=1, suspect=1, lost=5)])
    assert told == [("pair_calm", "en:zh", "1 of its 2 living nodes are suspect")]


async def test_a_pair_is_calm_when_its_suspects_are_trusted_again_not_when_they_are_tried(onlooker: Onlooker) -> None:
    await onlooker.see([pool("sw:ar", available=1)])
    assert await onlooker.see([pool("sw:ar", suspect=1)]) == [
        ("pair_panic", "sw:ar", "1 of its 1 living nodes are suspect")
    ]
    # It may be tried, is tried, fails again, and so on.
    for stand in (pool("sw:ar", 1, available=1), pool("sw:ar", suspect_full=1), pool("sw:ar", 1, available=1)):
        assert await onlooker.see([stand]) == []
    # That nobody is there to be suspect is not that somebody is trusted.
    assert await onlooker.see([pool("sw:ar", stale=1)]) == [("pair_empty", "sw:ar", "its nodes: 1 silent")]
    told = await onlooker.see([pool("sw:ar", 1, available=1)])
    assert told == [("pair_served", "sw:ar", "1 of its 1 nodes are given jobs")]
    assert await onlooker.see([pool("sw:ar", available=1)]) == [
        ("pair_calm", "sw:ar", "0 of its 1 living nodes are suspect")
    ]


async def test_a_pair_whose_suspects_have_left_is_calm(onlooker: Onlooker) -> None:
    await onlooker.see([pool("sw:ar", suspect=1)])
    assert await onlooker.see([]) == [
        ("pair_empty", "sw:ar", "its nodes have left"),
        ("pair_calm", "sw:ar", "its nodes have left"),
    ]
