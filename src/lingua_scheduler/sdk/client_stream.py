"""Somebody who speaks, and those who listen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from lingua_scheduler.sdk.client_errors import ClientError
from lingua_scheduler.sdk.client_link import now_ms

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from lingua_scheduler.sdk.client_items import Item
    from lingua_scheduler.sdk.client_link import Link

#: How long the scheduler may take to say that it has nothing more.
_LEAVE_S: Final = 2.0


class Stream:
    """Send with `send`, iterate with `async for`, at the same time if you like. Made by `Client.stream`.

    Iterating gives `Partial`, `Result` and `Missing`: every utterance ends in one of the last two, in order. It ends
    when everything that was said before `end` has been answered.
    """

    def __init__(self, open_link: Callable[[], Awaitable[Link]], drop_link: Callable[[Link], Awaitable[None]]) -> None:
        self._open = open_link
        self._drop = drop_link
        self._opened: Link | None = None

    async def __aenter__(self) -> Self:
        self._opened = await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Confirms all that was taken. What nobody iterated is left behind."""
        if error is None:
            await self._link.close(_LEAVE_S)
        await self._drop(self._link)

    @property
    def _link(self) -> Link:
        if self._opened is None:
            raise RuntimeError("a stream is used inside `async with`")
        return self._opened

    @property
    def session_id(self) -> str:
        """Under which the scheduler knows it; jobs over HTTP that name it are answered here, too."""
        return self._link.conversation.session_id

    async def send(self, audio: bytes) -> None:
        """More audio. Waits while the scheduler wants no more, or cannot be reached."""
        await self._may_send()
        self._link.conversation.stream(audio, now_ms())
        self._link.ring()

    async def cut(self) -> None:
        """What was sent so far is an utterance: do not wait for a pause."""
        await self._may_send()
        self._link.conversation.cut(now_ms())
        self._link.ring()

    async def _may_send(self) -> None:
        """Until the scheduler wants more. Behind the end nobody would hear it, and nobody would say so."""
        conversation = self._link.conversation
        if conversation.failure is not None or not conversation.is_closing:
            await self._link.may_send()
        if conversation.is_closing:
            raise ClientError("STREAM_ENDED", "nothing can be sent after the end of a stream")

    async def end(self) -> None:
        """Nothing more will be sent. What was sent is answered, and then the iteration ends."""
        self._link.conversation.close()
        self._link.ring()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        item = await self._link.next()
        if item is None:
            raise StopAsyncIteration
        return item
