"""The chronicler: writes down what happened to the fleet, for people, off the way of everything else."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.clock import AWAY_MS
from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.notice import MAX_DETAIL_CHARS, Notice
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.note import note
from lingua_scheduler.loops.loop import Loop

if TYPE_CHECKING:
    from types import TracebackType

    from lingua_scheduler.core.clock import Clock
    from lingua_scheduler.core.records import Event
    from lingua_scheduler.store.engine import Engine

#: More than these are not remembered while the engine is busy or away.
MAX_QUEUED: Final = 1_000
#: So many are written at once.
_AT_ONCE: Final = 64
_MAX_WORD_CHARS: Final = 256


class Chronicler(Loop):
    """Whoever sees something happen says so here and goes on. What is too much is dropped, and counted."""

    def __init__(self, engine: Engine, instance_id: str, clock: Clock, interval_ms: int = 1_000) -> None:
        super().__init__(interval_ms)
        self._engine = engine
        self._instance_id = instance_id
        self._clock = clock
        self._queue: deque[Notice] = deque()
        #: For how long the engine is away, if it is.
        self._away_ms = 0
        #: What was not written down because there was too much of it.
        self.dropped = 0

    def note(
        self,
        kind: str,
        about: str = "",
        detail: str = "",
        *,
        at_ms: int | None = None,
        who: str = "",
        where: str = "",
        outcome: str = "",
        seen: bool = False,
    ) -> None:
        """Something happened, just now if it is not said when. `seen`: others may see the same."""
        if len(self._queue) >= MAX_QUEUED:
            self.dropped += 1
            return
        self._queue.append(
            Notice(
                kind,
                _cut(about, _MAX_WORD_CHARS),
                _cut(detail, MAX_DETAIL_CHARS),
                self._clock() if at_ms is None else at_ms,
                self._instance_id,
                _cut(who, _MAX_WORD_CHARS),
                _cut(where, _MAX_WORD_CHARS),
                outcome,
                seen,
            )
        )
        self.wake()

    def hear(self, event: Event) -> None:
        """What a script has put into the outbox, if it is for people, too."""
        match event.kind:
            case "lost":
                self.note("node_lost", event.node, at_ms=event.at_ms)
            case "cut_off":
                self.note("node_cut_off", event.node, f"job {event.job}", at_ms=event.at_ms)
            case "forgiven":
                self.note("node_forgiven", event.node, f"job {event.job}", at_ms=event.at_ms)
            case "mass_silence":
                said = f"{event.attempt} nodes are silent at once, and {event.detail} are heard"
                self.note("mass_silence", "", said, at_ms=event.at_ms)

    async def turn(self) -> bool:
        """Write some of it. It is forgotten only when the engine has answered: the same twice is harmless."""
        self._watch()
        first = [self._queue[place] for place in range(min(_AT_ONCE, len(self._queue)))]
        for answer in await asyncio.gather(*(note(self._engine, notice) for notice in first)):
            self._queue.popleft()
            # It may have been more than there is room for.
            self.dropped += isinstance(answer, Refusal)
        return bool(self._queue)

    def _watch(self) -> None:
        """Whether the engine is back."""
        silent_ms = self._clock.silent_ms
        if silent_ms >= AWAY_MS:
            self._away_ms = max(self._away_ms, silent_ms)
        elif self._away_ms:
            self.note("engine_back", self._instance_id, f"nothing was heard of it for {self._away_ms / 1000:.1f} s")
            self._away_ms = 0

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The last words, if the engine is there."""
        await super().__aexit__(kind, error, trace)
        try:
            while await self.turn():
                pass
        except (DependencyDown, OutcomeUnknown):
            self.dropped += len(self._queue)


def _cut(text: str, most: int) -> str:
    """What can be written of a text: names come from anywhere."""
    text = text.encode(errors="replace").decode()
    return text if len(text) <= most else text[: most - 1] + "…"
