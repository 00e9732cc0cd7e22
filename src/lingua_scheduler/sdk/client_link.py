"""The glue between a `Conversation` and its sockets: connects, reads, writes, and comes back by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Final

from websockets.exceptions import ConnectionClosed

from lingua_scheduler.sdk._backoff import Backoff
from lingua_scheduler.sdk._connect import close_socket, open_socket
from lingua_scheduler.sdk.client_errors import ClientError, Refused, Unreachable, hinted

if TYPE_CHECKING:
    from collections.abc import Callable

    from websockets.asyncio.client import ClientConnection

    from lingua_scheduler.sdk._address import Address
    from lingua_scheduler.sdk.client_items import Item
    from lingua_scheduler.sdk.client_session import Conversation

#: Nothing was said for so long: say that we are here.
_BEAT_S: Final = 20.0

#: With what a socket was closed; None: nobody said so.
_Closed = tuple[int | None, str]
_UNSAID: Final[_Closed] = (None, "")

log = logging.getLogger(__name__)


def now_ms() -> int:
    """By the clock on the wall, for whoever wants to know how long audio was under way."""
    return time.time_ns() // 1_000_000


class Link:
    """Holds a conversation. `open` it first, `close` or `hang_up` at the end."""

    def __init__(
        self,
        address: Address,
        token: str | None,
        conversation: Conversation,
        *,
        connect_timeout_s: float,
        resume_for_s: float,
    ) -> None:
        self._address = address
        self._token = token
        self.conversation = conversation
        self._connect_timeout_s = connect_timeout_s
        self._resume_for_s = resume_for_s
        self._backoff = Backoff()
        self._gives_up_at_s = 0.0
        self._news = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    # For whoever uses it.

    async def open(self) -> None:
        """Until the session is open; a `ClientError` says why it is not."""
        self._running = asyncio.create_task(self._run(), name="a session of a Lingua client")
        try:
            await self._until(lambda: self.conversation.ack is not None)
        except Refused as refused:
            await self.hang_up()
            raise hinted(refused) from None
        except BaseException:
            await self.hang_up()
            raise

    async def next(self) -> Item | None:
        """The next for the app; None: everything has ended."""
        while (item := self.conversation.take()) is None:
            if self.conversation.is_over:
                return None
            await self._change()
        self.ring()
        return item

    async def may_send(self) -> None:
        """Until the scheduler wants more."""
        conversation = self.conversation
        while True:
            if conversation.failure is not None:
                raise conversation.failure
            await self._until(lambda: conversation.may_send)
            left_ms = conversation.slow_until_ms - _ticks_ms()
            if left_ms <= 0:
                return
            await asyncio.sleep(left_ms / 1000)

    def ring(self) -> None:
        """Something has changed: everybody who waits looks again."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def close(self, patience_s: float) -> None:
        """Say that it was all, and wait for the scheduler to say the same."""
        self.conversation.close()
        self.ring()
        with contextlib.suppress(TimeoutError, ClientError):
            async with asyncio.timeout(patience_s):
                await self._until(lambda: self.conversation.is_over)
        await self.hang_up()

    async def hang_up(self) -> None:
        """Close the socket, whatever is open in its session. Whoever still waits for something is told so."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        self.conversation.fail(ClientError("SESSION_CLOSED", "it was left here"))
        self.ring()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await self._change()

    async def _change(self) -> None:
        if self.conversation.failure is not None:
            raise self.conversation.failure
        await self._news.wait()

    # Sockets.

    async def _run(self) -> None:
        """Nobody waits for ever, whatever breaks here."""
        try:
            await self._connect_again_and_again()
        except Exception as error:
            log.exception("a session failed")
            self.conversation.fail(ClientError("INTERNAL", repr(error)))
            self.ring()

    async def _connect_again_and_again(self) -> None:
        """One socket after the other, until nothing more is to be had."""
        conversation, loop = self.conversation, asyncio.get_running_loop()
        self._gives_up_at_s = loop.time() + self._connect_timeout_s
        while not conversation.is_done:
            why, close = await self._try()
            if conversation.is_open:
                self._backoff.reset()
                self._gives_up_at_s = loop.time() + self._resume_for_s
            conversation.lost(*close)
            pause_s = self._backoff.next_s(self._asked_s(why))
            if loop.time() + pause_s > self._gives_up_at_s:
                conversation.fail(why)
            self.ring()
            if not conversation.is_done:
                log.info(
                    "the connection to %s is lost (%s); trying again in %.1f s", self._address, why.detail, pause_s
                )
                await asyncio.sleep(pause_s)

    def _asked_s(self, why: ClientError) -> float:
        """What the scheduler asked for: in an error on the socket, or by refusing to open one."""
        return max(self.conversation.again_after_ms / 1000, why.retry_after or 0.0)

    async def _try(self) -> tuple[ClientError, _Closed]:
        """One socket, from its handshake to its end: why it is no use any more, and with what it was closed."""
        try:
            socket = await open_socket(self._address, "/ws/session", self._token, timeout_s=self._connect_timeout_s)
            close = await self._serve(socket)
        except Refused as refused:
            if not refused.retryable:
                self.conversation.fail(refused)
            return refused, _UNSAID
        except Unreachable as away:
            return Unreachable(f"{self._address}: {away.detail}"), _UNSAID
        return self.conversation.refused or Unreachable(f"{self._address}: the connection was closed"), close

    async def _serve(self, socket: ClientConnection) -> _Closed:
        """One socket, until it is closed; with what, if the other side said so."""
        writing, closing = asyncio.create_task(self._write(socket)), asyncio.create_task(socket.wait_closed())
        closing.add_done_callback(lambda _: self.ring())
        try:
            # Who is not let in is told so before he has said anything: it is there to be read.
            with contextlib.suppress(ConnectionClosed):
                await socket.send(self.conversation.hello())
            async with asyncio.timeout(self._connect_timeout_s) as patience:
                await self._read(socket, patience, closing)
        except TimeoutError:
            raise Unreachable(f"no answer within {self._connect_timeout_s:g} s") from None
        except ConnectionClosed as closed:
            return _UNSAID if closed.rcvd is None else (closed.rcvd.code, closed.rcvd.reason)
        finally:
            writing.cancel()
            await close_socket(socket)
            await asyncio.wait([writing, closing])
        return _UNSAID

    async def _read(self, socket: ClientConnection, patience: asyncio.Timeout, closing: asyncio.Task[None]) -> None:
        """Hand on what comes: that the session is open, then the rest, as long as there is room for it.

        A socket that is lost is noticed all the same: its session is kept only for a while.
        """
        conversation = self.conversation
        while not (conversation.is_done or conversation.refused is not None):
            await self._until(lambda: conversation.may_hear or not conversation.is_open or closing.done())
            conversation.hear(await socket.recv(), _ticks_ms())
            if conversation.is_open:
                patience.reschedule(None)
            self.ring()

    async def _write(self, socket: ClientConnection) -> None:
        """Write what is to be written. The reader sees when the socket is lost."""
        outbox = self.conversation.outbox
        with contextlib.suppress(ConnectionClosed):
            while True:
                while outbox:
                    await socket.send(outbox.popleft())
                try:
                    async with asyncio.timeout(_BEAT_S):
                        while not outbox:
                            await self._news.wait()
                except TimeoutError:
                    self.conversation.beat()


def _ticks_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
