"""Sockets at the door: who gets one, what a bad frame does, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.front import upgrade
from tests.front.routes import ROUTES
from tests.support.doors import PATIENCE_S, Raw, open_door

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from websockets.asyncio.client import ClientConnection

    from lingua_scheduler.front.auth import Peer
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.socket import Socket
    from tests.support.doors import Open
    from tests.support.servers import Server

NODE, SESSION = "node-token-0123456789", "session-token-0123456789"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
TOKENS = {"auth__node_tokens": f"fleet:{NODE}", "auth__session_tokens": f"app:{SESSION}"}
UPGRADE = b"GET /ws/node HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
HANDSHAKE = UPGRADE + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"


class Echo:
    """Says who is there, then gives back what comes; some words make it fail."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.ended = asyncio.Event()
        self.saw_draining = False

    async def __call__(self, desk: Desk, socket: Socket, peer: Peer) -> None:
        self.peers.append(peer)
        try:
            while (message := await socket.receive()) is not None:
                if message == "bug":
                    raise KeyError("a secret of ours")
                if message == "down":
                    raise DependencyDown("UNREACHABLE", "away")
                if message == "done":
                    return
                if message == "sleep":
                    await asyncio.sleep(0.5)
                socket.write(message)
        finally:
            self.saw_draining = desk.is_draining.is_set()
            self.ended.set()


@asynccontextmanager
async def opened(server: Server, **flags: object) -> AsyncIterator[tuple[Open, Echo]]:
    echo = Echo()
    async with open_door(
        server.url, ROUTES, serve_node=echo, serve_session=echo, **({"server__drain_ms": 100} | flags)
    ) as door:
        yield door, echo


def masked(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin=fin).serialize(mask=True)


async def last_words(socket: ClientConnection) -> tuple[dict[str, Any], int]:
    """The last message and the code with which it was closed."""
    said: dict[str, Any] = {}
    async with asyncio.timeout(PATIENCE_S):
        try:
            while True:
                said = json.loads(await socket.recv())
        except ConnectionClosed as closed:
            return said, closed.rcvd.code if closed.rcvd is not None else 1006


async def refused(url: str, **named: Any) -> tuple[int, dict[str, Any]]:
    """The HTTP answer to a handshake that was refused."""
    with pytest.raises(InvalidStatus) as failed:
        await connect(url, **named)
    response = failed.value.response
    assert "traceparent" in response.headers
    return response.status_code, json.loads(response.body)


async def test_without_tokens_everybody_on_this_machine_gets_a_socket(server: Server) -> None:
    async with opened(server) as (door, echo), connect(f"{door.ws}/ws/node") as socket:
        await socket.send("hello")
        assert await socket.recv() == "hello"
        await socket.send(b"\x00\x01")
        assert await socket.recv() == b"\x00\x01"
        assert socket.protocol.extensions == []
        (peer,) = echo.peers
        assert peer.principal is not None
        assert peer.principal.is_admin
        assert peer.client == "127.0.0.1"
        assert len(peer.trace_id) == 32


async def test_a_token_opens_the_sockets_of_its_scope(server: Server) -> None:
    async with opened(server, **TOKENS) as (door, echo):
        async with connect(f"{door.ws}/ws/node", additional_headers={"Authorization": f"Bearer {NODE}"}) as socket:
            await socket.send("x")
            await socket.recv()
        protocols: Any = ["lingua.v1", f"token.{SESSION}"]
        async with connect(f"{door.ws}/ws/session", subprotocols=protocols, origin=_origin()) as socket:
            assert socket.subprotocol == "lingua.v1"
            await socket.send("x")
            await socket.recv()
        assert [peer.principal and peer.principal.name for peer in echo.peers] == ["fleet", "app"]
        assert echo.peers[1].origin == "http://localhost:3000"


def _origin() -> Any:
    return "http://localhost:3000"


async def test_a_socket_without_a_token_may_show_it_in_its_first_message(server: Server) -> None:
    async with opened(server, **TOKENS) as (door, echo):
        async with connect(f"{door.ws}/ws/node?token={NODE}") as socket:
            await socket.send("x")
            await socket.recv()
        (peer,) = echo.peers
        assert peer.principal is None


