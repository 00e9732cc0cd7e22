"""A client's socket, as its session writes to it: hints at once, answers in order, at the client's own pace."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import CloseCode
from lingua_scheduler.protocol.frames import PongFrame, encode_frame
from lingua_scheduler.protocol.session import SessionCloseAck

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import msgspec

    from lingua_scheduler.core.replay import Event
    from lingua_scheduler.front.socket import Socket

    Answer = Callable[[Sequence[Event]], Awaitable[Sequence[msgspec.Struct]]]

#: So many answers are read at once.
_MAX_READ: Final = 8


class Connection:
    """Answers wait here by their ids only; their text is read when the client can take it."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._unwritten: deque[Event] = deque()
        self._bell = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._is_last = False
        self._is_told = False

    @property
    def way_ms(self) -> int | None:
        """How long a message takes to the client, or back; None: that is not known yet."""
        return self._socket.way_ms

    def write(self, message: msgspec.Struct, *, may_drop: bool = False) -> None:
        """Write a message. A client for whom even that is too much must come again."""
        written = self._socket.write(encode(message).decode(), may_drop=may_drop)
        if not written and not may_drop:
            self.close(CloseCode.OVERLOADED, "the client does not read")

    def pong(self, payload: bytes) -> None:
        """Answer a ping."""
        self._socket.write(encode_frame(PongFrame(payload)), may_drop=True)

    def announce(self, events: Sequence[Event]) -> None:
        """These go out when their turn comes."""
        self._unwritten.extend(events)
        self._bell.set()

    def finish(self) -> None:
        """Nothing will be announced after this."""
        self._is_last = True
        self._bell.set()

    def close(self, code: CloseCode, detail: str = "", trace_id: str | None = None) -> None:
        """Say why, and close, without waiting for it. Whoever reads the socket sees its end."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._socket.close(code, detail, trace_id))

    async def closed(self) -> None:
        """Until a close that was begun is done."""
        if self._closing is not None:
            await self._closing

    async def has_parted(self) -> bool:
        """When the socket is closed: whether the client was told that it has everything, and closed it itself, too."""
        if not self._is_told:
            return False
        await self.closed()
        return await self._socket.answered()

    async def deliver(self, answers: Answer, session_id: str) -> bool:
        """Write what is announced until the socket is closed; True: everything was written, and it was the last."""
        while not self._socket.is_closed:
            await self._bell.wait()
            self._bell.clear()
            while self._unwritten:
                if not await self._deliver_some(answers):
                    return False
            if self._is_last:
                told = encode(SessionCloseAck(session_id=session_id)).decode()
                self._is_told = await self._socket.write_in_turn(told) and await self._socket.emptied()
                return self._is_told
        return False

    async def _deliver_some(self, answers: Answer) -> bool:
        """The next ones. Only when they are written are others read: so little text waits here."""
        events = [self._unwritten.popleft() for _ in range(min(_MAX_READ, len(self._unwritten)))]
        for message in await answers(events):
            if not await self._socket.write_in_turn(encode(message).decode()):
                return False
        return True
