"""Assignments of nodes without a socket: they wait in the engine, and a poll takes them."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.views.mailbox import read_mailbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.front.bells import Bell
    from lingua_scheduler.front.directory import Directory
    from lingua_scheduler.store.engine import Engine

    Listening = Callable[[str], Bell]

#: What a poll was given and the node has not acknowledged is given again after this: the answer may have been lost.
AGAIN_MS: Final = 1_000
#: Somebody who waits looks for himself so often: that another instance has put something there is told by Pub/Sub, and
#: may be lost. It is well within the time that a node has to accept it.
LOOK_MS: Final = 1_000

Attempt = tuple[str, int]


class Mailboxes:
    """Polls of this process. What is in a mailbox is in the engine: the attempts that the node has not acknowledged."""

    def __init__(self, engine: Engine, directory: Directory, listening: Listening) -> None:
        self._engine = engine
        self._directory = directory
        self._listening = listening
        self._clock = asyncio.get_running_loop().time
        #: When a poll was last given an attempt; who polled longest ago comes first.
        self._given: dict[str, dict[Attempt, int]] = {}

    async def take(self, node_id: str, wait_ms: int, stop: asyncio.Event) -> list[Attempt] | Refusal:
        """What is there for the node; if nothing is, what comes within this time. `stop` ends the wait."""
        until = self._now() + wait_ms
        with self._listening(node_id) as bell:
            while True:
                held = await self._directory.at_home(node_id, lambda cell: read_mailbox(self._engine, cell, node_id))
                if isinstance(held, Refusal):
                    return held
                fresh, again_ms = self._give(node_id, held)
                left_ms = until - self._now()
                if fresh or left_ms <= 0 or stop.is_set():
                    return fresh
                await bell.wait(min(left_ms, again_ms, LOOK_MS))

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _give(self, node_id: str, held: list[Attempt]) -> tuple[list[Attempt], int]:
        """Those that no poll was given just now, and how long until the next of the others may be given again."""
        now, known = self._now(), self._given.pop(node_id, {})
        given = {attempt: at for attempt, at in known.items() if attempt in held}
        fresh = [attempt for attempt in held if attempt not in given or now - given[attempt] >= AGAIN_MS]
        again_ms = min((at + AGAIN_MS - now for at in given.values()), default=LOOK_MS)
        given.update(dict.fromkeys(fresh, now))
        if given:
            self._given[node_id] = given
        self._forget(now)
        return fresh, max(again_ms, 1)

    def _forget(self, now: int) -> None:
        """Some nodes never poll again. What may be given again is as good as never given, so it need not be known.

        Two at a time: more than a poll adds, and it never takes long.
        """
        for node_id in list(islice(self._given, 2)):
            if now - max(self._given[node_id].values()) >= AGAIN_MS:
                del self._given[node_id]
