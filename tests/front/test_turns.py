"""Requests behind requests: each has its turn, whatever comes behind it, and who leaves is noticed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.front.web import Query, Reply, Route
from tests.front.routes import ROUTES
from tests.support.doors import PATIENCE_S, Raw, open_door

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.exchange import Exchange
    from lingua_scheduler.front.web import Request
    from tests.support.doors import Open
    from tests.support.servers import Server

HOST = b" HTTP/1.1\r\nHost: localhost\r\n"
WAIT = b"GET /v1/wait" + HOST + b"\r\n"
LIVE = b"GET /livez" + HOST + b"\r\n"
READY = b"GET /readyz" + HOST + b"\r\n"
WAITS = b"GET /v1/waits?wait_ms=1" + HOST + b"\r\n"
UPGRADE = b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"
CHUNKED = b"POST /v1/raw" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"


class Waiters:
    """A route at which callers wait for ever, and who came and went."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self.left = asyncio.Event()

    async def wait(self, _desk: Desk, _request: Request) -> Reply:
        self.came.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        return Reply(b"")


@pytest.fixture
def waiters() -> Waiters:
    return Waiters()


@pytest.fixture
async def door(server: Server, waiters: Waiters) -> AsyncIterator[Open]:
    wait_ms = Query("wait_ms", "How long.", int)
    routes = (*ROUTES, Route("GET", "/v1/waits", "admin", waiters.wait, "Wait.", query=(wait_ms,)))
    async with open_door(
        server.url,
        routes,
        server__header_timeout_ms=200,
        server__body_timeout_ms=300,
        server__max_header_bytes=2_000,
        server__drain_ms=100,
    ) as opened:
        yield opened


@pytest.fixture
async def raw(door: Open) -> AsyncIterator[Raw]:
    async with Raw.connect(door.port) as connection:
        yield connection


@pytest.fixture
async def other(door: Open) -> AsyncIterator[Raw]:
    async with Raw.connect(door.port) as connection:
        yield connection


@pytest.mark.parametrize(
    ("second", "status"),
    [
        (b"GET /livez" + HOST + b"x: " + b"y" * 3_000 + b"\r\n\r\n", 431),
        (b"no HTTP\r\n\r\n", 400),
        (CHUNKED + b"no chunk\r\n", 400),
        (b"CONNECT localhost:80" + HOST + b"\r\n", 400),
        (b"GET /ws/node" + HOST + UPGRADE, 400),
        (b"GET /v1/se", 408),
    ],
)
@pytest.mark.parametrize("is_one_piece", [True, False])
async def test_who_came_before_what_is_wrong_is_answered_first(
    door: Open, raw: Raw, other: Raw, second: bytes, status: int, is_one_piece: bool
) -> None:
    if is_one_piece:
        await raw.write(WAIT + LIVE + second)
    else:
        await raw.write(WAIT + LIVE)
        await other.get("/livez")
        await raw.write(second)
    # Longer than a head may take.
    await asyncio.sleep(0.3)
    door.desk.is_draining.set()
    assert (await raw.answer()).body == b"drained"
    assert (await raw.answer()).said == {"ok": True}
    answer = await raw.answer()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert await raw.rest() == b""


@pytest.mark.parametrize("second", [b"no HTTP\r\n\r\n", b"GET /ws/node" + HOST + UPGRADE])
@pytest.mark.parametrize("first", [LIVE, READY, LIVE + READY + LIVE])
async def test_who_is_answered_at_once_is_answered_before_what_is_wrong(raw: Raw, first: bytes, second: bytes) -> None:
    await raw.write(first + second)
    for _ in range(first.count(b"GET")):
        assert (await raw.answer()).said == {"ok": True}
    assert (await raw.answer()).status == 400
    assert await raw.rest() == b""


async def test_what_comes_behind_what_is_wrong_is_not_heard(raw: Raw) -> None:
    await raw.write(READY + b"no HTTP\r\n\r\n" + LIVE)
    await raw.write(LIVE)
    assert [(await raw.answer()).status for _ in range(2)] == [200, 400]
    assert await raw.rest() == b""


@pytest.mark.parametrize("behind", [b"", LIVE, LIVE * 100, CHUNKED, b"GET /li", b"no HTTP\r\n\r\n"])
async def test_who_hangs_up_is_noticed_whatever_is_behind_his_request(
    raw: Raw, waiters: Waiters, behind: bytes
) -> None:
    await raw.write(WAITS + behind)
    async with asyncio.timeout(PATIENCE_S):
        await waiters.came.wait()
        raw.abort()
        await waiters.left.wait()


async def test_too_many_behind_a_request_are_refused_after_those_before_them(door: Open, raw: Raw) -> None:
    await raw.write(WAIT + LIVE * 200)
    door.desk.is_draining.set()
    answers = [await raw.answer() for _ in range(130)]
    assert [answer.status for answer in answers] == [200] * 129 + [429]
    assert "Too many requests" in answers[-1].said["detail"]
    assert await raw.rest() == b""


