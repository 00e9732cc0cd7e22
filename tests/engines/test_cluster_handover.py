"""A slot that goes from one server to another while calls come: nothing lost, nothing twice, nothing half."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import hiredis
import pytest

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.store.keys import cell_key
from lingua_scheduler.store.slots import slot_of
from tests.support.asking import ask
from tests.support.tallies import ENTER, Tally
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingua_scheduler.store.engine import Engine
    from tests.support.clusters import Node, Sixpack

CELL = "handed"
SLOT = slot_of(CELL)


@pytest.fixture
def away(cluster: Sixpack) -> Iterator[Node]:
    """Somebody to whom the slot may be given; at the end it is where it was."""
    home = cluster.primary_of(SLOT)
    target = next(node for node in cluster.primaries() if node is not home)
    yield target
    for node in (home, target):
        node.ask("CLUSTER", "SETSLOT", SLOT, "STABLE")
    if cluster.primary_of(SLOT) is not home:
        cluster.hand_over(SLOT, home)


async def turned_away(node: Node, word: str, more_than: int) -> None:
    await asyncio.to_thread(wait_until, lambda: node.errors(word) > more_than)


async def test_a_slot_that_has_moved_costs_one_turn_and_is_known_then(
    cluster: Sixpack, engine: Engine, away: Node
) -> None:
    tally = Tally(engine, CELL)
    await tally.enter()
    home = cluster.primary_of(SLOT)
    cluster.hand_over(SLOT, away)
    before = home.errors("MOVED")
    for _ in range(5):
        await tally.enter()
    assert home.errors("MOVED") == before + 1
    assert len(tally.confirmed) == 6
    await tally.check()


@pytest.mark.parametrize("at_once", [False, True], ids=["key by key", "at once"])
async def test_under_load_nothing_is_lost_nothing_twice_and_nothing_half(
    cluster: Sixpack, engine: Engine, away: Node, at_once: bool
) -> None:
    hand_over = cluster.hand_over_at_once if at_once else cluster.hand_over
    home = cluster.primary_of(SLOT)
    tally, other = Tally(engine, CELL), Tally(engine, "elsewhere")
    there_and_back = [asyncio.create_task(_hand_over(hand_over, [away, home] * 3))]
    await asyncio.gather(
        *(one.go_on_until(there_and_back[0].done) for one in (tally, other) for _ in range(8)), *there_and_back
    )
    for one in (tally, other):
        await one.check()
        assert len(one.confirmed) > 100
        assert not one.unknown
    # Whoever waited for a second, because the machine had other things to do, was told so.
    assert set(tally.refused.values()) <= {"TRYAGAIN"}
    assert not other.refused


async def _hand_over(hand_over: object, targets: list[Node]) -> None:
    assert callable(hand_over)
    for target in targets:
        await asyncio.to_thread(hand_over, SLOT, target)


async def test_who_comes_later_waits_behind_who_was_turned_away(cluster: Sixpack, engine: Engine, away: Node) -> None:
    tally = Tally(engine, CELL)
    await tally.enter()
    home = cluster.open_slot(SLOT, away)
    before = home.errors("TRYAGAIN")
    waiting = [asyncio.create_task(tally.enter())]
    await turned_away(home, "TRYAGAIN", before)
    for _ in range(20):
        waiting.append(asyncio.create_task(tally.enter()))
        await asyncio.sleep(0)
    await asyncio.to_thread(cluster.move_keys, SLOT, home, away)
    await asyncio.to_thread(cluster.close_slot, SLOT, home, away)
    await asyncio.gather(*waiting)
    assert await tally.entered() == [f"{number:06}" for number in range(22)]
    await tally.check()


async def test_a_slot_that_stays_open_refuses_after_a_second_and_nothing_was_done(
    cluster: Sixpack, engine: Engine, away: Node
) -> None:
    tally = Tally(engine, CELL)
    await tally.enter()
    home = cluster.open_slot(SLOT, away)
    before = home.errors("TRYAGAIN")
    await asyncio.gather(*(tally.enter() for _ in range(3)))
    # One at a time, and never without a pause of 5 ms.
    assert 0 < home.errors("TRYAGAIN") - before <= 3 + 200
    # Half of its keys are gone: no side has them all.
    home.ask("MIGRATE", "127.0.0.1", away.port, cell_key(engine.prefix, CELL, "limbo"), 0, 5_000)
    await tally.enter()
    cluster.move_keys(SLOT, home, away)
    await tally.enter()
    assert set(tally.refused.values()) == {"TRYAGAIN"}
    assert len(tally.refused) == 5
    cluster.close_slot(SLOT, home, away)
    await tally.enter()
    assert len(tally.confirmed) == 2
    await tally.check()


async def test_a_handover_that_is_called_off_leaves_everything_where_it_was(
    cluster: Sixpack, engine: Engine, away: Node
) -> None:
    """Nothing is there yet, so the owner sends everybody on, and the other takes nobody in."""
    tally = Tally(engine, CELL)
    home = cluster.open_slot(SLOT, away)
    before = away.errors("TRYAGAIN")
    waiting = asyncio.create_task(tally.enter())
    await turned_away(away, "TRYAGAIN", before)
    for node in (away, home):
        node.ask("CLUSTER", "SETSLOT", SLOT, "STABLE")
    assert await waiting in tally.confirmed
    assert cluster.primary_of(SLOT) is home
    await tally.check()


async def test_who_left_while_he_waited_is_not_sent_again(cluster: Sixpack, engine: Engine, away: Node) -> None:
    tally = Tally(engine, CELL)
    await tally.enter()
    home = cluster.open_slot(SLOT, away)
    before = home.errors("TRYAGAIN")
    left = asyncio.create_task(tally.enter())
    await turned_away(home, "TRYAGAIN", before)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    await asyncio.to_thread(cluster.move_keys, SLOT, home, away)
    await asyncio.to_thread(cluster.close_slot, SLOT, home, away)
    await tally.enter()
    assert await tally.entered() == ["000000", "000002"]


async def test_a_plain_command_is_a_guest_where_its_key_is_already(
    cluster: Sixpack, engine: Engine, away: Node
) -> None:
    here, gone = (f"{engine.prefix}{{{CELL}}}{name}" for name in ("here", "gone"))
    await asyncio.gather(engine.command("SET", here, 1, cell=CELL), engine.command("SET", gone, 1, cell=CELL))
    home = cluster.open_slot(SLOT, away)
    home.ask("MIGRATE", "127.0.0.1", away.port, gone, 0, 5_000)
    before = home.errors("ASK")
    # Some name the cell, some do not.
    numbers = [await engine.command("INCR", key, cell=cell) for key in (here, gone) for cell in (CELL, "", CELL)]
    assert numbers == [2, 3, 4, 2, 3, 4]
    assert home.errors("ASK") > before
    assert ask(away.server.path, ("ASKING",), ("GET", gone)) == ["OK", "4"]
    cluster.move_keys(SLOT, home, away)
    cluster.close_slot(SLOT, home, away)
    assert [await engine.command("GET", key, cell=CELL) for key in (here, gone)] == [b"4", b"4"]


async def test_without_its_guard_a_script_would_die_half_way(cluster: Sixpack, engine: Engine, away: Node) -> None:
    """All keys are there, so the server begins; then one is empty, and so not there any more."""
    tally = Tally(engine, CELL)
    await tally.enter()
    home = cluster.open_slot(SLOT, away)
    keys = [cell_key(engine.prefix, CELL, name) for name in ENTER.keys]
    with pytest.raises(hiredis.ReplyError, match="non local key"):
        home.ask("EVALSHA", ENTER.sha, len(keys), *keys, "", "", "half")
    assert home.ask("LRANGE", cell_key(engine.prefix, CELL, "outbox"), 0, -1) == ["000000", "half"]
    assert home.ask("GET", cell_key(engine.prefix, CELL, "counts")) == "1"
    with pytest.raises(DependencyDown, match="TRYAGAIN"):
        await engine.run(ENTER, CELL, (b"whole",))
    assert home.ask("LRANGE", cell_key(engine.prefix, CELL, "outbox"), 0, -1) == ["000000", "half"]
