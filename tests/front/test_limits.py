"""What a connection may not do to us: too much, too slowly, too many. The others never notice."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from tests.front.routes import LARGE, ROUTES
from tests.support.doors import PATIENCE_S, Raw, open_door

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.doors import Open
    from tests.support.servers import Server

KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
UPGRADE = b"GET /ws/node HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
HEAD = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
async def door(server: Server) -> AsyncIterator[Open]:
    """In a hurry."""
    async with open_door(
        server.url,
        ROUTES,
        server__header_timeout_ms=200,
        server__body_timeout_ms=300,
        server__idle_timeout_ms=250,
        server__max_header_bytes=2_000,
        server__max_connections=8,
        server__drain_ms=50,
    ) as opened:
        yield opened
        async with Raw.connect(opened.port) as raw:
            assert (await raw.get("/livez")).status == 200


async def test_a_head_that_drips_is_cut_off(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(HEAD)

        async def drip() -> None:
            while True:
                await raw.write(b"x: y\r\n")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        answer = await raw.answer()
        dripping.cancel()
        assert (answer.status, answer.said["error"], answer.headers["connection"]) == (408, "REQUEST_TIMEOUT", "close")


@pytest.mark.parametrize("first", [b"", b"\r\n", b"GET /liv"])
async def test_who_connects_and_says_nothing_is_cut_off(door: Open, first: bytes) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(first)
        assert b"408" in await raw.rest()


@pytest.mark.parametrize("first", [b"", b"\r\n", b"GET /liv"])
async def test_who_says_nothing_after_an_answer_is_cut_off(door: Open, first: bytes) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.get("/livez")
        await raw.write(first)
        assert (b"408" in await raw.rest()) == bool(first)


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/raw HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
        b"POST /v1/raw HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n",
    ],
)
async def test_a_body_that_drips_is_cut_off(door: Open, head: bytes) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(head)
        answer = await raw.answer()
        assert (answer.status, answer.said["error"]) == (408, "REQUEST_TIMEOUT")
        assert await raw.rest() == b""


async def test_a_body_that_nobody_reads_is_cut_off(door: Open) -> None:
    """It was refused because of its length, and the rest of it is not waited for."""
    async with Raw.connect(door.port) as raw:
        await raw.write(b"POST /v1/raw HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n\r\nabc")
        assert (await raw.answer()).status == 413
        assert await raw.rest() == b""


async def test_who_is_refused_before_the_end_of_his_body_may_ask_again(server: Server) -> None:
    async with (
        open_door(server.url, ROUTES, server__header_timeout_ms=100, server__body_timeout_ms=5_000) as door,
        Raw.connect(door.port) as raw,
    ):
        await raw.write(b"POST /v1/raw HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200001\r\n\r\nabc")
        assert (await raw.answer()).status == 413
        await raw.write(b"x" * 199_998)
        # Longer than a head may take; he owes none.
        await asyncio.sleep(0.3)
        assert (await raw.get("/livez")).status == 200


async def test_after_a_refusal_the_rest_of_its_body_is_not_spoken_of(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(b"POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await raw.answer()).status == 404
        await raw.write(b"no chunk\r\n")
        assert await raw.rest() == b""


async def test_a_request_behind_a_long_poll_has_its_time_when_its_turn_comes(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(b"GET /v1/wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await raw.write(b"POST /v1/raw HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
        # Longer than a body may take.
        await asyncio.sleep(0.45)
        door.desk.is_draining.set()
        assert (await raw.answer()).body == b"drained"
        assert (await raw.answer()).status == 408


@pytest.mark.parametrize(
    "head",
    [
        b"GET /livez?" + b"x" * 3_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        HEAD + b"x: " + b"y" * 3_000 + b"\r\n\r\n",
        HEAD + b"x: y\r\n" * 600 + b"\r\n",
        HEAD + b"x: " + b"y" * 3_000,
        b"GET /" + b"x" * 3_000,
    ],
)
async def test_a_head_that_is_too_large_is_refused_before_it_ends(door: Open, head: bytes) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(head)
        answer = await raw.answer()
        assert (answer.status, answer.said["error"]) == (431, "HEADERS_TOO_LARGE")
        assert await raw.rest() == b""


async def test_a_large_head_that_begins_behind_another_request_is_refused_too(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(HEAD + b"\r\n" + HEAD + b"x: " + b"y" * 1_500)
        assert (await raw.answer()).status == 200
        # No piece is as large as a head may be, but together they are.
        await raw.write(b"y" * 1_500 + b"\r\n\r\n")
        assert (await raw.answer()).status == 431


async def test_a_large_head_in_small_pieces_is_refused_too(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(HEAD + b"x: ")
        writing = asyncio.create_task(_write_often(raw))
        assert (await raw.answer()).status == 431
        writing.cancel()


async def _write_often(raw: Raw) -> None:
    while True:
        await raw.write(b"y" * 100)
        await asyncio.sleep(0)


async def test_a_large_body_does_not_count_as_head(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        request = b"POST /v1/raw HTTP/1.1\r\nHost: localhost\r\nContent-Length: 150000\r\n\r\n" + b"x" * 150_000
        await raw.write(request + request + HEAD + b"\r\n")
        assert (await raw.answer()).said["size"] == 150_000
        assert (await raw.answer()).said["size"] == 150_000
        assert (await raw.answer()).said == {"ok": True}


async def test_the_end_of_a_body_does_not_count_as_the_head_of_the_next(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        request = b"POST /v1/raw HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000\r\n\r\n" + b"x" * 3_000
        await raw.write(request + HEAD)
        assert (await raw.answer()).said["size"] == 3_000
        await raw.write(b"\r\n")
        assert (await raw.answer()).said == {"ok": True}


async def test_every_request_has_the_whole_time(server: Server) -> None:
    async with (
        open_door(server.url, ROUTES, server__header_timeout_ms=5_000, server__body_timeout_ms=500) as door,
        Raw.connect(door.port) as raw,
    ):
        await raw.write(b"POST /v1/raw HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n")
        await asyncio.sleep(0.1)
        await raw.write(b"abc" + HEAD)
        assert (await raw.answer()).said["size"] == 3
        # Longer than a body may take, if it were still waited for.
        await asyncio.sleep(0.6)
        await raw.write(b"\r\n")
        assert (await raw.answer()).said == {"ok": True}


async def test_who_reads_a_long_answer_may_ask_again(server: Server) -> None:
    async with open_door(server.url, ROUTES, server__body_timeout_ms=1_000) as door, Raw.connect(door.port) as raw:
        assert len((await raw.get("/v1/large")).body) == LARGE
        await asyncio.sleep(1.1)
        assert (await raw.get("/livez")).status == 200


async def test_one_connection_too_many_is_refused_until_another_ends(door: Open) -> None:
    held = [Raw.connect(door.port) for _ in range(8)]
    opened = [await one.__aenter__() for one in held]
    for raw in opened:
        assert (await raw.get("/livez")).status == 200
    async with Raw.connect(door.port) as raw:
        answer = await raw.answer()
        assert (answer.status, answer.said["error"]) == (429, "RATE_LIMITED")
    for one in held:
        await one.__aexit__(None, None, None)


async def test_who_does_not_read_the_answer_is_cut_off(door: Open) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port, limit=1_000)
    try:
        writer.write(b"GET /v1/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            # From here on nothing is read, for longer than it may take.
            await reader.readexactly(1)
            await asyncio.sleep(0.5)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(LARGE)
    finally:
        writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        UPGRADE + KEY.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"c2hvcnQ="),
        UPGRADE + KEY.replace(b"13", b"8"),
        UPGRADE + KEY.replace(b"13", b"\xff"),
        UPGRADE + KEY.replace(b"dGhl", b"\xff\xff"),
        UPGRADE + b"traceparent: a\r\ntraceparent: b\r\n" + KEY.replace(b"13", b"8"),
        UPGRADE.replace(b"GET", b"POST") + KEY,
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"POST /ws/node HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"GET /\xc3\xa4 HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" + KEY,
        b"GET /ws/node?\xc3\xa4 HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" + KEY,
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" + b"a: b\r\n" * 130 + KEY,
    ],
)
async def test_an_upgrade_that_is_none_ends(door: Open, head: bytes) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(head)
        answer = await raw.answer()
        assert answer.status in {400, 404}
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["traceparent"].split("-")[1] == answer.said["trace_id"]
        assert (answer.said["retryable"], bool(answer.said["detail"])) == (False, True)
        assert await raw.rest() == b""


async def test_a_handshake_that_is_wrong_is_told_what_is_wrong(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        await raw.write(UPGRADE + f"traceparent: {parent}\r\n".encode() + KEY.replace(b"13", b"8"))
        answer = await raw.answer()
        assert (answer.status, answer.said["error"]) == (400, "INVALID_MESSAGE")
        assert "Sec-WebSocket-Version" in answer.said["detail"]
        assert answer.headers["sec-websocket-version"] == "13"
        assert answer.said["trace_id"] == "0af7651916cd43dd8448eb211c80319c"


async def test_time_that_this_process_slept_away_is_not_counted(door: Open) -> None:
    """What somebody owes may lie there unread when his time is over."""
    async with Raw.connect(door.port) as raw:
        assert (await raw.get("/livez")).status == 200
        time.sleep(0.5)  # noqa: ASYNC251 - the whole process
        await asyncio.sleep(0.01)
        assert (await raw.get("/livez")).status == 200
