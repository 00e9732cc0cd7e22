"""What is written to a connection within one tick leaves it in one system call.

uvicorn writes every WebSocket message by itself: most of what a small one costs is the system call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


class Corked:
    """A transport, but for its writes; and whoever does not read the last of them has so much time for it."""

    __slots__ = ("_loop", "_patience_s", "_pending", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, patience_s: float) -> None:
        self._transport = transport
        self._loop = loop
        self._patience_s = patience_s
        self._pending: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Write at the end of this tick."""
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(data)

    def _flush(self) -> None:
        if self._pending:
            data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
            self._pending = []
            self._transport.write(data)

    def close(self) -> None:
        """Write what is left, and close when it has been read, or nobody reads it."""
        if self._transport.is_closing():
            return
        self._flush()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(self._patience_s, self._transport.abort)
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what is left is lost."""
        self._pending = []
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be. It is asked with every answer."""
        return self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a transport has
        return getattr(self._transport, name)
