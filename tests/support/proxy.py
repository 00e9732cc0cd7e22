"""A proxy between a client and a real server that spoils the stream at an exact byte.

`up` is from the client to the server, `down` the way back. Bytes are counted from the moment a fault is
armed, over all connections; a fault happens once. TCP on the client's side, a Unix socket or TCP on the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from typing import Self

Direction = Literal["up", "down"]

#: stall: what follows waits for `release`. cut: end of stream for both. reset: RST for the client. black_hole: from
#: here on nothing passes on any connection, but all stay open.
Kind = Literal["stall", "cut", "reset", "black_hole"]


@dataclass(slots=True)
class Fault:
    kind: Kind
    direction: Direction
    after: int
    #: What was let through, in its direction, since it was armed.
    passed: bytearray = field(default_factory=bytearray)
    #: It has happened.
    struck: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let the stream that it stalled go on."""
        self.released.set()


class Link:
    """One connection through the proxy."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        #: Nothing passes here any more, not even that an end was closed.
        self.holed = False

    def close(self) -> None:
        self.client.close()
        self.server.close()

    def reset(self) -> None:
        link = self.client.get_extra_info("socket")
        if link is not None and link.fileno() >= 0:  # uvloop's are gone when they are closed, or about to be
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.client.transport.abort()
        self.server.transport.abort()

    def lose_client(self) -> None:
        """The client is gone, and the server does not hear of it: half-open, until it is closed."""
        self.holed = True
        self.client.transport.abort()

    def ended(self) -> None:
        """One end is closed; so is the other, unless it cannot know."""
        if not self.holed:
            self.close()


class Proxy:
    def __init__(self, target: str | int, at: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        """`target` is the path of the server's socket, or its port; `at` is where clients find us, 0: any port."""
        self.target = target
        self.host, self.port = at
        self.fault: Fault | None = None
        self.holed = False
        self.refusing = False
        #: Pass on this many bytes at a time; 0 is as they come.
        self.dribble = 0
        self.delay_s = 0.0
        self.accepted = self.refused = 0
        self._changed = asyncio.Condition()
        self.links: set[Link] = set()
        self._lost: set[Link] = set()
        self._pumps: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for link in self._lost:
            link.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"

    @property
    def http(self) -> str:
        """The same, if there is a scheduler behind it."""
        return f"http://{self.host}:{self.port}"

    def arm(self, kind: Kind, direction: Direction, after: int) -> Fault:
        self.fault = Fault(kind, direction, after)
        return self.fault

    def drop_reply(self) -> Fault:
        """Lose the next reply: its call was executed. A stream cannot lose one and go on, so it ends."""
        return self.arm("cut", "down", 0)

    def heal(self) -> None:
        """No more faults; connections that lost bytes in a black hole are cut, as nobody could use them."""
        self.fault = None
        self.refusing = False
        if self.holed:
            self.holed = False
            self.cut()

    def sever(self) -> None:
        """Cut every connection, and let nobody through until it is healed."""
        self.refusing = True
        self.cut()

    def cut(self) -> None:
        for link in list(self.links):
            link.close()

    def lose_all(self) -> None:
        """Nothing passes any more on what is open now, and neither end hears of it. New connections are as ever."""
        self._lost |= self.links
        for link in self.links:
            link.holed = True

    async def accepted_more_than(self, count: int) -> None:
        """Wait for the connection after the `count`-th: by then the client knows that it lost the former."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.accepted > count)

    async def refused_more_than(self, count: int) -> None:
        """Wait until so many and one more were turned away."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.refused > count)

    async def _count(self, *, accepted: int = 0, refused: int = 0) -> None:
        async with self._changed:
            self.accepted += accepted
            self.refused += refused
            self._changed.notify_all()

    def aim(self) -> str | int:
        """Where the next connection goes."""
        return self.target

    def put(self, direction: Direction, chunk: bytes) -> bytes:  # noqa: ARG002 - here both are the same
        """What is passed on for this; it is as long as it comes."""
        return chunk

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        target = self.aim()
        if isinstance(target, int):
            return await asyncio.open_connection("127.0.0.1", target)
        return await asyncio.open_unix_connection(target)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.close()
            await self._count(refused=1)
            return
        try:
            server_reader, server_writer = await self._reach()
        except OSError:
            writer.close()
            return
        link = Link(writer, server_writer)
        self.links.add(link)
        for task in (
            asyncio.create_task(self._pump("up", reader, server_writer, link)),
            asyncio.create_task(self._pump("down", server_reader, writer, link)),
        ):
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)
        await self._count(accepted=1)

    async def _pump(
        self, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link
    ) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65_536):
                for piece in self._pieces(self.put(direction, chunk)):
                    # At least a turn of the loop, or the client would read all pieces in one.
                    await asyncio.sleep(self.delay_s)
                    await self._pass(direction, piece, writer, link)
        link.ended()
        self.links.discard(link)

    def _pieces(self, chunk: bytes) -> list[bytes]:
        step = self.dribble or len(chunk)
        return [chunk[start : start + step] for start in range(0, len(chunk), step)]

    async def _pass(self, direction: Direction, piece: bytes, writer: asyncio.StreamWriter, link: Link) -> None:
        fault = self.fault
        if fault is not None and fault.direction == direction and not self.holed:
            room = fault.after - len(fault.passed)
            fault.passed += piece[:room]
            if len(piece) >= room:
                self.fault = None
                writer.write(piece[:room])
                piece = piece[room:]
                # What was let through arrives before the end does.
                with contextlib.suppress(OSError):
                    await writer.drain()
                await self._strike(fault, link)
        if not (self.holed or link.holed or writer.is_closing()):
            writer.write(piece)
            await writer.drain()

    async def _strike(self, fault: Fault, link: Link) -> None:
        if fault.kind == "black_hole":
            self.holed = True
        elif fault.kind == "reset":
            link.reset()
        elif fault.kind == "cut":
            link.close()
        fault.struck.set()
        if fault.kind == "stall":
            await fault.released.wait()
