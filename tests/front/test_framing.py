"""Where a request ends and the next begins, whatever stands between them."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest

from tests.front.routes import ROUTES
from tests.support.doors import Raw, open_door

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.doors import Open
    from tests.support.servers import Server

HEAD = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
OFFERS = [
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n",
    b"Connection: upgrade\r\nConnection: keep-alive\r\nUpgrade: websocket\r\n",
    b"Connection: Upgrade\r\nUpgrade: foo\r\n",
]
#: What a body is that could be taken for a request.
SMUGGLED = b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"POST /v1/raw HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def door(server: Server) -> AsyncIterator[Open]:
    async with open_door(server.url, ROUTES, server__body_timeout_ms=2_000, server__max_header_bytes=2_000) as opened:
        yield opened


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("count", [1, 60])
async def test_an_upgrade_to_something_else_is_a_plain_request(door: Open, offer: bytes, count: int) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write((HEAD + offer + b"\r\n" + HEAD + b"\r\n") * count)
        assert all([(await raw.answer()).said == {"ok": True} for _ in range(2 * count)])


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("is_in_pieces", [False, True])
async def test_an_offer_of_an_upgrade_leaves_the_body_where_it_is(
    door: Open, offer: bytes, is_chunked: bool, is_in_pieces: bool
) -> None:
    size = b"%x\r\n" % len(SMUGGLED)
    framing = b"Transfer-Encoding: chunked\r\n" if is_chunked else b"Content-Length: %d\r\n" % len(SMUGGLED)
    pieces = [b"POST /v1/raw HTTP/1.1\r\nHost: localhost\r\n" + offer + framing + b"\r\n"]
    pieces += [size + SMUGGLED + b"\r\n0\r\n\r\n"] if is_chunked else [SMUGGLED[:9], SMUGGLED[9:]]
    async with Raw.connect(door.port) as raw, Raw.connect(door.port) as other:
        for piece in pieces if is_in_pieces else [b"".join(pieces) + HEAD + b"\r\n"]:
            await raw.write(piece)
            await other.get("/livez")
        assert (await raw.answer()).said["size"] == len(SMUGGLED)
        if is_in_pieces:
            await raw.write(HEAD + b"\r\n")
        assert (await raw.answer()).said == {"ok": True}


async def test_what_is_wrong_behind_an_offer_of_an_upgrade_is_refused(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(b"POST /v1/raw HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" + OFFERS[0])
        await raw.write(b"\r\nno chunk\r\n")
        assert (await raw.answer()).status == 400
        assert await raw.rest() == b""


@pytest.mark.parametrize(
    ("first", "again"),
    [(b"2\r\n{}\r\n0\r\n", b"x: abcde\r\n" * 10), (b"2\r\n{}\r\n0\r\nx: ", b"y" * 100), (b"2;x=", b"y" * 100)],
)
async def test_what_stands_beside_a_body_is_not_more_than_a_head(door: Open, first: bytes, again: bytes) -> None:
    """Trailers without end, one trailer without end, or what is said of a piece."""
    async with Raw.connect(door.port) as raw, Raw.connect(door.port) as other:
        await raw.write(CHUNKED + first)
        for _ in range(21):
            await other.get("/livez")
            await raw.write(again)
        answer = await raw.answer()
        assert (answer.status, answer.said["error"]) == (431, "HEADERS_TOO_LARGE")
        assert await raw.rest() == b""


async def test_trailers_are_no_headers(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(CHUNKED + b"3\r\nabc\r\n0\r\nHost: elsewhere\r\nX: y\r\n\r\n")
        assert (await raw.answer()).said["size"] == 3
        # They count for themselves: many small pieces of a body are no head.
        await raw.write(CHUNKED)
        for _ in range(1_000):
            await raw.write(b"1;why=because\r\nx\r\n")
        await raw.write(b"0\r\n\r\n")
        assert (await raw.answer()).said["size"] == 1_000


# Who asks before he sends a body.


def asking(path: str, size: int) -> bytes:
    """The head of a request whose body is to come when it is asked for."""
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {size}\r\n\r\n".encode()


async def test_a_client_may_ask_before_it_sends_a_body(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        for _ in range(2):
            await raw.write(asking("/v1/raw", 3))
            assert (await raw.answer()).status == 100
            await raw.write(b"abc")
            assert (await raw.answer()).said["size"] == 3


@pytest.mark.parametrize(("path", "size", "status"), [("/v1/raw", 999_999_999, 413), ("/v1/nothing", 60, 404)])
async def test_who_asks_first_is_refused_before_he_sends_a_body(door: Open, path: str, size: int, status: int) -> None:
    """Then nobody knows whether what comes next is that body or another request. It is neither."""
    async with Raw.connect(door.port) as raw:
        await raw.write(asking(path, size))
        answer = await raw.answer()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert await raw.rest() == b""


async def test_who_asks_first_and_does_not_wait_may_ask_again(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(asking("/v1/nothing", 6) + b"abc")
        assert (await raw.answer()).status == 404
        await raw.write(b"abc" + asking("/v1/nothing", 3) + b"abc")
        assert (await raw.answer()).status == 404
        assert (await raw.get("/livez")).said == {"ok": True}


async def test_old_http_is_not_told_to_go_on(door: Open) -> None:
    async with Raw.connect(door.port) as raw, Raw.connect(door.port) as other:
        await raw.write(asking("/v1/raw", 3).replace(b"1.1", b"1.0"))
        await other.get("/livez")
        await raw.write(b"abc")
        assert (await raw.answer()).said["size"] == 3


# Where a request goes.

UPGRADE = b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        (b"http://localhost/v1/seen/x?limit=1#y", b"Host: elsewhere\r\n", 200),
        (b"HTTPS://localhost:80/v1/seen/x", b"Host: localhost\r\n", 200),
        (b"http://localhost?x", b"Host: localhost\r\n", 404),
        (b"http://[::1]:80/v1/seen/x", b"Host: localhost\r\n", 200),
        (b"http://elsewhere/v1/seen/x", b"Host: localhost\r\n", 403),
        (b"http://localhost/v1/seen/x", b"", 400),
        (b"http://localhost/v1/seen/x", b"Host: a\r\nHost: a\r\n", 400),
        (b"/v1/seen/x", b"", 400),
        (b"/v1/seen/x#y", b"Host: localhost\r\n", 200),
    ],
)
async def test_a_target_may_name_us(door: Open, target: bytes, host: bytes, status: int) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(b"GET " + target + b" HTTP/1.1\r\n" + host + b"\r\n")
        assert (await raw.answer()).status == status


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        (b"http://localhost/ws/node", b"Host: elsewhere\r\n", 101),
        (b"http://elsewhere/ws/node", b"Host: localhost\r\n", 403),
        (b"/ws/node", b"", 400),
    ],
)
async def test_a_target_of_a_socket_may_name_us(server: Server, target: bytes, host: bytes, status: int) -> None:
    async def serve(*_: object) -> None: ...

    async with open_door(server.url, ROUTES, serve_node=serve) as door, Raw.connect(door.port) as raw:
        await raw.write(b"GET " + target + b" HTTP/1.1\r\n" + host + UPGRADE + KEY + b"\r\n")
        assert (await raw.answer()).status == status


# Whatever comes.

STREAM = (
    HEAD
    + b"\r\n"
    + CHUNKED
    + b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nHost: elsewhere\r\n\r\n"
    + HEAD
    + OFFERS[0]
    + b"\r\nPOST /v1/raw HTTP/1.1\r\nHost: localhost\r\n"
    + OFFERS[2]
    + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED)
    + SMUGGLED
    + b"GET /v1/seen/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
    + b"GET http://localhost/livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
)


@pytest.mark.parametrize("seed", range(25))
async def test_however_it_is_cut_it_is_the_same(door: Open, seed: int) -> None:
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(1, len(STREAM)), chance.randrange(12)))
    async with Raw.connect(door.port) as raw, Raw.connect(door.port) as other:
        for start, end in itertools.pairwise([0, *cuts, len(STREAM)]):
            await raw.write(STREAM[start:end])
            await other.get("/livez")
        answers = [await raw.answer() for _ in range(6)]
        assert [answer.status for answer in answers] == [200] * 6
        assert [answer.said.get("size") for answer in answers] == [None, 5, None, len(SMUGGLED), 0, None]
        assert await raw.rest() == b""


@pytest.mark.parametrize("seed", range(50))
async def test_whatever_comes_every_answer_is_one_and_nothing_breaks(
    door: Open, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    chance = random.Random(seed)
    said = bytearray(STREAM)
    for _ in range(chance.randrange(1, 6)):
        said[chance.randrange(len(said))] = chance.choice(b"\0\r\n :/0179aUz\xff")
    async with Raw.connect(door.port) as raw:
        await raw.write(bytes(said))
        raw.end()
        rest = await raw.rest()
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        assert head.startswith(b"HTTP/1.1 ")
        assert status in {200, 400, 403, 404, 405, 429, 431}
        rest = rest[int(head.lower().partition(b"content-length: ")[2].split()[0]) :]
    assert caplog.text == ""
