"""Audio: kept under its own name, bounded in size and time, erased when nobody needs it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.audios import MAX_AUDIO_BYTES
from lingua_scheduler.flows.erase_audio import Erased, erase_audio
from lingua_scheduler.flows.keep_audio import Kept, keep_audio
from lingua_scheduler.flows.store_audio import Stored, store_audio
from lingua_scheduler.store.keys import audio_tag, cell_key
from lingua_scheduler.views.audio import Audio, read_audio
from tests.support.cells import watch
from tests.support.stage import code_of, join

if TYPE_CHECKING:
    from tests.support.world import World

#: Nothing that is text in any encoding.
SOUND = bytes(range(256)) * 3


def key_of(world: World, ref: str = "a1") -> str:
    return cell_key(world.engine.prefix, audio_tag(ref), "audio")


async def seconds_left(world: World, ref: str = "a1") -> int:
    return round(int(await world.engine.command("PTTL", key_of(world, ref))) / 1000)


async def put(world: World, audio: bytes = SOUND, ref: str = "a1", owner: str = "ann", **how: int) -> Stored | Refusal:
    return await store_audio(world.engine, ref, audio, owner=owner, media="pcm16", **({"ttl_ms": 120_000} | how))


async def test_what_is_stored_is_read_as_it_was_for_a_while(world: World) -> None:
    assert await put(world) == Stored()
    assert await read_audio(world.engine, "a1") == Audio("ann", "pcm16", SOUND)
    assert await seconds_left(world) == 120


@pytest.mark.parametrize("size", [1, 2**16, MAX_AUDIO_BYTES])
async def test_audio_of_any_size_comes_back_whole(world: World, size: int) -> None:
    sound = (SOUND * (size // len(SOUND) + 1))[:size]
    assert await put(world, sound) == Stored()
    assert await read_audio(world.engine, "a1") == Audio("ann", "pcm16", sound)


async def test_it_is_no_part_of_a_cell(world: World) -> None:
    await join(world)
    _, changes = await watch(world, put(world))
    assert changes == {}


async def test_each_ref_is_an_audio_of_its_own(world: World) -> None:
    await asyncio.gather(put(world, b"one", "a1"), put(world, b"two", "a2", owner=""))
    found = await asyncio.gather(*(read_audio(world.engine, ref) for ref in ("a1", "a2", "a1")))
    one = Audio("ann", "pcm16", b"one")
    assert found == [one, Audio("", "pcm16", b"two"), one]


async def test_its_owner_may_store_it_again_and_nobody_else(world: World) -> None:
    assert [await put(world, b"one"), await put(world, b"two")] == [Stored()] * 2
    assert code_of(await put(world, b"three", owner="bob")) == "FORBIDDEN"
    assert code_of(await put(world, b"three", owner="")) == "FORBIDDEN"
    assert await read_audio(world.engine, "a1") == Audio("ann", "pcm16", b"two")


async def test_of_two_in_one_tick_the_first_has_the_ref(world: World) -> None:
    answers = await asyncio.gather(put(world, b"one"), put(world, b"two", owner="bob"), put(world, b"three"))
    assert [code_of(answer) for answer in answers] == ["", "FORBIDDEN", ""]
    assert await read_audio(world.engine, "a1") == Audio("ann", "pcm16", b"three")


@pytest.mark.parametrize(("again_ms", "left_s"), [(60_000, 120), (300_000, 300)])
async def test_what_is_stored_again_keeps_the_longer_of_its_times(world: World, again_ms: int, left_s: int) -> None:
    await put(world)
    await put(world, ttl_ms=again_ms)
    assert await seconds_left(world) == left_s


@pytest.mark.parametrize(("for_ms", "left_s"), [(60_000, 120), (300_000, 300)])
async def test_it_may_be_kept_for_longer_but_never_for_less(world: World, for_ms: int, left_s: int) -> None:
    await put(world)
    assert await keep_audio(world.engine, "a1", owner="ann", for_ms=for_ms) == Kept()
    assert await seconds_left(world) == left_s


async def test_it_is_kept_for_whoever_needs_it_longest(world: World) -> None:
    await put(world)
    waits = (200_000, 900_000, 300_000)
    answers = await asyncio.gather(*(keep_audio(world.engine, "a1", owner="ann", for_ms=for_ms) for for_ms in waits))
    assert (answers, await seconds_left(world)) == ([Kept()] * 3, 900)


@pytest.mark.parametrize("owner", ["bob", ""])
async def test_to_others_than_its_owner_it_is_unknown_and_they_keep_nothing(world: World, owner: str) -> None:
    await put(world)
    answers = [await keep_audio(world.engine, ref, owner=owner, for_ms=900_000) for ref in ("a1", "a2")]
    assert [code_of(answer) for answer in answers] == ["UNKNOWN_AUDIO"] * 2
    assert await seconds_left(world) == 120


async def test_what_is_erased_is_gone_at_once(world: World) -> None:
    await put(world)
    answers = await asyncio.gather(*(erase_audio(world.engine, "a1") for _ in range(2)))
    assert answers == [Erased(True), Erased(False)]
    assert await world.engine.command("EXISTS", key_of(world)) == 0


async def test_audio_that_is_not_there_or_not_any_more_is_unknown(world: World) -> None:
    await put(world)
    await world.engine.command("PEXPIRE", key_of(world), 0)
    refused = [await read_audio(world.engine, "a1"), await keep_audio(world.engine, "a1", owner="ann", for_ms=1_000)]
    for refusal in refused:
        assert isinstance(refusal, Refusal)
        assert (refusal.code, refusal.status, refusal.retryable) == ("UNKNOWN_AUDIO", 404, False)
        assert "a1" in refusal.detail
    assert await erase_audio(world.engine, "a1") == Erased(False)
    assert await world.keys() == 0


async def test_what_is_larger_than_may_be_is_refused_with_how_large_it_may_be(world: World) -> None:
    assert await put(world, b"four", max_bytes=4) == Stored()
    await erase_audio(world.engine, "a1")
    refusal = await put(world, b"fives", max_bytes=4)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.status) == ("PAYLOAD_TOO_LARGE", 413)
    assert refusal.detail == "The audio has 5 bytes; at most 4 are taken."
    assert code_of(await put(world, bytes(MAX_AUDIO_BYTES + 1))) == "PAYLOAD_TOO_LARGE"
    assert await world.keys() == 0


@pytest.mark.parametrize("ref", ["", "a{1}", "a:1", "blob://x", "-a", "a" * 129, None, 7])
async def test_what_is_no_ref_is_invalid_and_writes_nothing(world: World, ref: str) -> None:
    answers = [
        await put(world, ref=ref),
        await keep_audio(world.engine, ref, owner="ann", for_ms=1),
        await erase_audio(world.engine, ref),
        await read_audio(world.engine, ref),
    ]
    assert [code_of(answer) for answer in answers] == ["INVALID_MESSAGE"] * 4
    assert await world.keys() == 0


@pytest.mark.parametrize(
    "how",
    [
        {"audio": b""},
        {"audio": "text"},
        {"audio": bytearray(b"x")},
        {"ttl_ms": 0},
        {"ttl_ms": 172_800_001},
        {"ttl_ms": None},
        {"owner": "o" * 129},
        {"owner": None},
        {"media": "m" * 129},
        {"max_bytes": 0},
        {"max_bytes": MAX_AUDIO_BYTES + 1},
    ],
)
async def test_audio_is_never_without_bounds(world: World, how: dict[str, object]) -> None:
    good = {"audio": SOUND, "owner": "ann", "media": "pcm16", "ttl_ms": 1_000}
    answer = await store_audio(world.engine, "a1", **(good | how))  # type: ignore[arg-type]  # wrong on purpose
    assert code_of(answer) == "INVALID_MESSAGE"
    assert await world.keys() == 0


@pytest.mark.parametrize("for_ms", [0, 172_800_001, 1.5])
async def test_it_is_kept_for_no_time_that_cannot_be_right(world: World, for_ms: int) -> None:
    await put(world)
    assert code_of(await keep_audio(world.engine, "a1", owner="ann", for_ms=for_ms)) == "INVALID_MESSAGE"
    assert await seconds_left(world) == 120


async def test_what_is_shown_of_audio_has_no_bytes(world: World) -> None:
    await put(world, b"secret")
    assert repr(await read_audio(world.engine, "a1")) == "Audio(owner='ann', media='pcm16', audio=<6 bytes>)"
