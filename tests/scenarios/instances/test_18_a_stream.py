"""An instance is killed, or stops, while somebody streams: what was said is in the utterance that ends elsewhere."""

from __future__ import annotations

import asyncio
import base64
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from lingua_scheduler.protocol.frames import AudioFrame, encode_frame
from lingua_scheduler.sdk import Client, Result
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import cell_key, session_tag
from tests.support.balancer import Balancer
from tests.support.house import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.scenarios.doors.conftest import Start
    from tests.support.house import Scheduler
    from tests.support.people import Client as Raw
    from tests.support.people import Node
    from tests.support.servers import Server

#: A tenth of a second.
CHUNK_BYTES: Final = 3_200
QUICK: Final[dict[str, Any]] = {"instance__presence_ttl_ms": "1500", "instance__presence_beat_ms": "300"}
SOON: Final = QUICK | {"sessions__keep_every_ms": "50"}
NEVER: Final = QUICK | {"sessions__keep_every_ms": "60000"}


def sound(number: int) -> bytes:
    """A chunk that is like no other."""
    return bytes([number]) * CHUNK_BYTES


def heard(job: dict[str, Any]) -> list[int]:
    """Which chunks an utterance has."""
    audio = base64.b64decode(job["audio"])
    return [audio[start] for start in range(0, len(audio), CHUNK_BYTES)]


async def speak(client: Raw, *numbers: int, binary: bool = False, is_final: bool = False) -> None:
    """These chunks; the last one may end an utterance."""
    for number in numbers:
        ends = is_final and number == numbers[-1]
        if binary:
            await client.send(encode_frame(AudioFrame(client.session_id, number, 0, ends, sound(number))))
        else:
            payload = base64.b64encode(sound(number)).decode()
            await client.say("audio_chunk", session_id=client.session_id, seq=number, payload=payload, is_final=ends)
    await client.was_read()


async def are_kept(store: Server, client: Raw, *chunks: int) -> None:
    """Until the engine has so many that may be in no job."""
    async with await Engine.connect(store.url, "lingua:v1") as engine:
        key = cell_key(engine.prefix, session_tag(client.session_id), "heard")

        async def they_are() -> bool:
            return await engine.command("STRLEN", key) in [number * CHUNK_BYTES for number in chunks]

        await eventually(they_are)


async def two(serve: Start, settings: dict[str, Any]) -> tuple[Scheduler, Scheduler]:
    return await serve(**settings), await serve(**settings)


@asynccontextmanager
async def streaming(
    serve: Start, settings: dict[str, Any], **said: Any
) -> AsyncIterator[tuple[Scheduler, Scheduler, Node, Raw, str]]:
    """A node at one instance, a client at the other; and the token by which that goes on elsewhere."""
    here, there = await two(serve, settings)
    async with here.node() as node, there.client() as client:
        await node.register(slots=4)
        await node.is_ready()
        yield here, there, node, client, (await client.init(**said))["resume_token"]


@pytest.mark.parametrize("binary", [False, True], ids=["json", "binary"])
async def test_a_client_goes_on_where_it_was(serve: Start, store: Server, binary: bool) -> None:
    """It knows nothing of what is kept, and says nothing again."""
    async with streaming(serve, SOON, supports_binary_frame=binary) as (here, there, node, client, token):
        await speak(client, 0, 1, 2, 3, binary=binary)
        await are_kept(store, client, 4)
        await there.stop(signal.SIGKILL)
        async with here.client() as back:
            await back.init(resume_token=token)
            assert back.ack["heard_seq"] == 3
            await speak(back, 4, 5, binary=binary, is_final=True)
            job = await node.job()
            assert (heard(job), job["utterance_index"], job["is_manual_cut"]) == ([0, 1, 2, 3, 4, 5], 0, True)
            await node.result(job)
            assert (await back.end_of(0))["type"] == "translation_result"
            assert not [message for message in back.heard if message["type"] == "error"]


async def test_an_instance_that_is_told_to_stop_cuts_nothing(serve: Start) -> None:
    async with streaming(serve, NEVER) as (here, there, node, client, token):
        await speak(client, 0, 1)
        assert await there.stop() == 0
        assert (await client.gone())[0] == 1012
        async with here.client() as back:
            await back.init(resume_token=token)
            assert back.ack["heard_seq"] == 1
            await speak(back, 2, is_final=True)
            job = await node.job()
            assert (heard(job), job["utterance_index"]) == ([0, 1, 2], 0)


async def test_what_a_client_says_again_is_not_heard_twice(serve: Start, store: Server) -> None:
    async with streaming(serve, SOON) as (here, there, node, client, token):
        await speak(client, 0, 1)
        await are_kept(store, client, 2)
        await there.stop(signal.SIGKILL)
        async with here.client() as back:
            await back.init(resume_token=token)
            await speak(back, 0, 1, 2, is_final=True)
            assert "audio_chunk 0: dropped" in (await back.next("error"))["detail"]
            assert heard(await node.job()) == [0, 1, 2]


