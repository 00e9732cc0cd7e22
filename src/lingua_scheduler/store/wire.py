"""One socket to the engine: bytes out, replies in, each reply to the waiter whose turn it is.

A waiter leaves the line only by its reply or by the end of the socket, never because its caller lost
interest. That is what keeps a cancelled call's reply away from the next caller.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import hiredis

from lingua_scheduler.core.errors import OutcomeUnknown
from lingua_scheduler.store.resp import fail, failure_of_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from lingua_scheduler.store.resp import Failure

#: `recv` into a buffer of our own: the default allocates 256 KiB for every reply.
_BUFFER_BYTES: Final = 65_536

_NOTHING: Final = object()


class Waiter(Protocol):
    """Whoever is owed one reply of the engine."""

    #: How many callers stand behind it.
    size: int
    #: Loop time of its oldest caller's call.
    born: float

    def answer(self, reply: Any) -> None:  # noqa: ANN401 - a reply is whatever the parser made of it
        """Take the reply; error replies come as `hiredis.ReplyError`."""

    def fail(self, failure: Failure) -> None:
        """It was not executed: there will be no reply."""

    def lost(self, why: str) -> None:
        """It was sent, and there will be no reply: it may have been executed."""

    def gone(self) -> bool:
        """Nobody waits any more, so what was not sent need not be."""


class Call:
    """The waiter of one plain command."""

    __slots__ = ("born", "future")
    size = 1

    def __init__(self, future: asyncio.Future[Any], born: float) -> None:
        self.future = future
        self.born = born

    def answer(self, reply: Any) -> None:  # noqa: ANN401
        if isinstance(reply, hiredis.ReplyError):
            fail(self.future, failure_of_command(str(reply)))
        elif not self.future.done():
            self.future.set_result(reply)

    def fail(self, failure: Failure) -> None:
        fail(self.future, failure)

    def lost(self, why: str) -> None:
        fail(self.future, partial(OutcomeUnknown, why))

    def gone(self) -> bool:
        return self.future.done()


class Wire(asyncio.BufferedProtocol):
    """A socket from its connect to its loss. It is never used again after that."""

    def __init__(
        self,
        on_writable: Callable[[], None],
        on_lost: Callable[[Wire], None],
        leaves_on: str = "",
        on_message: Callable[[bytes], None] | None = None,
    ) -> None:
        """After an error reply that begins with `leaves_on` it leaves. Who has subscribed hears by `on_message`."""
        self._on_message = on_message
        self._on_writable = on_writable
        self._on_lost = on_lost
        self._leaves_on = leaves_on
        self._leaving = ""
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        # A view, not the bytearray: asyncio's TLS slices it to read on, and a slice of the latter is a copy.
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._dead = False
        self.waiters: deque[Waiter] = deque()
        #: Callers behind `waiters`.
        self.size = 0
        #: Set by every reply; the keeper clears it to see whether a connection was ever of use.
        self.answered = False
        self.why = ""
        #: Done when the transport has let go of the socket.
        self.closed = asyncio.Event()

    @property
    def writable(self) -> bool:
        """Whether bytes given to `write` have a chance to leave."""
        shut = self._paused or self._leaving or self._dead
        return not (shut or self._transport is None or self._transport.is_closing())

    def write(self, data: bytes, waiters: Iterable[Waiter], size: int) -> None:
        """Send the calls of `waiters` in one piece. From here on they may have happened."""
        self.waiters.extend(waiters)
        self.size += size
        if self._transport is not None:
            self._transport.write(data)

    def leave(self, why: str) -> None:
        """Write nothing more, and end with the last reply that is owed."""
        self._leaving = why
        if not self.waiters:
            self.die(why)

    def die(self, why: str) -> None:
        """Give the socket up: every waiter's outcome is unknown."""
        if self._dead:
            return
        self._dead = True
        self.why = why
        if self._transport is not None:
            self._transport.abort()
        waiters, self.waiters = self.waiters, deque()
        self.size = 0
        self._on_lost(self)
        for waiter in waiters:
            waiter.lost(f"sent, but no reply came: {why}")

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's transport can read and write
        link: socket.socket = transport.get_extra_info("socket")
        if link.family != socket.AF_UNIX:  # a Unix socket knows at once when its other end is gone
            link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._dead:
            return
        reader, waiters = self._reader, self.waiters
        reader.feed(self._buffer, 0, nbytes)  # type: ignore[arg-type]  # takes any buffer, its stub says bytes
        self.answered = True
        try:
            while (reply := reader.gets()) is not _NOTHING:
                if self._on_message is not None and type(reply) is list and reply[0] == b"message":
                    self._on_message(reply[2])
                    continue
                if not waiters:
                    self.die("the engine sent a reply that nobody asked for")
                    return
                # Out of the line only after its answer: an error in here fails it with the others.
                waiters[0].answer(reply)
                self.size -= waiters.popleft().size
                if self._leaves_on and isinstance(reply, hiredis.ReplyError) and str(reply).startswith(self._leaves_on):
                    self.leave(f"the engine answered {self._leaves_on}")
            if self._leaving and not waiters:
                self.die(self._leaving)
        except hiredis.ProtocolError as error:
            self.die(f"the engine sent what is no reply: {error}")

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._on_writable()

    def eof_received(self) -> None:
        self.die("the engine closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        self.die(f"the connection broke: {exc}" if exc else "the engine closed the connection")
        self.closed.set()
