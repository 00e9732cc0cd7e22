"""Writes of one tick leave together, over a real socket."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.front.cork import Corked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Counted:
    """A transport, and what was written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        self.transport.write(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self.transport, name)


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Corked, Counted, asyncio.StreamReader]]:
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    reader, writer = await asyncio.open_connection(sock=theirs)
    counted = Counted(transport)
    yield Corked(counted, loop, 0.05), counted, reader  # type: ignore[arg-type] # it is one
    transport.abort()
    writer.close()


async def test_several_writes_are_one(pair: tuple[Corked, Counted, asyncio.StreamReader]) -> None:
    corked, counted, reader = pair
    for data in (b"a", b"b", b"c"):
        corked.write(data)
    assert counted.writes == []
    assert await reader.readexactly(3) == b"abc"
    corked.write(b"d")
    assert await reader.readexactly(1) == b"d"
    assert counted.writes == [b"abc", b"d"]


async def test_what_is_left_is_written_before_the_end(pair: tuple[Corked, Counted, asyncio.StreamReader]) -> None:
    corked, _, reader = pair
    corked.write(b"last")
    corked.write(b" words")
    corked.close()
    assert await reader.read() == b"last words"
    assert corked.is_closing()


async def test_an_abort_writes_nothing(pair: tuple[Corked, Counted, asyncio.StreamReader]) -> None:
    corked, counted, reader = pair
    corked.write(b"never")
    corked.abort()
    assert await reader.read() == b""
    assert counted.writes == []


async def test_last_words_that_nobody_reads_are_not_waited_for(
    pair: tuple[Corked, Counted, asyncio.StreamReader],
) -> None:
    corked, _, reader = pair
    corked.write(b"x" * 9_000_000)
    corked.close()
    # Longer than it may take.
    await asyncio.sleep(0.2)
    assert len(await reader.read()) < 9_000_000
