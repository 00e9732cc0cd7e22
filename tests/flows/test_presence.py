"""enlist, appear, vanish, close_inbox, strike: who is there, and that no inbox is forgotten while a letter is in it."""

from __future__ import annotations

import asyncio
from itertools import permutations
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.letter import CLOSED_MS
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows import close_inbox as closing
from lingua_scheduler.flows.appear import Appeared, Closed, Taken, appear
from lingua_scheduler.flows.close_inbox import Open, close_inbox
from lingua_scheduler.flows.enlist import Enlisted, enlist
from lingua_scheduler.flows.post import post
from lingua_scheduler.flows.settle import settle
from lingua_scheduler.flows.strike import Struck, strike
from lingua_scheduler.flows.vanish import Vanished, vanish
from lingua_scheduler.views.instance import InstanceView, read_instance
from lingua_scheduler.views.instances import Directory, read_directory
from tests.support.mail import arrive, die, key, letter, listed, look, presence_of, read, send
from tests.support.stage import T0, code_of

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World


async def kept(world: World, name: str, instance_id: str = "a") -> Any:
    """The value of a key and the seconds that it lives."""
    packed = await world.engine.command("GET", key(world.engine, instance_id, name))
    left_ms = await world.engine.command("PTTL", key(world.engine, instance_id, name))
    return packed, round(left_ms / 1000)


async def seen(world: World, instance_id: str) -> tuple[object, int]:
    """What an instance says of itself, and the seconds for which that counts."""
    view = await read_instance(world.engine, instance_id)
    assert isinstance(view, InstanceView)
    return view.presence, round(view.left_ms / 1000)


async def test_an_instance_stands_in_the_directory_with_the_time_of_its_last_beat(world: World) -> None:
    assert await enlist(world.engine, "a") == Enlisted(T0)
    world.now_ms += 3_000
    assert await enlist(world.engine, "b") == Enlisted(T0 + 3_000)
    assert await read_directory(world.engine) == Directory(T0 + 3_000, [("a", T0), ("b", T0 + 3_000)])
    world.now_ms += 1
    assert await enlist(world.engine, "a") == Enlisted(T0 + 3_001)
    assert await listed(world) == {"a": T0 + 3_001, "b": T0 + 3_000}


async def test_each_beat_is_greater_than_the_last_even_if_time_stands_or_goes_back(world: World) -> None:
    answers = await asyncio.gather(*(enlist(world.engine, instance_id) for instance_id in ("a", "b", "a")))
    assert answers == [Enlisted(T0), Enlisted(T0), Enlisted(T0 + 1)]
    world.now_ms -= 1_000
    assert await enlist(world.engine, "a") == Enlisted(T0 + 2)
    assert await listed(world) == {"a": T0 + 2, "b": T0}


async def test_who_appears_is_there_for_a_while_and_has_an_inbox(world: World) -> None:
    await enlist(world.engine, "a")
    assert await look(world.engine, "a") == (False, 0, 0)
    assert await seen(world, "a") == (False, 0)
    assert await appear(world.engine, presence_of("a"), T0) == Appeared(False)
    assert await seen(world, "a") == (presence_of("a"), 10)
    assert await kept(world, "presence") == (msgspec.msgpack.encode(presence_of("a")), 10)
    assert await world.engine.command("EXISTS", key(world.engine, "a", "inbox")) == 1
    assert await look(world.engine, "b") == (False, 0, 0)


async def test_a_beat_prolongs_the_presence_and_says_the_news_and_leaves_the_letters(world: World) -> None:
    await arrive(world.engine, "a")
    await send(world.engine, "a", "one", "two")
    await read(world.engine, "a", limit=1)
    await world.engine.command("PEXPIRE", key(world.engine, "a", "presence"), 1_000)
    assert await appear(world.engine, presence_of("a", nodes=3), T0) == Appeared(True)
    assert await kept(world, "presence") == (msgspec.msgpack.encode(presence_of("a", nodes=3)), 10)
    assert await look(world.engine, "a") == (True, 2, 1)


async def test_who_was_gone_is_told_so_and_finds_its_letters(world: World) -> None:
    await arrive(world.engine, "a")
    await send(world.engine, "a", "one")
    await die(world.engine, "a")
    assert await appear(world.engine, presence_of("a"), T0 + 1) == Appeared(False)
    assert await read(world.engine, "a") == ["one"]


