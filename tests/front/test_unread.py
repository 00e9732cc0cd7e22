"""An answer that nobody reads does not hold its connection, however little of it is left."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.front.server import bind
from lingua_scheduler.front.web import Reply, Route
from tests.front.routes import ROUTES
from tests.support import doors
from tests.support.doors import PATIENCE_S, open_door

if TYPE_CHECKING:
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request
    from tests.support.servers import Server

#: More than lies in the buffers below, less than what a transport calls much.
SOME = 50_000
BUFFER = 4_096
GET = b"GET /v1/some HTTP/1.1\r\nHost: localhost\r\n"


async def some(_desk: Desk, _request: Request) -> Reply:
    return Reply(b"x" * SOME)


def bind_narrow(host: str, port: int) -> socket.socket:
    bound = bind(host, port)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    return bound


@pytest.mark.parametrize(
    ("said", "then"),
    [
        (GET + b"\r\n", b""),
        (GET + b"Connection: close\r\n\r\n", b""),
        (GET + b"\r\n", b"no HTTP\r\n\r\n"),
        (GET + b"\r\n", GET + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
    ],
)
async def test_an_answer_that_is_not_read_is_not_kept(
    server: Server, monkeypatch: pytest.MonkeyPatch, said: bytes, then: bytes
) -> None:
    monkeypatch.setattr(doors, "bind", bind_narrow)
    routes = (*ROUTES, Route("GET", "/v1/some", "admin", some, "Some."))
    loop = asyncio.get_running_loop()
    async with open_door(
        server.url, routes, server__body_timeout_ms=300, server__idle_timeout_ms=100, server__header_timeout_ms=100
    ) as door:
        with socket.socket() as caller:
            caller.setblocking(False)
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            await loop.sock_connect(caller, ("127.0.0.1", door.port))
            await loop.sock_sendall(caller, said)
            assert await loop.sock_recv(caller, 1) == b"H"
            await loop.sock_sendall(caller, then)
            # Nothing is read for longer than that may take.
            await asyncio.sleep(0.5)
            async with asyncio.timeout(PATIENCE_S):
                assert await rest_of(caller) < SOME


async def rest_of(caller: socket.socket) -> int:
    """How much is still there."""
    size = 0
    while True:
        try:
            data = await asyncio.get_running_loop().sock_recv(caller, 65_536)
        except ConnectionError:
            return size
        if not data:
            return size
        size += len(data)
