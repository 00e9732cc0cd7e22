"""Postmen over a real engine, and somebody who reads what they bring."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from lingua_scheduler.loops.postman import Postman
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.listen import await_letter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.core.letter import Letter

#: Longer than any test: whoever waits so long was not rung for.
BLOCK_MS = 30_000


class Addressee:
    """Reads letters. One whose text has a gate waits there; one that is to fail fails as often as is said."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.begun: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.failures: dict[str, list[Exception]] = {}

    async def hand_over(self, letter: Letter) -> None:
        detail = letter.detail
        self.begun.append(detail)
        if detail in self.gates:
            await self.gates[detail].wait()
        if self.failures.get(detail):
            raise self.failures[detail].pop(0)
        self.read.append(detail)


def postman_of(engine: Engine, bell: Engine, instance_id: str, addressee: Addressee, **how: Any) -> Postman:
    return Postman(
        engine,
        instance_id,
        1,
        hand_over=addressee.hand_over,
        ring=partial(await_letter, bell, instance_id, BLOCK_MS),
        **{"pauses_ms": (1, 4)} | how,
    )


@asynccontextmanager
async def bell_of(url: str, engine: Engine) -> AsyncIterator[Engine]:
    """A client that may block."""
    async with await Engine.connect(url, engine.prefix, timeout_ms=2 * BLOCK_MS) as bell:
        yield bell


async def kill(postman: Postman) -> None:
    """It is gone from one moment to the next, as its process would be: it settles nothing any more."""
    assert postman._task is not None
    postman._task.cancel()
    for walk in list(postman._walks):
        walk.cancel()
    await asyncio.wait([postman._task])
