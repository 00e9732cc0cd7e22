"""A hub that lists services over HTTP, or behaves as badly as it is told to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


def answer(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Hub:
    """On a port of its own. `says` is written as it is; None: it takes the question and says nothing, for ever."""

    def __init__(self) -> None:
        self.says: bytes | None = answer(b'{"services": []}')
        self.asked: list[str] = []
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.die()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/services"

    async def die(self) -> None:
        """Nobody listens any more, and who waits is hung up on."""
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
            if self.says is None:
                await reader.read()
                return
            writer.write(self.says)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            self._writers.discard(writer)
            writer.close()
