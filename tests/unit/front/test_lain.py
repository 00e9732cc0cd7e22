"""How long what is read has lain here, by the kernel's word."""

from __future__ import annotations

import asyncio
import socket
import time

from lingua_scheduler.front.lain import lain_ms


class Reader(asyncio.Protocol):
    """Tells of each piece how long it has lain there."""

    def __init__(self) -> None:
        self.lain: asyncio.Queue[int] = asyncio.Queue()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, _data: bytes) -> None:
        self.lain.put_nowait(lain_ms(self._transport))


async def test_what_came_while_nobody_read_has_lain_there_for_so_long() -> None:
    loop, reader = asyncio.get_running_loop(), Reader()
    server = await loop.create_server(lambda: reader, "127.0.0.1", 0)
    async with server:
        with socket.create_connection(server.sockets[0].getsockname()) as caller:
            caller.sendall(b"early")
            # Nobody reads meanwhile: this is the sleep that is told of.
            time.sleep(0.1)  # noqa: ASYNC251
            assert await reader.lain.get() >= 100


async def test_of_what_is_no_tcp_nobody_knows_it() -> None:
    loop, reader = asyncio.get_running_loop(), Reader()
    here, there = socket.socketpair()
    transport, _ = await loop.create_connection(lambda: reader, sock=here)
    with there:
        there.sendall(b"x")
        assert await reader.lain.get() == 0
    transport.close()
