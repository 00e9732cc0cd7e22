"""note, and what is read of it: what happened to the fleet, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.notice import KEPT_MS, KINDS, LOOKED_BACK, MAX_KEPT, SAME_MS, STANDS, Notice
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.note import Known, Noted, note
from lingua_scheduler.store.keys import FEED, cell_key
from lingua_scheduler.views.feed import read_feed
from tests.support.stage import T0

if TYPE_CHECKING:
    from tests.support.world import World

LOST = Notice("node_lost", "n1", "gone", T0, "i1")
SUSPECT = Notice("node_suspect", "n1", "3 of 5", T0, "i1", seen=True)


def like(notice: Notice, **more: Any) -> Notice:
    return msgspec.structs.replace(notice, **more)


async def noted(world: World, notice: Notice) -> str:
    answer = await note(world.engine, notice)
    assert isinstance(answer, Noted), answer
    return answer.id


async def found(world: World, after: str = "", limit: int = 100) -> list[tuple[str, Notice]]:
    feed = await read_feed(world.engine, after, limit)
    assert not isinstance(feed, Refusal), feed
    return feed


async def test_what_is_noted_is_read_in_the_order_in_which_it_came(world: World) -> None:
    assert await found(world) == []
    act = Notice("admin_drain", "n1", "", T0 + 1, "i2", who="ops", where="10.0.0.1", outcome="ok")
    ids = [await noted(world, notice) for notice in (LOST, act, LOST)]
    assert await found(world) == list(zip(ids, (LOST, act, LOST), strict=True))
    assert await found(world, limit=2) == [(ids[1], act), (ids[2], LOST)]
    assert await found(world, ids[0], limit=1) == [(ids[1], act)]
    assert await found(world, ids[2]) == []


async def test_only_the_newest_are_kept_and_none_for_ever(world: World) -> None:
    first = await noted(world, LOST)
    for _ in range(MAX_KEPT):
        last = await noted(world, LOST)
    kept = await found(world, limit=MAX_KEPT)
    assert (len(kept), kept[-1][0]) == (MAX_KEPT, last)
    assert first not in dict(kept)
    left_ms = await world.engine.command("PTTL", cell_key(world.engine.prefix, FEED, "notices"), cell=FEED)
    assert KEPT_MS - 60_000 < left_ms <= KEPT_MS


async def test_what_several_see_is_noted_once(world: World) -> None:
    await noted(world, SUSPECT)
    assert await note(world.engine, like(SUSPECT, instance="i2", at_ms=T0 + SAME_MS - 1)) == Known()
    await noted(world, like(SUSPECT, about="n2"))
    await noted(world, like(SUSPECT, at_ms=T0 + SAME_MS))


async def test_what_is_told_by_an_answer_is_noted_however_often_it_happens(world: World) -> None:
    await noted(world, LOST)
    await noted(world, LOST)
    # And it does not stand between two looks.
    await noted(world, SUSPECT)
    await noted(world, like(LOST, kind="node_fenced"))
    await noted(world, like(LOST, about="n2"))
    assert await note(world.engine, SUSPECT) == Known()


@pytest.mark.parametrize("kind", sorted(STANDS))
async def test_what_is_seen_after_a_script_said_how_a_node_stands_is_news(world: World, kind: str) -> None:
    healed = like(SUSPECT, kind="node_silent" if kind == "node_healed" else "node_healed")
    await noted(world, healed)
    # It rests, or is lost, a second time within the minute: it is well, or silent, a second time.
    await noted(world, like(LOST, kind=kind, at_ms=T0 + 10))
    assert await note(world.engine, like(healed, at_ms=T0 + 9)) == Known()
    await noted(world, like(healed, at_ms=T0 + 20))
    assert await note(world.engine, like(healed, at_ms=T0 + 25, instance="i2")) == Known()


async def test_what_a_script_has_said_need_not_be_seen(world: World) -> None:
    await noted(world, like(LOST, kind="node_suspect"))
    assert await note(world.engine, like(SUSPECT, at_ms=T0 + 5)) == Known()


async def test_an_older_look_says_nothing_new(world: World) -> None:
    await noted(world, SUSPECT)
    healed = like(SUSPECT, kind="node_healed", at_ms=T0 + 10)
    await noted(world, healed)
    assert await note(world.engine, like(SUSPECT, at_ms=T0 + 9)) == Known()
    assert await note(world.engine, like(healed, at_ms=T0 + 9)) == Known()
    await noted(world, like(SUSPECT, at_ms=T0 + 10))


async def test_it_is_not_looked_back_for_ever(world: World) -> None:
    await noted(world, SUSPECT)
    other = like(LOST, about="n2")
    for _ in range(LOOKED_BACK - 1):
        await noted(world, other)
    assert await note(world.engine, SUSPECT) == Known()
    await noted(world, other)
    await noted(world, SUSPECT)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        msgspec.structs.astuple(LOST),
        like(LOST, kind="party"),
        like(LOST, about="x" * 257),
        like(LOST, detail="x" * 301),
        like(LOST, who=1),
        like(LOST, at_ms=-1),
        like(LOST, seen=1),
        like(LOST, detail="\ud800"),
    ],
)
async def test_what_is_no_notice_is_refused(world: World, wrong: Any) -> None:
    refusal = await note(world.engine, wrong)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "INVALID_MESSAGE"
    assert await found(world) == []


@pytest.mark.parametrize(("after", "limit"), [("x", 1), ("1-", 1), ("(1-0", 1), (None, 1), ("", 0), ("", MAX_KEPT + 1)])
async def test_a_wrong_page_is_refused(world: World, after: Any, limit: int) -> None:
    refusal = await read_feed(world.engine, after, limit)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "INVALID_MESSAGE"


def test_every_kind_says_what_it_is_about() -> None:
    assert {about for about, _ in KINDS.values()} == {"node", "pair", "job", "instance", "letter", "module", ""}
    assert all(means.endswith(".") for _, means in KINDS.values())
