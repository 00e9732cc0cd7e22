"""One WebSocket, whoever is at its other end: what comes in, and a bounded queue of what goes out.

A message is written at once if nothing waits before it. A peer that does not read makes the queue grow; when it is
full, what may be dropped is dropped, the oldest first, and if that is not enough the write fails. Nobody ever waits for
a peer to read, except the task that empties the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import CloseCode, farewell

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    Receive = Callable[[], Awaitable[Any]]
    Send = Callable[[Any], Awaitable[None]]

MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
MAX_QUEUED: Final = 256
#: After a restart everybody is told another time to come back, so that they do not come all at once: so soon at the
#: earliest, for there are other instances, and spread over so long for each of them, up to the most. A few nodes, which
#: may be all that there are, are back before anybody misses them.
RETURN_MS: Final = 50
RETURN_EACH_MS: Final = 2
RETURN_SPREAD_MS: Final = 2_500
#: What a close may say, in bytes.
_MAX_REASON_BYTES: Final = 123
#: What a send says when nobody can hear it: the connection is gone, or the server is already closing it.
_GONE: Final = (OSError, RuntimeError)
#: The peer has answered our close. That it is only gone is told by another event.
ANSWERED: Final = "lingua.answered"
#: It has answered a ping: whatever comes behind this was said after the ping was written, at `asked_ms`.
PONG: Final = "lingua.pong"
#: It has not answered a ping, and is hung up on.
UNHEARD: Final = "lingua.unheard"
#: How long a closing socket waits for its peer to read what is still to be said, and then for its answer.
_LINGER_S: Final = 5.0


class Socket:
    """The framing is the server's; this is what it is used for."""

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        put: Callable[[str | bytes], None],
        writable: asyncio.Event,
        round_trip_ms: Callable[[], float | None],
        return_ms: Callable[[], int] = lambda: RETURN_MS,
        opened_ms: int = 0,
        trace_id: str | None = None,
        max_bytes: int = MAX_QUEUED_BYTES,
        max_messages: int = MAX_QUEUED,
    ) -> None:
        """`put` writes a message without waiting. `writable` is set while the transport keeps little of that.

        `round_trip_ms` says how long the last ping took that was answered; None: none was yet. `return_ms`: after how
        long the peer of a restart is to come back. `opened_ms`: when the handshake came, by the engine's clock.
        `trace_id`: of a close that has none of its own.
        """
        self._receive = receive
        self._send = send
        self._put = put
        self._writable = writable
        self._round_trip_ms = round_trip_ms
        self._return_ms = return_ms
        self.opened_ms = opened_ms
        #: What was received last was said after that, by the engine's clock, however long it was under way or lay here.
        self.said_after_ms = opened_ms
        self._trace_id = trace_id
        self._max_bytes = max_bytes
        self._max_messages = max_messages
        self._queue: deque[tuple[str | bytes, bool]] = deque()
        self._bytes = 0
        self._emptier: asyncio.Task[None] | None = None
        #: Set when the queue has become shorter, or will not move any more.
        self._moved = asyncio.Event()
        #: Nothing can be written any more.
        self.is_closed = False
        #: Our own close has gone out, after everything else.
        self._has_closed = False
        #: We hung up, because the peer did not answer.
        self.is_unheard = False
        #: How many messages were dropped because the peer did not read.
        self.dropped = 0

    @property
    def way_ms(self) -> int | None:
        """How long a message takes to the other end, or back: half of a round trip. None: that is not known yet."""
        round_trip_ms = self._round_trip_ms()
        return None if round_trip_ms is None else round(round_trip_ms / 2)

    @property
    def queued_bytes(self) -> int:
        """What waits here to be read by the peer."""
        return self._bytes

    async def accept(self, subprotocol: str | None = None) -> None:
        """Finish the handshake."""
        await self._receive()
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol})

    async def receive(self) -> str | bytes | None:
        """The next message; None: the peer is gone, or we closed."""
        while (event := await self._receive())["type"] != "websocket.receive":
            if event["type"] != PONG:
                self.is_closed, self.is_unheard = True, event["type"] == UNHEARD
                return None
            self.said_after_ms = event["asked_ms"]
        text: str | None = event.get("text")
        return text if text is not None else event["bytes"]

    def write(self, data: str | bytes, *, may_drop: bool = False) -> bool:
        """Write a text or a binary message, or put it behind those that wait. False: it will never arrive."""
        if self.is_closed:
            return False
        if not self._queue and self._writable.is_set():
            return self._write_now(data)
        if not self._make_room(len(data), may_drop=may_drop):
            return False
        self._queue.append((data, may_drop))
        self._bytes += len(data)
        if self._emptier is None:
            self._emptier = asyncio.create_task(self._empty())
        return True

    async def write_in_turn(self, data: str | bytes) -> bool:
        """Write a message that must not be dropped, at the peer's pace: it leaves half of the queue to others.

        False: it will never arrive.
        """
        while not self.is_closed:
            crowded = len(self._queue) > self._max_messages // 2 or self._bytes > self._max_bytes // 2
            if not crowded and self.write(data):
                return True
            if self._queue:
                self._moved.clear()
                await self._moved.wait()
            elif not self.is_closed:
                # It is more than the queue ever takes: it goes out when nothing is before it.
                await self._writable.wait()
        return False

    async def emptied(self) -> bool:
        """Until nothing waits any more, at the peer's pace. False: some of it will never arrive."""
        if self._emptier is not None:
            await asyncio.wait([self._emptier])
        await self._writable.wait()
        return not self.is_closed

    def _write_now(self, data: str | bytes) -> bool:
        """The transport is writable, so there is nothing to wait for."""
        try:
            self._put(data)
        except _GONE:
            self.is_closed = True
            return False
        return True

    def _make_room(self, size: int, *, may_drop: bool) -> bool:
        while len(self._queue) >= self._max_messages or self._bytes + size > self._max_bytes:
            at = next((place for place, (_, droppable) in enumerate(self._queue) if droppable), None)
            if at is None:
                self.dropped += may_drop
                return False
            self._bytes -= len(self._queue[at][0])
            del self._queue[at]
            self.dropped += 1
        return True

    async def _empty(self) -> None:
        """Write what waits, at the peer's pace."""
        try:
            while self._queue:
                await self._writable.wait()
                data, _ = self._queue.popleft()
                self._bytes -= len(data)
                self._moved.set()
                self._put(data)
        except _GONE:
            self.is_closed = True
            self._queue.clear()
            self._bytes = 0
        finally:
            self._emptier = None
            self._moved.set()

    async def close(
        self, code: CloseCode, detail: str = "", trace_id: str | None = None, after_ms: int | None = None
    ) -> None:
        """Say why, let the peer read what waits for a moment, and close."""
        if self.is_closed:
            return
        if code is CloseCode.RESTART and after_ms is None:
            after_ms = self._return_ms()
        last_word = farewell(code, detail, trace_id or self._trace_id, after_ms)
        if last_word is not None:
            self.write(encode(last_word).decode())
        self.is_closed = True
        with contextlib.suppress(*_GONE, TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                if self._emptier is not None:
                    await self._emptier
                reason = detail or (last_word.detail if last_word is not None else "")
                await self._send({"type": "websocket.close", "code": int(code), "reason": _cut(reason)})
                self._has_closed = True

    async def answered(self) -> bool:
        """When our own close was seen by `receive`: whether the peer answers it, and so has read all before it.

        False: it was not reached, it is gone, or it takes too long.
        """
        if not self._has_closed:
            return False
        try:
            async with asyncio.timeout(_LINGER_S):
                event = await self._receive()
        except TimeoutError:
            return False
        return bool(event["type"] == ANSWERED)


class Sockets:
    """The open ones, each with its kind: whose door it came in by."""

    kinds: Final = ("node", "session", "admin")

    def __init__(self) -> None:
        self._kind_of: dict[Socket, str] = {}

    def __iter__(self) -> Iterator[tuple[str, Socket]]:
        return iter([(kind, socket) for socket, kind in self._kind_of.items()])

    def return_ms(self) -> int:
        """After how long one of so many is to come back. Each is told another time, or nearly."""
        return RETURN_MS + secrets.randbelow(min(1 + RETURN_EACH_MS * len(self._kind_of), RETURN_SPREAD_MS))

    def add(self, socket: Socket, kind: str) -> None:
        """One is open."""
        self._kind_of[socket] = kind

    def discard(self, socket: Socket) -> None:
        """It is closed."""
        self._kind_of.pop(socket, None)


def _cut(reason: str) -> str:
    """As much of it as a close can carry."""
    return reason.encode(errors="replace")[:_MAX_REASON_BYTES].decode(errors="ignore")
