"""Clients that cost as little as they can, so that what is measured is the server: bare sockets, no streams."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Self, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_SHORT: Final = 126
_TWO_BYTES: Final = 65_536
_TEXT: Final = 0x1
_CLOSE: Final = 0x8
_PING: Final = 0x9
_PONG: Final = 0xA
_HOST: Final = "127.0.0.1"


class RawHttp(asyncio.Protocol):
    """One connection that is kept alive; a request follows when the answer to the one before is there."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._arrived = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._is_lost = False
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(cls, port: int) -> Self:
        """A new connection."""
        _, http = await asyncio.get_running_loop().create_connection(cls, _HOST, port)
        return http

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody will answer any more."""
        self._is_lost = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("closed before the answer"))

    def data_received(self, data: bytes) -> None:
        """Part of an answer, and mostly all of it."""
        self._arrived = data = self._arrived + data if self._arrived else data
        end = data.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        at = data.lower().index(b"content-length: ", 0, end) + 16
        length = int(data[at : data.index(b"\r\n", at)])
        if len(data) >= end + 4 + length:
            self._arrived = b""
            # Whoever asked may have given up.
            if not self._answer.done():
                self._answer.set_result((int(data[9:12]), data[end + 4 :]))

    async def ask(self, method: str, path: str, body: bytes = b"", headers: bytes = b"") -> tuple[int, bytes]:
        """The status and the body of the answer. `headers`: more of them, each with the end of its line."""
        if self._is_lost:
            raise ConnectionError("it was closed")
        self._answer = self._loop.create_future()
        self._transport.write(
            b"%b %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b"
            % (method.encode(), path.encode(), headers, len(body), body)
        )
        return await self._answer

    async def post(self, path: str, message: object) -> Any:  # noqa: ANN401
        """The answer to a message; it must be taken."""
        status, body = await self.ask("POST", path, json.dumps(message).encode())
        if status != 200:
            raise RuntimeError(f"{path}: {status} {body.decode()}")
        return json.loads(body)

    def close(self) -> None:
        """Hang up."""
        self._transport.close()


class RawSocket(asyncio.Protocol):
    """A WebSocket. Every frame is masked, as clients must, with a mask that changes nothing. Pings are answered.

    Messages wait for `read`, until somebody says with `serve` that he hears each at once.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._arrived = b""
        self._is_open = False
        self._messages: deque[bytes] = deque()
        self._hear: Callable[[bytes], None] = self._messages.append
        self._news = asyncio.Event()
        self.closed = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(cls, port: int, path: str) -> Self:
        """A new connection, after the handshake."""
        _, socket = await asyncio.get_running_loop().create_connection(cls, _HOST, port)
        socket.begin(
            b"GET %b HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % path.encode()
        )
        head = await socket.read()
        if not head.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(f"{path}: {head.decode()}")
        return socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)

    def begin(self, request: bytes) -> None:
        """Ask for the handshake."""
        self._transport.write(request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more will come."""
        if not self.closed.done():
            self.closed.set_result(str(exc or "closed"))
        self._news.set()

    def data_received(self, data: bytes) -> None:
        """The answer to the handshake, then frames, whole or in pieces."""
        data = self._arrived + data if self._arrived else data
        at = 0
        if not self._is_open:
            at = data.find(b"\r\n\r\n") + 4
            if at < 4:
                self._arrived = data
                return
            self._is_open = True
            self._hear(data[:at])
        while (payload := _payload(data, at)) is not None:
            begin, end = payload
            self._frame(data[at] & 0x0F, data[begin:end])
            at = end
        self._arrived = data[at:]
        self._news.set()

    def _frame(self, kind: int, payload: bytes) -> None:
        if kind == _PING:
            self.write(payload, _PONG)
        elif kind == _CLOSE and not self.closed.done():
            self.closed.set_result(repr(payload))
        else:
            self._hear(payload)

    def write(self, message: bytes, kind: int = _TEXT) -> None:
        """Send a message."""
        self._transport.write(framed(message, kind))

    def write_all(self, *messages: bytes) -> None:
        """Send several messages in one piece."""
        self._transport.write(b"".join(map(framed, messages)))

    async def read(self) -> bytes:
        """The next message."""
        while not self._messages:
            if self.closed.done():
                raise ConnectionError(self.closed.result())
            self._news.clear()
            await self._news.wait()
        return self._messages.popleft()

    def serve(self, hear: Callable[[bytes], None]) -> None:
        """From now on somebody hears every message at once."""
        self._hear = hear
        while self._messages:
            hear(self._messages.popleft())

    def close(self) -> None:
        """Hang up."""
        self._transport.close()


def _payload(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the payload of the frame at that place begins and ends; None while a part of it is missing."""
    if len(data) < at + 2:
        return None
    length, begin = data[at + 1] & 0x7F, at + 2
    if length >= _SHORT:
        begin += 2 if length == _SHORT else 8
        length = int.from_bytes(data[at + 2 : begin], "big")
    return (begin, begin + length) if len(data) >= begin + length else None


def framed(message: bytes, kind: int = _TEXT) -> bytes:
    """A message as one frame of a client."""
    length = len(message)
    if length < _SHORT:
        head = bytes((0x80 | kind, 0x80 | length))
    elif length < _TWO_BYTES:
        head = bytes((0x80 | kind, 0x80 | 126)) + length.to_bytes(2, "big")
    else:
        head = bytes((0x80 | kind, 0x80 | 127)) + length.to_bytes(8, "big")
    return head + b"\0\0\0\0" + message