async def test_whoever_leaves_out_what_is_lost_is_told(serve: Start, store: Server) -> None:
    async with streaming(serve, SOON) as (here, there, node, client, token):
        await speak(client, 0, 1)
        await are_kept(store, client, 2)
        await there.stop(signal.SIGKILL)
        async with here.client() as back:
            await back.init(resume_token=token)
            await speak(back, 4, 5, is_final=True)
            assert (await back.next("error"))["detail"] == "audio_chunk 4: 2 before it were not heard"
            assert heard(await node.job()) == [0, 1, 4, 5]


async def test_a_client_is_told_that_nothing_is_kept_and_says_it_again(serve: Start) -> None:
    async with streaming(serve, NEVER) as (here, there, node, client, token):
        await speak(client, 0, 1, 2)
        await there.stop(signal.SIGKILL)
        async with here.client() as back:
            await back.init(resume_token=token)
            assert back.ack["heard_seq"] == -1
            await speak(back, 0, 1, 2, 3, is_final=True)
            assert heard(await node.job()) == [0, 1, 2, 3]


@pytest.mark.parametrize("settings", [SOON, NEVER], ids=["kept", "not kept"])
async def test_a_piece_that_was_just_cut_is_one_job_wherever_that_was_when_it_struck(
    serve: Start, settings: dict[str, Any]
) -> None:
    """In line for its number, saved, placed: whoever goes on behind what was heard gets one answer for all of it.

    The number that it was given before it was saved is nobody's.
    """
    async with streaming(serve, settings) as (here, there, node, client, token):
        await speak(client, 0, 1, 2, is_final=True)
        await there.stop(signal.SIGKILL)
        async with here.client() as back:
            await back.init(resume_token=token)
            unheard = range(back.ack["heard_seq"] + 1, 3)
            await speak(back, *unheard, is_final=True)
            job = await node.job()
            assert heard(job) == [0, 1, 2]
            await node.result(job)
            end = await back.next("translation_result", "missing_result")
            assert (end["type"], end["utterance_index"]) == ("translation_result", job["utterance_index"])
            await speak(back, 3, is_final=True)
            last = await node.job()
            assert (heard(last), last["utterance_index"]) == ([3], job["utterance_index"] + 1)


async def test_its_pause_is_over_while_nobody_has_it(serve: Start, store: Server) -> None:
    """The client comes back and says no more: what it said has its answer."""
    async with streaming(serve, SOON | {"sessions__pause_ms": "500"}) as (here, there, node, client, token):
        await speak(client, 0, 1)
        await are_kept(store, client, 2)
        await there.stop(signal.SIGKILL)
        async with here.client() as back:
            await back.init(resume_token=token)
            job = await node.job()
            assert (heard(job), job["is_timeout_triggered"]) == ([0, 1], True)
            await node.result(job)
            assert (await back.end_of(0))["type"] == "translation_result"


async def test_its_turn_goes_on(serve: Start, store: Server) -> None:
    """The next piece of a turn that was cut because it was too long has the same turn, and goes to the same node."""
    here, there = await two(serve, SOON | {"sessions__max_duration_ms": "1000"})
    async with here.node("one") as one, here.node("two") as other, there.client() as client:
        for node in (one, other):
            await node.register(slots=4)
            await node.is_ready()
        token = (await client.init())["resume_token"]
        await speak(client, *range(12))
        await eventually(lambda: _has(1, one, other))
        # Those of the first piece are erased with the next save.
        await are_kept(store, client, 2, 12)
        await there.stop(signal.SIGKILL)
        async with here.client() as back:
            await back.init(resume_token=token)
            await speak(back, 12, is_final=True)
            await eventually(lambda: _has(2, one, other))
            first, last = sorted((*one.heard, *other.heard), key=lambda said: said.get("utterance_index", -1))[-2:]
            assert (heard(first), heard(last)) == (list(range(10)), [10, 11, 12])
            assert first["turn_id"] == last["turn_id"]
            assert len({node.node_id for node in (one, other) if await _jobs(node)}) == 1


async def _jobs(node: Any) -> list[Any]:
    return [said for said in node.heard if said["type"] == "job_assign"]


async def _has(number: int, *nodes: Any) -> bool:
    return sum([len(await _jobs(node)) for node in nodes]) == number


@pytest.mark.parametrize("settings", [SOON, NEVER], ids=["kept", "not kept"])
async def test_whoever_uses_the_sdk_does_not_notice(serve: Start, settings: dict[str, Any]) -> None:
    here, there = await two(serve, settings)
    ports = [there.port]
    async with here.node() as node, Balancer(ports) as balancer:
        await node.register(slots=4)
        await node.is_ready()
        url = f"http://127.0.0.1:{balancer.port}"
        async with Client(url) as client, client.stream("en", "zh") as stream:
            for number in range(5):
                await stream.send(sound(number))
            conversation = stream._link.conversation
            await eventually(lambda: _is_heard(conversation))
            ports[0] = here.port
            await there.stop(signal.SIGKILL)
            for number in range(5, 8):
                await stream.send(sound(number))
            await stream.end()
            job = await node.job()
            assert heard(job) == list(range(8))
            await node.result(job)
            items = [item async for item in stream]
            assert [(type(item), item.utterance_index) for item in items] == [(Result, 0)]


async def _is_heard(conversation: Any) -> bool:
    """Every chunk has its pong."""
    await asyncio.sleep(0)
    return not conversation._unsure
