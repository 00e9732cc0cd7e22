"""The chronicler: what happened is written in the background, and nobody waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from lingua_scheduler.core.clock import AWAY_MS, Clock
from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.notice import MAX_DETAIL_CHARS
from lingua_scheduler.core.records import Event
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.loops.chronicler import MAX_QUEUED, Chronicler
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.views.feed import read_feed

if TYPE_CHECKING:
    from lingua_scheduler.core.notice import Notice
    from tests.support.world import World


class Dial:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def chronicler_of(world: World | None, dial: Dial | None = None) -> Chronicler:
    engine = cast("Engine", None) if world is None else world.engine
    return Chronicler(engine, "i1", Clock(dial or Dial()))


async def written(world: World) -> list[Notice]:
    feed = await read_feed(world.engine)
    assert not isinstance(feed, Refusal)
    return [notice for _, notice in feed]


async def test_what_is_noted_is_written_at_the_next_turn_in_its_order(world: World) -> None:
    chronicler = chronicler_of(world)
    for number in range(70):
        chronicler.note("node_joined", f"n{number}")
    assert await written(world) == []
    assert await chronicler.turn() is True
    assert await chronicler.turn() is False
    found = await written(world)
    assert [notice.about for notice in found] == [f"n{number}" for number in range(70)]
    assert {(notice.at_ms, notice.instance) for notice in found} == {(1_000_000, "i1")}


async def test_the_last_words_are_written_when_it_ends(world: World) -> None:
    async with chronicler_of(world) as chronicler:
        chronicler.note("instance_went", "i1")
    assert [notice.kind for notice in await written(world)] == ["instance_went"]


async def test_more_than_there_is_room_for_is_dropped_and_counted() -> None:
    """It asks the engine nothing: it has none."""
    chronicler = chronicler_of(None)
    for _ in range(MAX_QUEUED + 3):
        chronicler.note("node_joined", "n1")
    assert chronicler.dropped == 3


async def test_whatever_names_come_from_outside_they_are_cut_and_never_lose_the_notice(world: World) -> None:
    chronicler = chronicler_of(world)
    chronicler.note(
        "node_joined", "n" * 1_000, "\ud800" + "d" * 1_000, who="w" * 1_000, where="x" * 1_000, outcome="ok"
    )
    await chronicler.turn()
    (notice,) = await written(world)
    assert (len(notice.about), len(notice.detail), notice.detail[0]) == (256, MAX_DETAIL_CHARS, "?")
    assert chronicler.dropped == 0


async def test_while_the_engine_is_away_it_waits_and_then_tells_for_how_long_it_was(world: World) -> None:
    dial = Dial()
    chronicler = chronicler_of(world, dial)
    dial.now_ms += AWAY_MS - 1
    await chronicler.turn()
    dial.now_ms += 1
    await chronicler.turn()
    assert await written(world) == []
    dial.now_ms += 2_000
    await chronicler.turn()
    chronicler._clock.heard(dial.now_ms, dial.now_ms)
    await chronicler.turn()
    await chronicler.turn()
    (notice,) = await written(world)
    assert (notice.kind, notice.about) == ("engine_back", "i1")
    assert notice.detail == "nothing was heard of it for 5.0 s"


async def test_what_could_not_be_written_is_written_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    chronicler = chronicler_of(world)
    chronicler.note("node_joined", "n1")
    run = Engine.run

    def away(*_: object) -> object:
        raise DependencyDown("AWAY", "it is away")

    monkeypatch.setattr(Engine, "run", away)
    with pytest.raises(DependencyDown):
        await chronicler.turn()
    monkeypatch.setattr(Engine, "run", run)
    await chronicler.turn()
    assert [notice.about for notice in await written(world)] == ["n1"]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("lost", ("node_lost", "n1", "")),
        ("cut_off", ("node_cut_off", "n1", "job c0.a")),
        ("forgiven", ("node_forgiven", "n1", "job c0.a")),
        ("mass_silence", ("mass_silence", "", "7 nodes are silent at once, and 3 are heard")),
        ("ended", None),
        ("reserved", None),
    ],
)
async def test_what_the_outbox_tells_people_are_told_too(
    world: World, kind: str, told: tuple[str, str, str] | None
) -> None:
    chronicler = chronicler_of(world)
    chronicler.hear(Event(kind, "c0.a", 7, "n1", "e1", "3", 42))
    await chronicler.turn()
    found = [(notice.kind, notice.about, notice.detail, notice.at_ms) for notice in await written(world)]
    assert found == ([] if told is None else [(*told, 42)])
