"""The callers of the demo, written with the client SDK: each says something, waits for what it means, and goes on."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import TYPE_CHECKING, Final

from lingua_scheduler.operate.demo.voice import speak
from lingua_scheduler.sdk import Client, ClientError, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingua_scheduler.operate.demo.plan import Conversation, Turn
    from lingua_scheduler.operate.demo.tally import Tally

#: A machine that is busy with starting things takes its time.
_CONNECT_S: Final = 10.0
_AGAIN_S: Final = 0.5


class Caller:
    """A conversation at one phone: two people, both directions, in turns."""

    def __init__(self, conversation: Conversation, tally: Tally, over: asyncio.Event) -> None:
        self._conversation = conversation
        self._tally = tally
        self._over = over
        self._voice = random.Random(f"{conversation.seed}:voice")
        #: Set when somebody can translate for them; a phone that nobody could serve yet is not picked up.
        self.may_begin = asyncio.Event()

    def meets(self, languages: tuple[str, ...]) -> None:
        """A node that speaks these has joined."""
        if set(self._conversation.languages) <= set(languages):
            self.may_begin.set()

    async def talk(self, url: str, after_s: float) -> None:
        """Until it is over; the last answer is waited for."""
        await self.may_begin.wait()
        await self._pause(after_s)
        turns = self._conversation.turns()
        while not self._over.is_set():
            # A phone that cannot be connected now is tried again; nothing was said yet.
            with contextlib.suppress(ClientError):
                async with Client(url, connect_timeout_s=_CONNECT_S) as client:
                    await self._converse(client, turns)
            await self._pause(_AGAIN_S)

    async def _converse(self, client: Client, turns: Iterator[Turn]) -> None:
        while not self._over.is_set():
            turn = next(turns)
            await self._say(client, turn)
            await self._pause(turn.pause_s)

    async def _say(self, client: Client, turn: Turn) -> None:
        audio = speak(self._voice, turn.speech_s, turn.pitch_hz)
        self._tally.submitted += 1
        began = time.perf_counter()
        try:
            async for said in client.translate(audio, turn.src, turn.tgt, speak=True):
                if isinstance(said, Result):
                    self._tally.hear(turn.src, turn.tgt, said, (time.perf_counter() - began) * 1000)
        except ClientError as error:
            self._tally.failed_by[error.code] += 1

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
