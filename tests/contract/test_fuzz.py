"""Whatever a peer sends, it gets an `error` or a proper close, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from websockets.exceptions import ConnectionClosed

from lingua_scheduler.core.ticket import MAX_INDEX
from tests.support.house import House

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.people import Client, Node, Peer
    from tests.support.servers import Server

#: What may be said of nonsense, and how a socket may end over it.
ERRORS = {"INVALID_MESSAGE", "UNSUPPORTED_FEATURE", "PAYLOAD_TOO_LARGE", "INVALID_CAPABILITY_SCHEMA"}
OF_MEANING = {"UNKNOWN_JOB", "NODE_MISMATCH", "STALE_ATTEMPT", "FORBIDDEN", "INVALID_SESSION", "RATE_LIMITED"}
CLOSES = {1007, 1009, 4400, 4403, 4404, 4429}
MESSAGES = 400

FROM_NODES = (
    {"type": "node_heartbeat", "node_id": "x", "resource_usage": {"running_jobs": 0}},
    {"type": "job_ack", "job_id": "c0.a", "attempt_id": 1},
    {"type": "job_result", "job_id": "c0.a", "attempt_id": 1, "success": True, "tts_audio": "AAAA"},
    {"type": "job_nack", "job_id": "c0.a", "attempt_id": 1, "reason": "no"},
    {"type": "asr_partial", "job_id": "c0.a", "text": "a"},
    {"type": "node_error", "code": "MODEL_NOT_AVAILABLE", "message": "m"},
)
FROM_CLIENTS = (
    {"type": "utterance", "utterance_index": 0, "audio": "AAAA", "audio_format": "pcm16", "sample_rate": 16_000},
    {"type": "utterance", "utterance_index": MAX_INDEX, "audio": "AAAA"},
    {"type": "utterance", "utterance_index": MAX_INDEX + 1, "audio": "AAAA"},
    {"type": "audio_chunk", "seq": 1, "is_final": False, "payload": "AAAA"},
    {"type": "client_heartbeat", "timestamp": 1, "last_event_id": 3},
    {"type": "event_ack", "last_event_id": 9},
    {"type": "room_create"},
    {"type": "session_init", "client_version": "1", "platform": "web", "src_lang": "en", "tgt_lang": "zh"},
)
ODD: tuple[Any, ...] = (
    None,
    -1,
    *(bound + beside for bound in (MAX_INDEX, 2**53) for beside in (-1, 0, 1)),
    2**70,
    1e308,
    "",
    "\x00",
    "a{b}:c",
    "💬" * 50,
    [],
    {},
    [[[[]]]],
    {"a": {"b": 1}},
    True,
)


@pytest.fixture
async def house(server: Server) -> AsyncIterator[House]:
    """One in which nobody can say too much in a second."""
    unbounded = {"rates.utterances_per_s": 1_000_000, "rates.utterances_burst": 1_000_000}
    async with House(server.url, **unbounded).open() as house:
        yield house


def nonsense(rng: random.Random, known: tuple[dict[str, Any], ...]) -> str | bytes:
    """Something that is nearly a message, or not at all."""
    message = dict(rng.choice(known))
    match rng.randrange(6):
        case 0:
            return rng.randbytes(rng.randrange(64))
        case 1:
            head = bytes((rng.choice((1, 2, 0x10, 0x11, 7)), rng.randrange(256)))
            return head + rng.randbytes(rng.randrange(40))
        case 2:
            text = json.dumps(message)
            at = rng.randrange(len(text))
            return text[:at] + chr(rng.randrange(32, 0x2FFF)) + text[at + rng.randrange(3) :]
        case 3:
            return json.dumps(rng.choice(ODD))
        case 4:
            del message[rng.choice(list(message))]
            return json.dumps(message)
        case _:
            message[rng.choice([*message, "type", "options", "pipeline", "error", "trace_id"])] = rng.choice(ODD)
            return json.dumps(message)


async def pester(join: Callable[[], Any], known: tuple[dict[str, Any], ...], seed: int) -> None:
    """Send all of it, on as many sockets as that takes; look at everything that comes back."""
    rng = random.Random(seed)
    peer: Peer = await join()
    for _ in range(MESSAGES):
        try:
            await peer.send(nonsense(rng, known))
            await peer.was_read()
        except ConnectionClosed:
            assert (await peer.gone())[0] in CLOSES
            check(peer)
            peer = await join()
    await peer.close()
    assert (await peer.gone())[0] in {1000, *CLOSES}
    check(peer)


def check(peer: Peer) -> None:
    said = {message["code"] for message in peer.heard if isinstance(message, dict) and message["type"] == "error"}
    assert said <= ERRORS | OF_MEANING | {"NO_CAPABLE_NODE", "NO_AVAILABLE_NODE"}, said


@pytest.mark.parametrize("seed", range(3))
async def test_nobody_else_notices(house: House, seed: int) -> None:
    async with house.node("good") as good, house.client() as client:
        await good.register(slots=64)
        await client.init()

        async def bad_node() -> Node:
            node = house.node("bad")
            await node.connect()
            await node.register(language_capabilities={"semantic_languages": ["fr"]})
            return node

        async def bad_client() -> Client:
            other = house.client()
            await other.connect()
            await other.init(src_lang="fr", tgt_lang="de")
            return other

        async def stranger() -> Node:
            node = house.node("never")
            await node.connect()
            return node

        pestering = asyncio.gather(
            pester(bad_node, FROM_NODES, seed),
            pester(bad_client, FROM_CLIENTS, seed),
            pester(stranger, FROM_NODES[1:], seed),
        )
        index = 0
        while not pestering.done() or index < 5:
            await client.utter(index)
            await good.result(await good.job(session_id=client.session_id))
            assert (await client.end_of(index))["type"] == "translation_result"
            index += 1
        await pestering