@pytest.mark.parametrize(
    ("path", "token", "code", "error"),
    [
        ("/ws/node", "no-such-token-0123", 4401, "UNAUTHENTICATED"),
        ("/ws/node", SESSION, 4403, "FORBIDDEN"),
        ("/ws/session", NODE, 4403, "FORBIDDEN"),
    ],
)
async def test_a_wrong_token_is_told_by_the_socket_so_that_a_browser_can_read_it(
    server: Server, path: str, token: str, code: int, error: str
) -> None:
    async with opened(server, **TOKENS) as (door, echo):
        async with connect(f"{door.ws}{path}", additional_headers={"Authorization": f"Bearer {token}"}) as socket:
            said, closed = await last_words(socket)
        assert (said["type"], said["error"], said["code"], closed) == ("error", error, error, code)
        assert echo.peers == []


async def test_a_page_from_elsewhere_gets_no_socket(server: Server) -> None:
    async with opened(server) as (door, _):
        for origin in ("https://evil.example", "http://localhost.evil.example", "null", "file://"):
            status, said = await refused(f"{door.ws}/ws/session", origin=origin)
            assert (status, said["error"]) == (403, "FORBIDDEN")
        async with connect(f"{door.ws}/ws/session", origin=_origin()) as socket:
            await socket.send("x")
            assert await socket.recv() == "x"


async def test_a_name_that_somebody_else_made_point_here_gets_no_socket(server: Server) -> None:
    async with opened(server) as (door, _):
        url = f"ws://rebound.example:{door.port}/ws/session"
        status, said = await refused(url, host="127.0.0.1", port=door.port)
        assert (status, said["error"]) == (403, "FORBIDDEN")


async def test_there_are_two_sockets_and_no_others(server: Server) -> None:
    async with opened(server) as (door, _):
        status, said = await refused(f"{door.ws}/ws/other")
        assert (status, said["error"]) == (404, "NOT_FOUND")


async def test_what_breaks_behind_a_socket_closes_it_with_a_word(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(server) as (door, _):
        for message, error, code in (("bug", "INTERNAL", 1011), ("down", "SCHEDULER_DEPENDENCY_DOWN", 4503)):
            with caplog.at_level(logging.ERROR):
                async with connect(f"{door.ws}/ws/node") as socket:
                    await socket.send(message)
                    said, closed = await last_words(socket)
            assert (said["error"], closed) == (error, code)
            assert "secret" not in json.dumps(said)
        assert "a secret of ours" in caplog.text
        async with connect(f"{door.ws}/ws/node") as socket:
            await socket.send("done")
            assert await last_words(socket) == ({}, 1000)


@pytest.mark.parametrize(
    ("frame", "error", "code"),
    [
        (masked(Opcode.BINARY, b"x" * (4 * 1024 * 1024 + 1)), "PAYLOAD_TOO_LARGE", 1009),
        (masked(Opcode.TEXT, b"\xff\xfe"), "INVALID_MESSAGE", 1007),
        (masked(Opcode.CONT, b"x"), "INVALID_MESSAGE", 1002),
        (Frame(Opcode.TEXT, b"x").serialize(mask=False), "INVALID_MESSAGE", 1002),
        (b"\xff" * 20, "INVALID_MESSAGE", 1002),
        (masked(Opcode.TEXT, b"", fin=False) + masked(Opcode.CONT, b"", fin=False) * 3_000, "PAYLOAD_TOO_LARGE", 1009),
    ],
    ids=["too large", "no text", "the end of nothing", "not masked", "no frame", "too many pieces"],
)
async def test_a_bad_frame_closes_its_socket_with_a_word_and_no_other(
    server: Server, frame: bytes, error: str, code: int
) -> None:
    async with opened(server) as (door, echo), connect(f"{door.ws}/ws/session") as other:
        async with connect(f"{door.ws}/ws/session", additional_headers={"traceparent": PARENT}) as socket:
            socket.transport.write(frame)
            said, closed = await last_words(socket)
        assert (said["type"], said["error"], closed) == ("error", error, code)
        assert said["trace_id"] == TRACE
        assert [peer.trace_id == TRACE for peer in echo.peers] == [False, True]
        await asyncio.wait_for(echo.ended.wait(), PATIENCE_S)
        await other.send("still here")
        assert await other.recv() == "still here"


@pytest.mark.parametrize("is_at_once", [True, False])
async def test_who_does_not_wait_until_his_socket_is_open_is_heard(server: Server, is_at_once: bool) -> None:
    said = masked(Opcode.PING, b"ping") + masked(Opcode.TEXT, b"hello") + masked(Opcode.TEXT, b"again")
    async with opened(server) as (door, _), Raw.connect(door.port) as raw:
        for piece in [HANDSHAKE + said] if is_at_once else [HANDSHAKE, said]:
            await raw.write(piece)
        assert (await raw.answer()).status == 101
        assert (await raw.read(6))[:2] == b"\x89\x04"
        assert await raw.read(20) == b"\x8a\x04ping\x81\x05hello\x81\x05again"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (b"/ws/node", b"/ws/nobody"),
        (b"13\r\n", b"8\r\n"),
        (b"Host: localhost\r\n", b"Host: localhost\r\nContent-Length: 9\r\n"),
    ],
)
async def test_what_comes_with_a_handshake_that_is_refused_is_not_heard(
    server: Server, caplog: pytest.LogCaptureFixture, right: bytes, wrong: bytes
) -> None:
    async with opened(server) as (door, echo), Raw.connect(door.port) as raw:
        await raw.write(HANDSHAKE.replace(right, wrong) + masked(Opcode.TEXT, b"hello") + HANDSHAKE)
        assert (await raw.answer()).status in {400, 404}
        assert await raw.rest() == b""
        assert echo.peers == []
    assert caplog.text == ""