@pytest.mark.parametrize("said", [{"started_at_ms": 2_000}, {"host": "there"}, {"pid": 8}], ids=str)
async def test_the_name_of_another_process_that_is_there_is_its_own(world: World, said: dict[str, Any]) -> None:
    await arrive(world.engine, "a")
    another = msgspec.structs.replace(presence_of("a"), **said)
    await world.engine.command("PEXPIRE", key(world.engine, "a", "presence"), 2_000)
    for gone_since_ms in (0, 999):
        assert await appear(world.engine, another, T0 + 1, gone_since_ms) == Taken(presence_of("a"))
    assert await kept(world, "presence") == (msgspec.msgpack.encode(presence_of("a")), 2)
    assert await appear(world.engine, another, T0 + 1, 1_000) == Appeared(True), "it is known to be gone"
    assert await kept(world, "presence") == (msgspec.msgpack.encode(another), 10)


async def test_beats_of_one_tick_are_told_apart(world: World) -> None:
    answers = await asyncio.gather(*(appear(world.engine, presence_of("a", nodes=number), T0) for number in (1, 2)))
    assert answers == [Appeared(False), Appeared(True)]
    assert await seen(world, "a") == (presence_of("a", nodes=2), 10)


async def test_how_long_a_presence_lasts_is_a_setting(make_world: MakeWorld) -> None:
    world = await make_world(Rules(presence_ttl_ms=4_000))
    await arrive(world.engine, "a")
    assert (await kept(world, "presence"))[1] == 4


async def test_who_vanishes_is_gone_at_once_and_its_letters_stay(world: World) -> None:
    await arrive(world.engine, "a")
    await send(world.engine, "a", "one")
    assert await vanish(world.engine, presence_of("a")) == Vanished(True)
    assert await look(world.engine, "a") == (False, 1, 0)
    assert await vanish(world.engine, presence_of("a")) == Vanished(False)


async def test_nobody_takes_the_presence_of_another_process_of_its_name_away(world: World) -> None:
    await arrive(world.engine, "a")
    await appear(world.engine, presence_of("a", nodes=1), T0)
    answers = await asyncio.gather(*(vanish(world.engine, presence_of("a", nodes=number)) for number in (0, 2)))
    assert answers == [Vanished(False)] * 2
    assert (await look(world.engine, "a"))[0]