async def test_too_much_behind_a_request_waits_where_it_is(door: Open, raw: Raw) -> None:
    size = 20_000_000
    await raw.write(WAIT)
    writing = asyncio.create_task(
        raw.write(b"POST /v1/raw" + HOST + b"Content-Length: %d\r\n\r\n" % size + b"x" * size)
    )
    await asyncio.sleep(0.3)
    assert not writing.done()
    door.desk.is_draining.set()
    assert (await raw.answer()).body == b"drained"
    assert (await raw.answer()).status == 413
    await writing


# A caller who says that nothing more comes.


@pytest.mark.parametrize("asked", [LIVE, READY, READY + LIVE + READY, CHUNKED + b"3\r\nabc\r\n0\r\n\r\n"])
async def test_who_says_nothing_more_is_answered(raw: Raw, asked: bytes) -> None:
    await raw.write(asked)
    raw.end()
    count = asked.count(b"HTTP/1.1")
    answers = [await raw.answer() for _ in range(count)]
    assert [answer.status for answer in answers] == [200] * count
    assert await raw.rest() == b""


async def test_who_says_nothing_more_is_answered_later_too(door: Open, raw: Raw, other: Raw) -> None:
    await raw.write(WAIT + LIVE + b"GET /v1/half" + HOST)
    raw.end()
    await other.get("/livez")
    door.desk.is_draining.set()
    assert (await raw.answer()).body == b"drained"
    answer = await raw.answer()
    assert (answer.said, answer.headers["connection"]) == ({"ok": True}, "close")
    assert await raw.rest() == b""


@pytest.mark.parametrize("half", [b"", b"GET /livez" + HOST, CHUNKED + b"3\r\nabc\r\n", LIVE[:-1]])
async def test_half_a_request_is_none(raw: Raw, half: bytes) -> None:
    await raw.write(half)
    raw.end()
    assert await raw.rest() == b""


async def test_what_was_wrong_is_said_also_to_who_says_nothing_more(raw: Raw) -> None:
    await raw.write(READY + b"no HTTP\r\n\r\n")
    raw.end()
    assert [(await raw.answer()).status for _ in range(2)] == [200, 400]
    assert await raw.rest() == b""


async def test_who_would_wait_and_says_nothing_more_hung_up(raw: Raw, waiters: Waiters) -> None:
    await raw.write(WAITS + LIVE)
    async with asyncio.timeout(PATIENCE_S):
        await waiters.came.wait()
        raw.end()
        assert await raw.rest() == b""
        await waiters.left.wait()


async def test_nobody_begins_to_wait_for_who_says_nothing_more(
    door: Open, raw: Raw, other: Raw, waiters: Waiters
) -> None:
    await raw.write(WAIT + WAITS + LIVE)
    raw.end()
    await other.get("/livez")
    door.desk.is_draining.set()
    assert (await raw.answer()).body == b"drained"
    assert await raw.rest() == b""
    assert not waiters.came.is_set()


# An instance that stops.


async def test_everybody_has_his_turn_before_the_instance_stops(door: Open, raw: Raw, other: Raw) -> None:
    await raw.write(WAIT + (READY + LIVE + b"GET /v1/seen/x" + HOST + b"\r\n") * 10)
    await other.get("/livez")
    door.desk.is_draining.set()
    await door.server.__aexit__(None, None, None)
    assert (await raw.answer()).body == b"drained"
    answers = [await raw.answer() for _ in range(30)]
    assert [answer.status for answer in answers] == [503, 200, 200] * 10
    assert [answer.headers.get("connection") for answer in answers] == [None] * 29 + ["close"]
    assert await raw.rest() == b""


@pytest.mark.parametrize("error", [None, RuntimeError()])
async def test_who_never_had_his_turn_is_refused_when_the_instance_stops(
    door: Open, raw: Raw, other: Raw, error: Exception | None
) -> None:
    await raw.write((b"GET /v1/hang" + HOST + b"\r\n") * 5)
    await other.get("/livez")
    if error is None:
        door.desk.is_draining.set()
    await door.server.__aexit__(type(error) if error else None, error, None)
    answers = [await raw.answer() for _ in range(5)]
    assert [answer.said["error"] for answer in answers] == ["SHUTTING_DOWN"] * 5
    assert [answer.headers.get("connection") for answer in answers] == [None] * 4 + ["close"]
    assert await raw.rest() == b""


async def test_who_has_only_begun_is_refused_when_the_instance_stops(
    door: Open, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work for him has not made a step when it is cancelled."""
    serve, stopping = door.door.serve, []

    def served(exchange: Exchange) -> object:
        stopping.append(asyncio.create_task(door.server.__aexit__(RuntimeError, RuntimeError(), None)))
        return serve(exchange)

    monkeypatch.setattr(door.door, "serve", served)
    await raw.write(READY)
    answer = await raw.answer()
    assert (answer.said["error"], answer.headers["connection"]) == ("SHUTTING_DOWN", "close")
    await stopping[0]