async def test_a_message_in_pieces_is_one_message(server: Server) -> None:
    async with opened(server) as (door, _), connect(f"{door.ws}/ws/session") as socket:
        await socket.send(["a"] * 1_000)
        assert await socket.recv() == "a" * 1_000


async def test_it_is_known_after_which_ping_a_word_was_said(server: Server) -> None:
    """However late it is read: what lies before a pong may be older than its ping."""
    said: list[tuple[str | bytes, int]] = []

    async def listen(_desk: Desk, socket: Socket, _peer: Peer) -> None:
        while len(said) < 3 and (message := await socket.receive()) is not None:
            said.append((message, socket.said_after_ms))

    async with open_door(server.url, ROUTES, serve_node=listen) as door:
        ticks = count(1_000)
        door.desk.clock.local = ticks.__next__
        async with Raw.connect(door.port) as raw:
            await raw.write(HANDSHAKE)
            assert (await raw.answer()).status == 101
            ping = await raw.read(6)
            assert ping[:2] == b"\x89\x04"
            pong = masked(Opcode.PONG, ping[2:])
            unasked = masked(Opcode.PONG, b"unasked")
            words = [masked(Opcode.TEXT, word) for word in (b"before", b"behind", b"later")]
            await raw.write(words[0] + unasked + pong + words[1] + pong + words[2])
            assert await raw.read(2) == b"\x88\x02"
    assert said == [("before", 1_000), ("behind", 1_001), ("later", 1_001)]


async def test_who_pings_without_end_and_never_reads_is_cut_off(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "_MOST_UNREAD", 200_000)
    async with opened(server) as (door, echo), connect(f"{door.ws}/ws/session") as socket:
        socket.transport.pause_reading()
        pings = masked(Opcode.PING, b"x" * 125) * 1_000
        async with asyncio.timeout(PATIENCE_S):
            while not echo.ended.is_set():
                socket.transport.write(pings)
                await asyncio.sleep(0)
        socket.transport.abort()


