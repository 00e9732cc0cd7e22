"""Apps written with the SDK: what they say, and what they make of what they are handed."""

from __future__ import annotations

import asyncio
import io
import wave
from typing import TYPE_CHECKING, Final

from lingua_scheduler.sdk import Partial, Result
from tests.support.people import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from lingua_scheduler.sdk import Client
    from lingua_scheduler.sdk.client_items import Item
    from lingua_scheduler.sdk.client_stream import Stream

#: A tenth of a second.
TENTH: Final = bytes(3_200)


def wav(rate: int = 16_000) -> bytes:
    """The same as a file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(TENTH)
    return file.getvalue()


async def all_of(said: AsyncIterable[Item]) -> list[Item]:
    """Everything that is handed over."""
    async with asyncio.timeout(PATIENCE_S):
        return [item async for item in said]


async def translated(client: Client) -> list[Item]:
    """What one utterance comes to."""
    return await all_of(client.translate(TENTH, src="en", tgt="zh"))


async def utter(stream: Stream, number: int) -> None:
    """One utterance in a stream; its audio is that number, again and again."""
    await stream.send(bytes([number]) * len(TENTH))
    await stream.cut()


async def ends(stream: Stream, number: int) -> list[Item]:
    """The next ends of utterances, so many."""
    found: list[Item] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < number:
            item = await anext(stream)
            if not isinstance(item, Partial):
                found.append(item)
    return found


async def rest(stream: Stream) -> list[Item]:
    """What comes when nothing more is said."""
    await stream.end()
    return await all_of(stream)


def shown(items: list[Item]) -> list[tuple[int, str]]:
    """Which utterance, and what it means."""
    assert all(isinstance(item, Result) for item in items), items
    return [(item.utterance_index, item.text_translated) for item in items if isinstance(item, Result)]
