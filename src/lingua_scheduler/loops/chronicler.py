"""The chronicler: writes down what happened to the fleet, for people, off the way of everything else."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.clock import AWAY_MS
from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.health import WINDOW
from lingua_scheduler.core.notice import KINDS, MAX_DETAIL_CHARS, MAX_EACH, MAX_EACH_CHARS, Notice
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
#: Of what happens to nodes and pairs more than these of a kind within so long are told together: nobody reads a hundred
#: lines that say the same, and they would push everything else out of the feed.
_MOST: Final = 10
_TOGETHER_MS: Final = 1_000
_OFTEN: Final = frozenset(kind for kind, (about, _) in KINDS.items() if about in {"node", "pair"})


#: What a script says to people alone.
FOR_PEOPLE: Final = ("suspected", "trusted", "resting")
#: Why a node rests, and why it was given up, in words.
_RESTS: Final = {
    "overloaded": "it said that it has too much to do",
    "undelivered": "a job could not be sent to it",
    "flapping": "it comes and goes",
}
_LOSSES: Final = {
    "closed": "its connection was closed, and it did not come back in time",
    "silent": "nothing was heard of it for too long",
}
#: What an attempt was taken from a node for that has done nothing wrong otherwise. The rest is told by other events.
_LATE: Final = ("ack_timeout", "unsent", "run_timeout")


class Chronicler(Loop):
    """Whoever sees something happen says so here and goes on. What is too much is dropped, and counted."""

    def __init__(self, engine: Engine, instance_id: str, clock: Clock, interval_ms: int = 1_000) -> None:
        super().__init__(interval_ms)
        self._engine = engine
        self._instance_id = instance_id
        self._clock = clock
        self._queue: deque[Notice] = deque()
        #: By kind: since when, and how many came since; and those that are told together.
        self._lately: dict[str, tuple[int, int]] = {}
        self._together: dict[str, list[Notice]] = {}
        #: For how long the engine is away, if it is.
        self._away_ms = 0
        #: What was not written down because there was too much of it.
        self.dropped = 0

    @property
    def now_ms(self) -> int:
        """The engine's time."""
        return self._clock()

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
        notice = Notice(
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
        if kind in _OFTEN and not outcome and self._is_one_of_many(notice):
            return
        self._queue.append(notice)
        self.wake()

    def _is_one_of_many(self, notice: Notice) -> bool:
        """Whether so many of its kind came within a moment that it is told with others, when that is over."""
        now = self._clock()
        began_ms, count = self._lately.get(notice.kind, (now, 0))
        if not 0 <= now - began_ms < _TOGETHER_MS:
            self._tell_together(notice.kind)
            began_ms, count = now, 0
        self._lately[notice.kind] = began_ms, count + 1
        if count < _MOST:
            return False
        many = self._together.setdefault(notice.kind, [])
        many.append(notice)
        if len(many) == MAX_EACH:
            self._tell_together(notice.kind)
        return True

    def _tell_together(self, kind: str) -> None:
        """One notice for all of them, and in it what is said of each."""
        many = self._together.pop(kind, [])
        if len(many) == 1:
            self._queue += many
        elif many:
            first = many[0]
            self._queue.append(
                Notice(
                    kind,
                    _cut(f"{first.about} and {len(many) - 1} more", _MAX_WORD_CHARS),
                    first.detail if all(one.detail == first.detail for one in many) else "",
                    max(one.at_ms for one in many),
                    self._instance_id,
                    seen=first.seen,
                    each=tuple((one.about, _cut(one.detail, MAX_EACH_CHARS)) for one in many),
                )
            )

    def hear(self, event: Event) -> None:
        """What a script has put into the outbox, if it is for people, too."""
        match event.kind:
            case "suspected":
                cause, _, job_id = event.detail.partition(" ")
                last = f"{job_id}: {cause}" if job_id else cause
                said = f"{event.attempt} of its last {WINDOW} jobs failed; the last was {last}"
                self.note("node_suspect", event.node, said, at_ms=event.at_ms)
            case "trusted":
                self.note("node_healed", event.node, "it was suspect", at_ms=event.at_ms)
            case "resting":
                said = f"for {event.attempt / 1000:.1f} s: {_RESTS.get(event.detail, event.detail)}"
                self.note("node_resting", event.node, said, at_ms=event.at_ms)
            case "lost":
                self.note("node_lost", event.node, _LOSSES.get(event.detail, event.detail), at_ms=event.at_ms)
            case "fenced" if event.detail in _LATE:
                self.note("node_fenced", event.node, f"{event.job}: {event.detail}", at_ms=event.at_ms)
            case "cut_off":
                said = f"it did not confirm that it stopped {event.job}"
                self.note("node_cut_off", event.node, said, at_ms=event.at_ms)
            case "forgiven":
                said = f"it could not say whether it stopped {event.job}"
                self.note("node_forgiven", event.node, said, at_ms=event.at_ms)
            case "mass_silence":
                said = f"{event.attempt} nodes are silent at once, and {event.detail} are heard"
                self.note("mass_silence", "", said, at_ms=event.at_ms)

    async def turn(self) -> bool:
        """Write some of it. It is forgotten only when the engine has answered: the same twice is harmless."""
        self._watch()
        now = self._clock()
        for kind in list(self._together):
            if not 0 <= now - self._lately[kind][0] < _TOGETHER_MS:
                self._tell_together(kind)
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
        for one in list(self._together):
            self._tell_together(one)
        try:
            while await self.turn():
                pass
        except (DependencyDown, OutcomeUnknown):
            self.dropped += len(self._queue)


def _cut(text: str, most: int) -> str:
    """What can be written of a text: names come from anywhere."""
    text = text.encode(errors="replace").decode()
    return text if len(text) <= most else text[: most - 1] + "…"
