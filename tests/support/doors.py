"""A door on a port of its own, over a real engine; and a client that writes bytes and nothing else."""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.config import load
from lingua_scheduler.core.clock import Clock
from lingua_scheduler.flows.mark import mark
from lingua_scheduler.front.auth import Auth
from lingua_scheduler.front.desk import Desk
from lingua_scheduler.front.directory import Directory
from lingua_scheduler.front.door import Door
from lingua_scheduler.front.server import Server, bind
from lingua_scheduler.front.submit import Submitter
from lingua_scheduler.logs.levels import Levels
from lingua_scheduler.loops.auditor import Auditor
from lingua_scheduler.loops.catalog_refresher import CatalogRefresher
from lingua_scheduler.loops.chronicler import Chronicler
from lingua_scheduler.loops.marker import Marker
from lingua_scheduler.store.engine import Engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from lingua_scheduler.front.door import Serve
    from lingua_scheduler.front.web import Route

#: Longer than anything takes here; a test that runs into it has failed.
PATIENCE_S: Final = 10.0


@dataclass
class Open:
    """A door that serves."""

    desk: Desk
    door: Door
    server: Server

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}"


@asynccontextmanager
async def open_door(
    url: str,
    routes: Iterable[Route],
    *,
    serve_node: Serve | None = None,
    serve_session: Serve | None = None,
    **flags: object,
) -> AsyncIterator[Open]:
    """A door with these routes, and settings like `server__drain_ms=100`."""
    settings = load(env={}, flags={key.replace("__", "."): value for key, value in flags.items()}).settings
    async with AsyncExitStack() as stack:
        rules = msgspec.msgpack.encode(settings.rules())
        engine = await Engine.connect(url, f"test:{secrets.token_hex(6)}", rules)
        await stack.enter_async_context(engine)
        directory, clock = Directory(engine, "c0"), Clock()
        desk = Desk(
            engine=engine,
            directory=directory,
            settings=settings,
            limits=settings.limits(),
            submitter=Submitter(engine, "c0", settings.rules(), directory=directory),
            marker=Marker(partial(mark, engine, "c0"), 1_000),
            catalog=CatalogRefresher(settings.catalog),
            auditor=Auditor(engine, lambda: ("c0",), 1_000, again_ms=10),
            chronicler=Chronicler(engine, "instance-1", clock),
            auth=Auth(settings.auth),
            levels=Levels(settings.logs),
            instance_id="instance-1",
            clock=clock,
        )
        door = Door(desk, routes, serve_node=serve_node, serve_session=serve_session)
        server = await stack.enter_async_context(Server(door, bind("127.0.0.1", 0), settings.server))
        stack.callback(desk.is_draining.set)
        yield Open(desk, door, server)


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> Any:
        return json.loads(self.body)


class Raw:
    """A connection on which a test writes whatever it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @asynccontextmanager
    async def connect(cls, port: int) -> AsyncIterator[Raw]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield cls(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def end(self) -> None:
        """Say that nothing more comes; what comes back is still read."""
        self._writer.write_eof()

    def abort(self) -> None:
        """Be gone."""
        self._writer.transport.abort()

    async def get(self, path: str, *headers: str, method: str = "GET") -> Answer:
        await self.write("\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode())
        return await self.answer(has_body=method != "HEAD")

    async def answer(self, *, has_body: bool = True) -> Answer:
        """The next answer."""
        async with asyncio.timeout(PATIENCE_S):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            pairs = (line.split(": ", 1) for line in lines)
            headers = {name.lower(): value for name, value in pairs}
            size = int(headers.get("content-length", "0")) if has_body else 0
            return Answer(int(first.split()[1]), headers, await self._reader.readexactly(size))

    async def read(self, size: int) -> bytes:
        """So much, and no more."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._reader.readexactly(size)

    async def rest(self) -> bytes:
        """Everything until the other end hangs up."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""
