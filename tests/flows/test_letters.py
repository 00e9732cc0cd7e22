"""post, collect, take_over, settle: a letter is in its inbox until somebody has handled it, whoever dies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.letter import MAX_DETAIL_CHARS, Letter, Parcel
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.collect import Letters, collect, collect_again, collect_pending
from lingua_scheduler.flows.mail import parcels
from lingua_scheduler.flows.post import Sent, post
from lingua_scheduler.flows.settle import Settled, settle
from lingua_scheduler.flows.take_over import Alive, Inherited, take_over
from lingua_scheduler.store.keys import instance_tag
from tests.support.mail import arrive, die, key, letter, look, pending, read, rest, send
from tests.support.stage import code_of

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

LEASE_MS = 60_000


def said(answer: object) -> list[tuple[str, int]]:
    """What the letters of an answer say, and how often each was handed out."""
    assert isinstance(answer, Letters | Inherited), answer
    return [(found.detail, deliveries) for _, deliveries, found in answer.letters]


async def test_a_letter_is_put_into_the_inbox_of_who_is_there(world: World) -> None:
    await arrive(world.engine, "a", "b")
    sent = await post(world.engine, "a", letter())
    assert isinstance(sent, Sent)
    ((number, fields),) = await world.engine.command("XRANGE", key(world.engine, "a", "inbox"), "-", "+")
    assert number.decode() == sent.number
    assert fields == [b"letter", msgspec.msgpack.encode(letter())]
    assert await look(world.engine, "b") == (True, 0, 0)


async def test_nobody_writes_to_who_is_gone(world: World) -> None:
    assert code_of(await post(world.engine, "a", letter())) == "INSTANCE_GONE"
    await arrive(world.engine, "a")
    await die(world.engine, "a")
    refused = await post(world.engine, "a", letter())
    assert code_of(refused) == "INSTANCE_GONE"
    assert refused.detail == "No instance a is there, or not any more; nothing was sent."  # type: ignore[union-attr]
    assert await look(world.engine, "a") == (False, 0, 0)


async def test_nobody_writes_where_somebody_took_the_inbox_away_by_hand(world: World) -> None:
    await arrive(world.engine, "a")
    await world.engine.command("DEL", key(world.engine, "a", "inbox"))
    assert code_of(await post(world.engine, "a", letter())) == "INSTANCE_GONE"
    assert await world.engine.command("EXISTS", key(world.engine, "a", "inbox")) == 0
    await arrive(world.engine, "a")
    await send(world.engine, "a", "one")
    assert await read(world.engine, "a") == ["one"]


async def test_a_full_inbox_refuses_and_loses_nothing(make_world: MakeWorld) -> None:
    world = await make_world(Rules(inbox_max=2))
    await arrive(world.engine, "a")
    answers = await asyncio.gather(*(post(world.engine, "a", letter(str(number))) for number in range(4)))
    assert [code_of(answer) for answer in answers] == ["", "", "INBOX_FULL", "INBOX_FULL"]
    assert await read(world.engine, "a") == ["0", "1"]
    assert code_of(await post(world.engine, "a", letter())) == "INBOX_FULL", "what is taken is still there"
    first = answers[0]
    assert isinstance(first, Sent)
    await settle(world.engine, "a", first.number)
    assert code_of(await post(world.engine, "a", letter("4"))) == ""


async def test_new_letters_are_taken_once_in_their_order(world: World) -> None:
    await arrive(world.engine, "a")
    numbers = await send(world.engine, "a", "one", "two", "three")
    taken = await collect(world.engine, "a", "a", 2)
    assert taken == Letters([(numbers[0], 1, letter("one")), (numbers[1], 1, letter("two"))], numbers[2])
    assert await pending(world.engine, "a") == {numbers[0]: ("a", 1), numbers[1]: ("a", 1)}
    assert said(await collect(world.engine, "a", "a", 2)) == [("three", 1)]
    assert await collect(world.engine, "a", "a", 2) == Letters([], numbers[2])
    assert await look(world.engine, "a") == (True, 3, 3)


async def test_an_empty_inbox_and_one_that_is_not_there_have_no_last_letter(world: World) -> None:
    assert await collect(world.engine, "a", "a", 1) == Letters([], "0-0")
    assert await collect_pending(world.engine, "a", "a", "", 1) == Letters([], "0-0")
    assert await world.keys() == 0
    await arrive(world.engine, "a")
    assert await collect(world.engine, "a", "a", 1) == Letters([], "0-0")


async def test_after_a_restart_one_s_own_letters_come_first_page_by_page(world: World) -> None:
    await arrive(world.engine, "a")
    numbers = await send(world.engine, "a", "one", "two", "three", "four")
    await read(world.engine, "a", limit=3)
    first = await collect_pending(world.engine, "a", "a", "", 2)
    assert said(first) == [("one", 2), ("two", 2)]
    assert said(await collect_pending(world.engine, "a", "a", numbers[1], 2)) == [("three", 2)]
    assert said(await collect_pending(world.engine, "a", "a", numbers[2], 2)) == []
    assert said(await collect(world.engine, "a", "a", 2)) == [("four", 1)]
    assert await pending(world.engine, "a") == {
        **dict.fromkeys(numbers[:3], ("a", 2)),
        numbers[3]: ("a", 1),
    }


async def test_a_letter_is_taken_again_by_who_has_it_and_nobody_else(world: World) -> None:
    await arrive(world.engine, "a")
    numbers = await send(world.engine, "a", "one", "two", "three")
    await read(world.engine, "a", limit=2)
    assert said(await collect_again(world.engine, "a", "a", numbers[1])) == [("two", 2)]
    assert said(await collect_again(world.engine, "a", "b", numbers[1])) == []
    assert said(await collect_again(world.engine, "a", "a", numbers[2])) == [], "nobody has taken it yet"
    await settle(world.engine, "a", numbers[1])
    assert said(await collect_again(world.engine, "a", "a", numbers[1])) == []
    assert await pending(world.engine, "a") == {numbers[0]: ("a", 1)}


async def test_askings_of_one_tick_each_get_their_own_letters(world: World) -> None:
    await arrive(world.engine, "a")
    await send(world.engine, "a", "one", "two")
    answers = await asyncio.gather(*(collect(world.engine, "a", "a", 1) for _ in range(3)))
    assert [said(answer) for answer in answers] == [[("one", 1)], [("two", 1)], []]


async def test_a_letter_that_somebody_cut_out_holds_up_nobody(world: World) -> None:
    await arrive(world.engine, "a")
    numbers = await send(world.engine, "a", "one", "two")
    await read(world.engine, "a")
    await world.engine.command("XDEL", key(world.engine, "a", "inbox"), numbers[0])
    assert said(await collect_pending(world.engine, "a", "a", "", 10)) == [("two", 2)]
    assert list(await pending(world.engine, "a")) == [numbers[1]]


async def test_what_is_settled_is_gone_whoever_has_it(world: World) -> None:
    await arrive(world.engine, "a")
    numbers = await send(world.engine, "a", "one", "two", "three")
    await read(world.engine, "a", limit=2)
    answers = await asyncio.gather(*(settle(world.engine, "a", number) for number in (*numbers[:2], numbers[0])))
    assert answers == [Settled(True), Settled(True), Settled(False)]
    assert await look(world.engine, "a") == (True, 1, 0)
    assert await settle(world.engine, "b", numbers[0]) == Settled(False)
    assert await read(world.engine, "a") == ["three"]


async def test_nobody_reads_the_letters_of_who_is_there(world: World) -> None:
    await arrive(world.engine, "a")
    await send(world.engine, "a", "one")
    assert await take_over(world.engine, "a", "b", 10) == Alive()
    assert await look(world.engine, "a") == (True, 1, 0)


async def test_the_letters_of_who_is_gone_become_another_s_at_once(world: World) -> None:
    await arrive(world.engine, "a")
    numbers = await send(world.engine, "a", "one", "two", "three")
    await read(world.engine, "a", limit=2)
    await die(world.engine, "a")
    inherited = await take_over(world.engine, "a", "b", 10)
    assert said(inherited) == [("one", 2), ("two", 2), ("three", 1)]
    assert isinstance(inherited, Inherited)
    assert parcels("a", inherited.letters)[2] == Parcel("a", numbers[2], 1, letter("three"))
    assert await pending(world.engine, "a") == {
        **dict.fromkeys(numbers[:2], ("b", 2)),
        numbers[2]: ("b", 1),
    }


async def test_what_one_took_over_another_takes_when_the_lease_is_over_and_not_before(world: World) -> None:
    await arrive(world.engine, "a")
    numbers = await send(world.engine, "a", "one", "two")
    await die(world.engine, "a")
    await take_over(world.engine, "a", "b", 10)
    # Some margin: while this test runs, time goes on.
    await rest(world.engine, "a", "b", numbers[0], LEASE_MS)
    await rest(world.engine, "a", "b", numbers[1], LEASE_MS - 30_000)
    assert said(await take_over(world.engine, "a", "c", 10)) == [("one", 2)]
    assert said(await take_over(world.engine, "a", "c", 10)) == [], "from now on it is his"
    assert await pending(world.engine, "a") == {numbers[0]: ("c", 2), numbers[1]: ("b", 1)}


async def test_how_long_that_lease_is_is_a_setting(make_world: MakeWorld) -> None:
    world = await make_world(Rules(letter_lease_ms=30_000))
    await arrive(world.engine, "a")
    (number,) = await send(world.engine, "a", "one")
    await die(world.engine, "a")
    await take_over(world.engine, "a", "b", 10)
    await rest(world.engine, "a", "b", number, 30_000)
    assert said(await take_over(world.engine, "a", "c", 10)) == [("one", 2)]


async def test_who_takes_over_takes_no_more_of_each_sort_than_he_asked_for(world: World) -> None:
    await arrive(world.engine, "a")
    numbers = await send(world.engine, "a", *"abcdef")
    await die(world.engine, "a")
    await read(world.engine, "a", "b", limit=2)
    for number in numbers[:2]:
        await rest(world.engine, "a", "b", number, LEASE_MS)
    await read(world.engine, "a", limit=2)
    assert said(await take_over(world.engine, "a", "c", 1)) == [("c", 2), ("e", 1), ("a", 2)]
    assert said(await take_over(world.engine, "a", "c", 1)) == [("d", 2), ("f", 1), ("b", 2)]
    assert said(await take_over(world.engine, "a", "c", 1)) == []


async def test_two_who_take_over_at_once_share_the_letters(world: World) -> None:
    await arrive(world.engine, "a")
    await send(world.engine, "a", "one", "two")
    await die(world.engine, "a")
    answers = await asyncio.gather(*(take_over(world.engine, "a", reader, 1) for reader in ("b", "c")))
    assert [said(answer) for answer in answers] == [[("one", 1)], [("two", 1)]]


async def test_an_inbox_that_is_not_there_has_no_heirs(world: World) -> None:
    for reader in ("a", "b"):
        assert await take_over(world.engine, "a", reader, 10) == Inherited([])
    assert await world.keys() == 0


async def test_the_owner_who_is_back_takes_what_a_dead_heir_left_and_nothing_else(world: World) -> None:
    await arrive(world.engine, "a")
    numbers = await send(world.engine, "a", "one", "two")
    await die(world.engine, "a")
    await take_over(world.engine, "a", "b", 10)
    await rest(world.engine, "a", "b", numbers[0], LEASE_MS)
    await arrive(world.engine, "a")
    await send(world.engine, "a", "three", "four")
    await read(world.engine, "a", limit=1)
    assert said(await take_over(world.engine, "a", "a", 10)) == [("one", 2)]
    assert [reader for reader, _ in (await pending(world.engine, "a")).values()] == ["a", "b", "a"]
    assert await read(world.engine, "a") == ["four"]


async def test_an_owner_who_is_back_forgets_who_read_his_letters_and_has_none_any_more(world: World) -> None:
    """However often he is away; what somebody still has stays his."""
    inbox = key(world.engine, "a", "inbox")

    async def readers() -> list[str]:
        found = await world.engine.command("XINFO", "CONSUMERS", inbox, "readers", cell=instance_tag("a"))
        return [reader[1].decode() for reader in found]

    await arrive(world.engine, "a")
    await send(world.engine, "a", "kept")
    for number in range(20):
        await send(world.engine, "a", "other")
        await die(world.engine, "a")
        await take_over(world.engine, "a", f"heir-{number}", 10)
        for taken, *_ in (await world.engine.command("XRANGE", inbox, "-", "+", cell=instance_tag("a")))[1:]:
            await settle(world.engine, "a", taken.decode())
        assert await readers() == ["heir-0", *([f"heir-{number}"] if number else [])]
        await arrive(world.engine, "a")
        assert await readers() == ["heir-0"]
    assert await look(world.engine, "a") == (True, 1, 1)


async def test_what_an_owner_that_only_slept_still_settles_is_settled(world: World) -> None:
    await arrive(world.engine, "a")
    (number,) = await send(world.engine, "a", "one")
    await read(world.engine, "a")
    await die(world.engine, "a")
    await take_over(world.engine, "a", "b", 10)
    assert await settle(world.engine, "a", number) == Settled(True)
    assert said(await collect_again(world.engine, "a", "b", number)) == []
    assert await look(world.engine, "a") == (False, 0, 0)


JUNK = ["", "{a}", "a:b", "x" * 129, None, 7]


@pytest.mark.parametrize("junk", JUNK)
async def test_an_instance_has_an_id(world: World, junk: Any) -> None:
    answers = [
        await post(world.engine, junk, letter()),
        await collect(world.engine, junk, "a", 1),
        await collect(world.engine, "a", junk, 1),
        await take_over(world.engine, junk, "a", 1),
        await take_over(world.engine, "a", junk, 1),
        await settle(world.engine, junk, "1-0"),
    ]
    assert {code_of(answer) for answer in answers} == {"INVALID_MESSAGE"}
    assert await world.keys() == 0


@pytest.mark.parametrize("junk", ["-", "1", "1-", "-1", "1-0-0", "(1-0", "x-0", "1" * 21 + "-0", None, 1])
async def test_a_letter_has_a_number(world: World, junk: Any) -> None:
    answers = [
        await collect_pending(world.engine, "a", "a", junk, 1) if junk else None,
        await collect_again(world.engine, "a", "a", junk),
        await settle(world.engine, "a", junk),
    ]
    assert {code_of(answer) for answer in answers if answer is not None} == {"INVALID_MESSAGE"}


@pytest.mark.parametrize("limit", [0, -1, 1_001, True, None, 1.0])
async def test_nobody_takes_everything_at_once(world: World, limit: Any) -> None:
    assert code_of(await collect(world.engine, "a", "a", limit)) == "INVALID_MESSAGE"
    assert code_of(await take_over(world.engine, "a", "b", limit)) == "INVALID_MESSAGE"


@pytest.mark.parametrize(
    "wrong",
    [
        *({"kind": value} for value in ("", "a b", None)),
        *({name: "x" * 129} for name in ("job", "node", "session", "trace")),
        *({name: None} for name in ("job", "node", "session", "trace", "detail", "attempt")),
        {"attempt": -1},
        {"attempt": True},
        {"detail": "x" * (MAX_DETAIL_CHARS + 1)},
        {"detail": "\ud800"},
    ],
    ids=str,
)
async def test_a_letter_is_small_and_what_it_should_be(world: World, wrong: dict[str, Any]) -> None:
    await arrive(world.engine, "a")
    assert code_of(await post(world.engine, "a", msgspec.structs.replace(letter(), **wrong))) == "INVALID_MESSAGE"
    nothing: Any = ("news",)
    assert code_of(await post(world.engine, "a", nothing)) == "INVALID_MESSAGE"
    assert await look(world.engine, "a") == (True, 0, 0)


def test_letters_about_the_same_belong_together() -> None:
    full = Letter("k", "c0.a", 1, "n1", "s1")
    for about, *left_out in (("c0.a",), ("s1", "job"), ("n1", "job", "session"), ("k", "job", "session", "node")):
        assert msgspec.structs.replace(full, **dict.fromkeys(left_out, "")).about == about