async def test_a_message_of_the_largest_size_is_taken(server: Server) -> None:
    async with opened(server) as (door, _), connect(f"{door.ws}/ws/session", max_size=None) as socket:
        await socket.send(b"x" * (4 * 1024 * 1024))
        assert len(await socket.recv()) == 4 * 1024 * 1024


async def test_a_socket_at_whose_other_end_nobody_is_is_found_out(server: Server) -> None:
    async with (
        opened(server, server__ping_interval_ms=100, server__ping_timeout_ms=100) as (door, echo),
        connect(f"{door.ws}/ws/node") as alive,
        connect(f"{door.ws}/ws/node") as gone,
    ):
        await gone.send("x")
        await gone.recv()
        # It still takes bytes, and nobody looks at them.
        gone.transport.pause_reading()
        await asyncio.wait_for(echo.ended.wait(), PATIENCE_S)
        await alive.send("still here")
        assert await alive.recv() == "still here"
        gone.transport.abort()


async def test_what_a_dead_peer_never_read_does_not_keep_its_socket_alive(server: Server) -> None:
    async with (
        opened(server, server__ping_interval_ms=100, server__ping_timeout_ms=100) as (door, echo),
        connect(f"{door.ws}/ws/node", max_size=None) as gone,
    ):
        gone.transport.pause_reading()
        # It may be cut off before it has said all.
        with contextlib.suppress(ConnectionClosed):
            for _ in range(4):
                await gone.send(b"x" * 4_000_000)
        await asyncio.wait_for(echo.ended.wait(), PATIENCE_S)
        gone.transport.abort()


async def test_a_socket_that_is_open_owes_nothing_of_a_request(server: Server) -> None:
    async with opened(server, server__header_timeout_ms=50) as (door, _), connect(f"{door.ws}/ws/node") as socket:
        await asyncio.sleep(0.1)
        await socket.send("still here")
        assert await socket.recv() == "still here"


async def test_a_socket_that_we_are_slow_to_read_is_not_taken_for_dead(server: Server) -> None:
    async with (
        opened(server, server__ping_interval_ms=50, server__ping_timeout_ms=50) as (door, _),
        connect(f"{door.ws}/ws/node") as socket,
    ):
        await socket.send("sleep")
        await socket.send("after")
        assert [await socket.recv(), await socket.recv()] == ["sleep", "after"]


async def test_who_answers_while_we_sleep_is_not_taken_for_dead(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When we wake his time is up, and his answer lies there: we have not looked yet."""
    asking: list[upgrade.SocketProtocol] = []
    ask = upgrade.SocketProtocol.send_keepalive_ping

    def asks(self: upgrade.SocketProtocol) -> None:
        asking.append(self)
        ask(self)

    monkeypatch.setattr(upgrade.SocketProtocol, "send_keepalive_ping", asks)
    async with opened(server) as (door, _), Raw.connect(door.port) as raw:
        await raw.write(HANDSHAKE)
        await raw.answer(has_body=False)
        ping = await raw.read(6)
        await raw.write(masked(Opcode.PONG, ping[2:]))
        asking[0].keepalive_timeout()
        await raw.write(masked(Opcode.TEXT, b"still here"))
        assert await raw.read(12) == b"\x81\x0astill here"
        assert asking[0].pong_timer is None


async def test_sockets_are_told_to_go_elsewhere_when_the_instance_drains(server: Server) -> None:
    async with opened(server) as (door, echo), connect(f"{door.ws}/ws/node") as socket:
        await socket.send("x")
        await socket.recv()
        door.desk.is_draining.set()
        assert (await refused(f"{door.ws}/ws/node"))[0] == 503
        ending = asyncio.create_task(door.server.__aexit__(None, None, None))
        said, closed = await last_words(socket)
        assert (said["error"], closed) == ("SHUTTING_DOWN", 1012)
        await ending
        assert echo.saw_draining


async def test_a_handshake_that_drips_is_cut_off(server: Server) -> None:
    async with opened(server, server__header_timeout_ms=100) as (door, _), Raw.connect(door.port) as raw:
        await raw.write(UPGRADE)
        assert (await raw.rest()).startswith(b"HTTP/1.1 408")
