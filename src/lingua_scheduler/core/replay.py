"""What went out to a client and is not confirmed yet: kept, so that one who comes back gets what it missed.

Events are numbered, and each leaves when the client confirms it, or one after it. A client that never confirms is
confirmed by the write: its events leave `window_ms` after they were written, or written again because it came back.
While it is away nothing leaves for its age; if it stays away for `window_ms` everything does.

All of this is bounded. Beyond `max_bytes` the oldest lose their content: in its place stands that it is missing, and
why. Beyond `max_events` the oldest are dropped, and a replay from before them says how far it cannot reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

#: Why a result is missing that was kept for too long or was too much to keep.
FORGOTTEN: Final = "forgotten"


class Result(msgspec.Struct, frozen=True, tag="result"):
    """A job has ended well; what it says is not looked at here."""

    body: bytes


class Missing(msgspec.Struct, frozen=True, tag="missing"):
    """There will be no result, for this reason."""

    reason: str


Outcome = Result | Missing


class Event(msgspec.Struct, frozen=True):
    """What goes out: the one end of an utterance."""

    event_id: int
    index: int
    outcome: Outcome
    at_ms: int

    @property
    def size(self) -> int:
        """How much of the bound it takes."""
        return len(self.outcome.body) if isinstance(self.outcome, Result) else 0


class ReplayLimits(msgspec.Struct, frozen=True):
    """How much is kept for a client that may come back, and how long."""

    window_ms: int = 120_000
    max_events: int = 1_024
    max_bytes: int = 8 * 1024 * 1024


class Replayed(msgspec.Struct, frozen=True):
    """What came after an event, in order."""

    events: list[Event]
    #: Events up to this id were dropped unconfirmed, and the client has not seen them all; 0: it misses nothing.
    lost_to: int = 0


class Log(msgspec.Struct):
    """The events that are kept, as plain data."""

    next_id: int = 1
    kept: list[Event] = []
    #: The last event that was dropped unconfirmed.
    dropped_to: int = 0
    #: Since when the client is away; -1: it is there.
    away_since_ms: int = -1
    #: When it was last back, and got what it had missed.
    back_at_ms: int = 0
    #: How much of the bound `kept` takes.
    size: int = 0

    def append(self, index: int, outcome: Outcome, now_ms: int) -> Event:
        """The next event; it is kept until the next `trim` at least."""
        event = Event(self.next_id, index, outcome, now_ms)
        self.next_id += 1
        self.kept.append(event)
        self.size += event.size
        return event

    def confirm(self, last_event_id: int) -> list[Event]:
        """The client has all up to this one. What that newly confirms; an id that was never given confirms nothing."""
        if last_event_id >= self.next_id:
            return []
        return self._leave(_first(self.kept, lambda event: event.event_id > last_event_id))

    def catch_up(self, last_event_id: int, most: int) -> int:
        """How many events the client has beyond the last that was given here. Their ids are not given again.

        More than `most` are too many to have been forgotten: such an id was never given.
        """
        ahead = last_event_id - self.next_id + 1
        if not 0 < ahead <= most:
            return 0
        self.next_id += ahead
        return ahead

    def trim(self, now_ms: int, limits: ReplayLimits) -> list[Event]:
        """Keep to the bounds. Those that leave for that, unconfirmed."""
        old = _first(self.kept, lambda event: self._leaves_at(event, limits.window_ms) > now_ms)
        left = self._leave(max(old, len(self.kept) - limits.max_events))
        if left:
            self.dropped_to = left[-1].event_id
        if self.size > limits.max_bytes:
            self._empty(self.size - limits.max_bytes)
        return left

    def _leave(self, number: int) -> list[Event]:
        """So many of the oldest are kept no longer."""
        if number <= 0:
            return []
        left = self.kept[:number]
        del self.kept[:number]
        self.size -= sum(event.size for event in left)
        return left

    def _empty(self, excess: int) -> None:
        """The oldest lose their content until so much is gone."""
        for place, event in enumerate(self.kept):
            if excess > 0 and event.size:
                self.kept[place] = msgspec.structs.replace(event, outcome=Missing(FORGOTTEN))
                excess -= event.size
                self.size -= event.size

    def _leaves_at(self, event: Event, window_ms: int) -> int:
        """When it is too old."""
        written_ms = max(event.at_ms, self.back_at_ms)
        return (written_ms if self.away_since_ms < 0 else self.away_since_ms) + window_ms

    def due_ms(self, window_ms: int) -> int | None:
        """When the next one leaves for its age."""
        return self._leaves_at(self.kept[0], window_ms) if self.kept else None

    def replay(self, after: int) -> Replayed:
        """Everything after this event."""
        return Replayed(
            [event for event in self.kept if event.event_id > after],
            self.dropped_to if self.dropped_to > after else 0,
        )


def _first(events: list[Event], stays: Callable[[Event], bool]) -> int:
    """The place of the first that stays: they are kept in the order in which they leave."""
    return next((place for place, event in enumerate(events) if stays(event)), len(events))
