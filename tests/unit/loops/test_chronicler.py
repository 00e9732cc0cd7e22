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
        chronicler.note("dead_letter", f"n{number}")
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
        chronicler.note("dead_letter", "n1")
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
        ("mass_silence", ("mass_silence", "", "7 nodes are silent at once, and 3 are heard")),
        ("ended", None),
        ("reserved", None),
    ],
)
async def test_a_mass_silence_is_told_and_what_concerns_only_jobs_is_not(
    world: World, kind: str, told: tuple[str, str, str] | None
) -> None:
    chronicler = chronicler_of(world)
    chronicler.hear(Event(kind, "c0.a", 7, "n1", "e1", "3", 42))
    await chronicler.turn()
    found = [(notice.kind, notice.about, notice.detail, notice.at_ms) for notice in await written(world)]
    assert found == ([] if told is None else [(*told, 42)])


async def test_of_very_many_of_a_kind_the_first_are_told_at_once_and_the_others_together_each_with_its_reason(
    world: World,
) -> None:
    dial = Dial()
    chronicler = chronicler_of(world, dial)
    for number in range(130):
        chronicler.note("node_silent", f"n{number:03}", f"for {number} s")
    chronicler.note("node_left", "gone")
    await chronicler.turn()
    found = await written(world)
    assert [one.about for one in found if not one.each] == [*(f"n{number:03}" for number in range(10)), "gone"]
    (hundred,) = [one for one in found if one.each]
    assert (hundred.about, hundred.detail) == ("n010 and 99 more", "")
    assert hundred.each == tuple((f"n{number:03}", f"for {number} s") for number in range(10, 110))
    # The rest when the moment is over.
    dial.now_ms += 1_000
    await chronicler.turn()
    rest = (await written(world))[-1]
    assert (rest.about, rest.each[0], len(rest.each)) == ("n110 and 19 more", ("n110", "for 110 s"), 20)
    chronicler.note("node_silent", "late")
    await chronicler.turn()
    assert (await written(world))[-1].about == "late"


async def test_what_is_told_together_is_not_lost_when_it_ends(world: World) -> None:
    async with chronicler_of(world) as chronicler:
        for number in range(12):
            chronicler.note("node_marked", f"n{number}", "asr: MODEL_NOT_AVAILABLE, for 60 s")
    last = (await written(world))[-1]
    assert (last.detail, [about for about, _ in last.each]) == ("asr: MODEL_NOT_AVAILABLE, for 60 s", ["n10", "n11"])


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            ("suspected", "", 3, "ack_timeout c0.a"),
            ("node_suspect", "3 of its last 5 jobs failed; the last was c0.a: ack_timeout"),
        ),
        (("suspected", "", 3, "lost"), ("node_suspect", "3 of its last 5 jobs failed; the last was lost")),
        (("trusted", "", 0, ""), ("node_healed", "it was suspect")),
        (("resting", "", 1_500, "overloaded"), ("node_resting", "for 1.5 s: it said that it has too much to do")),
        (("resting", "", 500, "undelivered"), ("node_resting", "for 0.5 s: a job could not be sent to it")),
        (("resting", "", 2_000, "flapping"), ("node_resting", "for 2.0 s: it comes and goes")),
        (("lost", "", 0, "closed"), ("node_lost", "its connection was closed, and it did not come back in time")),
        (("lost", "", 0, "silent"), ("node_lost", "nothing was heard of it for too long")),
        (("fenced", "c0.a", 1, "run_timeout"), ("node_fenced", "c0.a: run_timeout")),
        (("cut_off", "c0.a", 1, ""), ("node_cut_off", "it did not confirm that it stopped c0.a")),
        (("forgiven", "c0.a", 1, ""), ("node_forgiven", "it could not say whether it stopped c0.a")),
    ],
)
async def test_every_step_that_a_script_takes_is_told_with_its_reason(
    world: World, event: tuple[str, str, int, str], told: tuple[str, str]
) -> None:
    chronicler = chronicler_of(world)
    kind, job_id, number, detail = event
    chronicler.hear(Event(kind, job_id, number, "n1", "1-n1", detail, 7))
    await chronicler.turn()
    (found,) = await written(world)
    assert ((found.kind, found.detail), found.about, found.at_ms) == (told, "n1", 7)


async def test_an_attempt_that_was_cancelled_tells_nothing_of_its_node(world: World) -> None:
    chronicler = chronicler_of(world)
    chronicler.hear(Event("fenced", "c0.a", 1, "n1", "1-n1", "cancelled", 7))
    await chronicler.turn()
    assert await written(world) == []
