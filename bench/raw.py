"""Clients that cost as little as they can, so that what is measured is the server: bare sockets, bytes made once."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_SHORT: Final = 126
_TWO_BYTES: Final = 65_536
_TEXT: Final = 0x1
_CLOSE: Final = 0x8
_PING: Final = 0x9
_PONG: Final = 0xA


class RawHttp:
    """One connection that is kept alive; a request follows when the answer to the one before is there."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> Self:
        """A new connection."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 22))

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """The status and the body of the answer."""
        self._writer.write(
            b"%b %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (method.encode(), path.encode(), len(body), body)
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        at = head.lower().index(b"content-length: ") + 16
        length = int(head[at : head.index(b"\r\n", at)])
        return int(head[9:12]), await self._reader.readexactly(length)

    async def post(self, path: str, message: object) -> Any:  # noqa: ANN401
        """The answer to a message; it must be taken."""
        status, body = await self.ask("POST", path, json.dumps(message).encode())
        if status != 200:
            raise RuntimeError(f"{path}: {status} {body.decode()}")
        return json.loads(body)

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


class RawSocket:
    """A WebSocket. Every frame is masked, as clients must, with a mask that changes nothing."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int, path: str) -> Self:
        """A new connection, after the handshake."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        writer.write(
            b"GET %b HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % path.encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(f"{path}: {head.decode()}")
        return cls(reader, writer)

    def write(self, message: bytes, kind: int = _TEXT) -> None:
        """Send a message."""
        length = len(message)
        if length < _SHORT:
            head = bytes((0x80 | kind, 0x80 | length))
        elif length < _TWO_BYTES:
            head = bytes((0x80 | kind, 0x80 | 126)) + length.to_bytes(2, "big")
        else:
            head = bytes((0x80 | kind, 0x80 | 127)) + length.to_bytes(8, "big")
        self._writer.write(head + b"\0\0\0\0" + message)

    async def read(self) -> bytes:
        """The next message; pings are answered on the way."""
        while True:
            first, second = await self._reader.readexactly(2)
            length = second & 0x7F
            if length == _SHORT:
                length = int.from_bytes(await self._reader.readexactly(2), "big")
            elif length > _SHORT:
                length = int.from_bytes(await self._reader.readexactly(8), "big")
            payload = await self._reader.readexactly(length)
            kind = first & 0x0F
            if kind == _PING:
                self.write(payload, _PONG)
            elif kind == _CLOSE:
                raise ConnectionError(f"closed: {payload!r}")
            else:
                return payload

    async def serve(self, answer: Callable[[dict[str, Any]], bytes | None]) -> None:
        """Answer every message that wants one, until the other side closes."""
        while True:
            said = answer(json.loads(await self.read()))
            if said is not None:
                self.write(said)

    def close(self) -> None:
        """Hang up."""
        self._writer.close()
