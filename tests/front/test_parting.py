"""Who is sent away while he still speaks hears why: his connection does not break before he has come to his end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.front.routes import ROUTES
from tests.support.doors import PATIENCE_S, Raw, open_door

if TYPE_CHECKING:
    from tests.support.servers import Server

POST = b"POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\n"
LARGE = b"Content-Length: 1000000\r\n\r\nabc"
WAIT = b"GET /v1/wait HTTP/1.1\r\nHost: localhost\r\n"
SENT_AWAY = [
    (POST + b"Connection: close\r\n" + LARGE, 404),
    (POST.replace(b"1.1", b"1.0") + LARGE, 404),
    (POST + b"Expect: 100-continue\r\n" + LARGE[:-3], 404),
    (POST.replace(b"nothing", b"raw") + b"Connection: close\r\n" + LARGE, 413),
    (POST.replace(b"nothing", b"raw") + b"Transfer-Encoding: chunked\r\n\r\nno chunk\r\n", 400),
    (b"GET /livez?" + b"x" * 3_000, 431),
    (b"GET /livez?" + b"x" * 3_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
]


@pytest.mark.parametrize(("said", "status"), SENT_AWAY)
async def test_who_still_speaks_may_go_on_until_he_has_said_all(server: Server, said: bytes, status: int) -> None:
    async with (
        open_door(server.url, ROUTES, server__max_header_bytes=2_000, server__max_connections=2) as door,
        Raw.connect(door.port) as other,
    ):
        async with Raw.connect(door.port) as raw:
            await raw.write(said)
            answer = await raw.answer()
            assert (answer.status, answer.headers["connection"]) == (status, "close")
            assert await raw.rest() == b""
            for _ in range(10):
                await raw.write(b"x" * 100_000)
                assert (await other.get("/livez")).status == 200
            raw.end()
            assert (await other.get("/livez")).status == 200
        # There is room for somebody else.
        async with Raw.connect(door.port) as raw:
            assert (await raw.get("/livez")).status == 200


@pytest.mark.parametrize(("said", "status"), SENT_AWAY)
async def test_who_does_not_come_to_his_end_is_cut_off(server: Server, said: bytes, status: int) -> None:
    async with (
        open_door(server.url, ROUTES, server__max_header_bytes=2_000, server__body_timeout_ms=200) as door,
        Raw.connect(door.port) as raw,
    ):
        await raw.write(said)
        assert (await raw.answer()).status == status
        with pytest.raises(ConnectionError):
            await go_on(raw)


async def test_who_has_said_all_is_not_waited_for(server: Server) -> None:
    async with open_door(server.url, ROUTES) as door, Raw.connect(door.port) as raw:
        await raw.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await raw.answer()).status == 200
        with pytest.raises(ConnectionError):
            await go_on(raw)


async def test_who_has_had_his_time_gets_no_more_of_it(server: Server) -> None:
    async with (
        open_door(server.url, ROUTES, server__header_timeout_ms=100, server__body_timeout_ms=60_000) as door,
        Raw.connect(door.port) as raw,
    ):
        await raw.write(b"GET /liv")
        assert (await raw.answer()).status == 408
        with pytest.raises(ConnectionError):
            await go_on(raw)


async def test_who_says_that_nothing_more_comes_is_not_waited_for(server: Server) -> None:
    async with open_door(server.url, ROUTES, server__max_connections=2) as door, Raw.connect(door.port) as other:
        async with Raw.connect(door.port) as raw:
            await raw.write(WAIT + b"\r\nGET /liv")
            assert (await other.get("/livez")).status == 200
            raw.end()
            assert (await other.get("/livez")).status == 200
            door.desk.is_draining.set()
            assert (await raw.answer()).body == b"drained"
            assert await raw.rest() == b""
        async with Raw.connect(door.port) as raw:
            assert (await raw.get("/livez")).status == 200


@pytest.mark.parametrize("wrong", [b"\0", b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"])
async def test_what_was_never_read_does_not_break_the_connection(server: Server, wrong: bytes) -> None:
    """Behind what is wrong comes more than is read while the request before it is answered."""
    async with open_door(server.url, ROUTES) as door, Raw.connect(door.port) as raw, Raw.connect(door.port) as other:
        await raw.write(WAIT + b"\r\n" + wrong)
        for _ in range(30):
            assert (await other.get("/livez")).status == 200
            await raw.write(b"x" * 10_000)
        door.desk.is_draining.set()
        assert (await raw.answer()).body == b"drained"
        assert (await raw.answer()).status == 400
        assert await raw.rest() == b""
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(30):
                await raw.write(b"x" * 1_000_000)
                assert (await other.get("/livez")).status == 200


async def test_who_was_sent_away_is_not_answered_any_more(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    async with open_door(server.url, ROUTES) as door, Raw.connect(door.port) as raw, Raw.connect(door.port) as other:
        await raw.write(WAIT + b"Transfer-Encoding: chunked\r\n\r\n")
        assert (await other.get("/livez")).status == 200
        await raw.write(b"no chunk\r\n")
        assert (await raw.answer()).status == 400
        door.desk.is_draining.set()
        assert (await other.get("/livez")).status == 200
        assert await raw.rest() == b""
    assert caplog.text == ""


async def go_on(raw: Raw) -> None:
    """Speak until nobody is there."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await raw.write(b"x")
            await asyncio.sleep(0.02)