async def test_the_inbox_of_who_is_there_or_has_letters_is_not_closed(world: World) -> None:
    beat = await arrive(world.engine, "a")
    assert await close_inbox(world.engine, "a", beat) == Open()
    (number,) = await send(world.engine, "a", "one")
    assert await close_inbox(world.engine, "a", beat) == Open()
    await die(world.engine, "a")
    assert await close_inbox(world.engine, "a", beat) == Open()
    await read(world.engine, "a")
    assert await close_inbox(world.engine, "a", beat) == Open()
    assert await kept(world, "closed") == (None, 0)
    await settle(world.engine, "a", number)
    assert await close_inbox(world.engine, "a", beat) == closing.Closed()
    assert await world.engine.command("EXISTS", key(world.engine, "a", "inbox")) == 0
    assert await kept(world, "closed") == (str(beat).encode(), CLOSED_MS // 1000)


async def test_inboxes_of_one_tick_are_closed_once_each(world: World) -> None:
    beat = await arrive(world.engine, "a")
    await die(world.engine, "a")
    answers = await asyncio.gather(*(close_inbox(world.engine, "a", beat) for _ in range(2)))
    assert answers == [closing.Closed()] * 2


async def test_who_was_closed_after_it_had_enlisted_must_enlist_again(world: World) -> None:
    """Or it would have an inbox that stands in no directory."""
    await enlist(world.engine, "a")
    await close_inbox(world.engine, "a", T0)
    assert await appear(world.engine, presence_of("a"), T0) == Closed()
    assert await look(world.engine, "a") == (False, 0, 0)
    assert code_of(await post(world.engine, "a", letter())) == "INSTANCE_GONE"
    await strike(world.engine, "a", T0)
    world.now_ms += 1
    assert await arrive(world.engine, "a") == T0 + 1
    assert await look(world.engine, "a") == (True, 0, 0)


async def test_who_has_beaten_since_is_not_struck(world: World) -> None:
    await enlist(world.engine, "a")
    await enlist(world.engine, "b")
    world.now_ms += 1
    await enlist(world.engine, "a")
    assert await strike(world.engine, "a", T0) == Struck(False)
    assert await strike(world.engine, "c", T0) == Struck(False)
    assert await listed(world) == {"a": T0 + 1, "b": T0}
    answers = await asyncio.gather(*(strike(world.engine, "a", T0 + 1) for _ in range(2)))
    assert answers == [Struck(True), Struck(False)]
    assert await listed(world) == {"b": T0}


STEPS = ("enlist", "appear", "post", "close", "strike")


@pytest.mark.parametrize(
    "order",
    [
        order
        for order in permutations(STEPS)
        if order.index("enlist") < order.index("appear") and order.index("close") < order.index("strike")
    ],
    ids=" ".join,
)
async def test_in_whatever_order_one_comes_back_and_another_clears_up_no_letter_is_forgotten(
    world: World, order: tuple[str, ...]
) -> None:
    """The other saw the beat of the last life. Wherever a letter lies, the directory leads to it."""
    seen = await arrive(world.engine, "a")
    await die(world.engine, "a")
    enlisted: Enlisted | None = None
    is_closed = False
    for step in order:
        if step == "enlist":
            enlisted = await enlist(world.engine, "a")  # type: ignore[assignment]  # the name is right
        elif step == "appear" and enlisted is not None:
            await appear(world.engine, presence_of("a"), enlisted.beat)
        elif step == "post":
            await post(world.engine, "a", letter())
        elif step == "close":
            is_closed = await close_inbox(world.engine, "a", seen) == closing.Closed()
        elif is_closed:
            await strike(world.engine, "a", seen)
    is_there, letters, _ = await look(world.engine, "a")
    assert not (is_there or letters) or "a" in await listed(world)


async def test_one_that_sees_the_beat_before_its_appearance_forgets_no_letter_either(world: World) -> None:
    """The one whose inbox is closed was between enlisting and appearing, and did not know."""
    enlisted = await enlist(world.engine, "a")
    assert isinstance(enlisted, Enlisted)
    assert await close_inbox(world.engine, "a", enlisted.beat) == closing.Closed()
    appeared = await appear(world.engine, presence_of("a"), enlisted.beat)
    sent = await post(world.engine, "a", letter())
    await strike(world.engine, "a", enlisted.beat)
    assert (appeared, code_of(sent), await listed(world)) == (Closed(), "INSTANCE_GONE", {})


@pytest.mark.parametrize("instance_id", ["", "a b", "{a}", "a:b", "x" * 129, None, 7])
async def test_what_cannot_be_right_never_reaches_the_engine(world: World, instance_id: Any) -> None:
    presence = msgspec.structs.replace(presence_of("a"), instance=instance_id)
    answers = [
        await enlist(world.engine, instance_id),
        await appear(world.engine, presence, 1),
        await vanish(world.engine, presence),
        await close_inbox(world.engine, instance_id, 1),
        await strike(world.engine, instance_id, 1),
        await read_instance(world.engine, instance_id),
    ]
    assert {code_of(answer) for answer in answers} == {"INVALID_MESSAGE"}
    assert await world.keys() == 0


@pytest.mark.parametrize("beat", [-1, 2**53 + 1, 1.0, True, None, "1"])
async def test_a_beat_is_a_time(world: World, beat: Any) -> None:
    answers = [
        await appear(world.engine, presence_of("a"), beat),
        await close_inbox(world.engine, "a", beat),
        await strike(world.engine, "a", beat),
    ]
    assert {code_of(answer) for answer in answers} == {"INVALID_MESSAGE"}
    assert await world.keys() == 0


async def test_only_a_presence_appears(world: World) -> None:
    nothing: Any = None
    assert code_of(await appear(world.engine, nothing, 1)) == "INVALID_MESSAGE"
    assert code_of(await vanish(world.engine, nothing)) == "INVALID_MESSAGE"
