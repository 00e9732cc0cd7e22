"""The undertaker: no letter of an instance that is gone is lost, and nobody is struck out who may get one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.flows.strike import Struck, strike
from lingua_scheduler.loops.postman import MAX_CARRIED
from lingua_scheduler.loops.undertaker import Undertaker
from tests.support.house import eventually
from tests.support.logs import told
from tests.support.mail import arrive, die, listed, look, pending, read, rest, send
from tests.support.post_office import Addressee, bell_of, kill, postman_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.store.engine import Engine
    from tests.support.servers import Server
    from tests.support.world import World

BEAT_MS = 3_000
#: Older than this, somebody looks.
FRESH_MS = BEAT_MS + 1_000


@pytest.fixture
async def bell(server: Server, world: World) -> AsyncIterator[Engine]:
    await arrive(world.engine, "a", "b")
    async with bell_of(server.url, world.engine) as bell:
        yield bell


async def nobody(_instance_id: str) -> None:
    """Whoever is gone held nothing."""


async def left(world: World, instance_id: str = "a") -> int:
    return (await look(world.engine, instance_id))[1]


async def test_the_letters_of_who_is_gone_are_handled_and_it_is_struck_out(
    world: World, bell: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    await send(world.engine, "a", "one", "two", "three")
    await read(world.engine, "a", limit=2)
    await die(world.engine, "a")
    world.now_ms += FRESH_MS
    addressee = Addressee()
    async with postman_of(world.engine, bell, "b", addressee) as postman:
        undertaker = Undertaker(world.engine, 1, BEAT_MS, postman, nobody)
        assert await undertaker.turn()

        async def is_empty() -> bool:
            return await left(world) == 0

        await eventually(is_empty)
        assert not await undertaker.turn()
    assert addressee.read == ["one", "two", "three"]
    assert list(await listed(world)) == ["b"]
    assert [(one["number"], one["instance_id"]) for one in told(caplog, "take_over")] == [(3, "a")]
    assert [one["instance_id"] for one in told(caplog, "close_inbox")] == ["a"]


async def test_who_says_that_it_ends_is_asked_for_at_once(world: World, bell: Engine) -> None:
    await send(world.engine, "a", "one")
    await die(world.engine, "a")
    addressee = Addressee()
    async with (
        postman_of(world.engine, bell, "b", addressee) as postman,
        Undertaker(world.engine, 3_600_000, BEAT_MS, postman, nobody) as undertaker,
    ):
        undertaker.hear("a")
        undertaker.hear("b")

        async def is_struck_out() -> bool:
            undertaker.hear("a")
            return list(await listed(world)) == ["b"]

        await eventually(is_struck_out)
    assert addressee.read == ["one"]


async def test_who_is_there_is_left_alone_however_old_its_beat(world: World, bell: Engine) -> None:
    await send(world.engine, "a", "one")
    world.now_ms += 86_400_000
    postman = postman_of(world.engine, bell, "b", Addressee())
    assert not await Undertaker(world.engine, 1, BEAT_MS, postman, nobody).turn()
    assert await look(world.engine, "a") == (True, 1, 0)
    assert sorted(await listed(world)) == ["a", "b"]


@pytest.mark.parametrize(
    ("age_ms", "is_asked"), [(0, False), (FRESH_MS - 1, False), (FRESH_MS, True), (-1, True)], ids=str
)
async def test_who_has_just_beaten_is_not_asked_for_unless_by_a_clock_that_is_ahead(
    world: World, bell: Engine, age_ms: int, is_asked: bool
) -> None:
    await die(world.engine, "a", "b")
    world.now_ms += age_ms
    postman = postman_of(world.engine, bell, "b", Addressee())
    await Undertaker(world.engine, 1, BEAT_MS, postman, nobody).turn()
    assert ("a" not in await listed(world)) == is_asked
    assert "b" in await listed(world), "that is himself"


async def test_a_busy_postman_leaves_the_letters_to_others(world: World, bell: Engine) -> None:
    await send(world.engine, "a", "one")
    await die(world.engine, "a")
    world.now_ms += FRESH_MS
    postman = postman_of(world.engine, bell, "b", Addressee())
    postman._on_way = MAX_CARRIED
    assert not await Undertaker(world.engine, 1, BEAT_MS, postman, nobody).turn()
    assert await look(world.engine, "a") == (False, 1, 0)
    assert "a" in await listed(world)


async def test_an_heir_that_is_killed_has_heirs(world: World, bell: Engine) -> None:
    await arrive(world.engine, "c")
    (number,) = await send(world.engine, "a", "one")
    await die(world.engine, "a")
    world.now_ms += FRESH_MS
    first = Addressee()
    first.gates["one"] = asyncio.Event()
    postman = await postman_of(world.engine, bell, "b", first).__aenter__()
    assert await Undertaker(world.engine, 1, BEAT_MS, postman, nobody).turn()
    assert first.begun == ["one"]
    await kill(postman)
    second = Addressee()
    async with postman_of(world.engine, bell, "c", second) as postman:
        undertaker = Undertaker(world.engine, 1, BEAT_MS, postman, nobody)
        assert not await undertaker.turn(), "not before the lease is over"
        await rest(world.engine, "a", "b", number, 60_000)
        assert await undertaker.turn()

        async def is_empty() -> bool:
            return await left(world) == 0

        await eventually(is_empty)
    assert second.read == ["one"]


async def test_the_owner_takes_back_what_a_dead_heir_left_and_handles_it_as_his_own(world: World, bell: Engine) -> None:
    (number,) = await send(world.engine, "b", "one")
    await read(world.engine, "b", "c")
    addressee = Addressee()
    async with postman_of(world.engine, bell, "b", addressee) as postman:
        undertaker = Undertaker(world.engine, 1, BEAT_MS, postman, nobody)
        assert not await undertaker.turn()
        assert await pending(world.engine, "b") == {number: ("c", 1)}
        await rest(world.engine, "b", "c", number, 60_000)
        assert await undertaker.turn()

        async def is_empty() -> bool:
            return await left(world, "b") == 0

        await eventually(is_empty)
    assert addressee.read == ["one"]


async def test_two_undertakers_at_once_lose_nothing_and_handle_each_letter_once(world: World, bell: Engine) -> None:
    await arrive(world.engine, "c")
    details = [str(number) for number in range(3 * MAX_CARRIED)]
    await send(world.engine, "a", *details)
    await die(world.engine, "a")
    world.now_ms += FRESH_MS
    addressee = Addressee()
    async with (
        postman_of(world.engine, bell, "b", addressee) as one,
        postman_of(world.engine, bell, "c", addressee) as other,
        Undertaker(world.engine, 1, BEAT_MS, one, nobody),
        Undertaker(world.engine, 1, BEAT_MS, other, nobody),
    ):

        async def is_struck() -> bool:
            return "a" not in await listed(world)

        await eventually(is_struck)
    assert sorted(addressee.read) == sorted(details)


async def test_an_undertaker_for_nobody_says_so(world: World, bell: Engine) -> None:
    postman = postman_of(world.engine, bell, "no body", Addressee())
    with pytest.raises(LinguaError, match="instance_id must be"):
        await Undertaker(world.engine, 1, BEAT_MS, postman, nobody).turn()


async def test_who_was_struck_out_by_another_is_forgotten(world: World, bell: Engine) -> None:
    """And so it is told of again if it comes back, and goes again."""
    gone: list[str] = []

    async def bereave(instance_id: str) -> None:
        gone.append(instance_id)

    await send(world.engine, "a", "one")
    await die(world.engine, "a")
    world.now_ms += FRESH_MS
    postman = postman_of(world.engine, bell, "b", Addressee())
    undertaker = Undertaker(world.engine, 1, BEAT_MS, postman, bereave)
    postman._on_way = MAX_CARRIED  # Its letters are another's.
    await undertaker.turn()
    beat = (await listed(world))["a"]
    assert isinstance(await strike(world.engine, "a", beat), Struck)
    await undertaker.turn()
    await arrive(world.engine, "a")
    await die(world.engine, "a")
    world.now_ms += FRESH_MS
    await undertaker.turn()
    assert gone == ["a", "a"]
