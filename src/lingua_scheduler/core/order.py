"""The results of a session, in order: each utterance ends exactly once, by its index, and a gap is announced.

An utterance is awaited, then overdue once a later one has its result, then ready; it goes out when all before it have.
An overdue one may delay the others for `gap_ms`, not counting the time for which it is held: its node or its instance
is in a grace. Then it is announced as missing, and its job is to be cancelled. No hold is stronger than the job's
deadline: `gap_ms` after it the utterance is given up in any case, so nothing is awaited for ever.

Only the first of those who have not gone out is ever announced: a late result of another still finds its place.
Indexes need not be without holes, but they only grow: what was passed over cannot be expected any more.

The state is plain data: `save` and `load` bring it to another place, in the middle of anything.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.core.replay import Event, Log, Missing, Outcome, Replayed, ReplayLimits

GAP_TIMEOUT: Final = "gap_timeout"


class OrderLimits(ReplayLimits, frozen=True):
    """How long a gap may last, and what is kept of what went out."""

    gap_ms: int = 10_000


class Awaited(msgspec.Struct, frozen=True, tag="awaited"):
    """No result yet, and nobody waits for it."""

    deadline_ms: int
    held_until_ms: int

    def overdue(self, now_ms: int) -> Overdue:
        """A later one has its result: from now on it counts, or from the end of its hold."""
        return Overdue(self.deadline_ms, max(now_ms, self.held_until_ms), 0)

    def held(self, until_ms: int, _now_ms: int) -> Awaited:
        """In a grace."""
        return Awaited(self.deadline_ms, until_ms)

    def due_ms(self, gap_ms: int) -> int:
        """When it is given up."""
        return self.deadline_ms + gap_ms


class Overdue(msgspec.Struct, frozen=True, tag="overdue"):
    """Others wait for it: so long before `since_ms`, and from then on."""

    deadline_ms: int
    since_ms: int
    counted_ms: int

    def overdue(self, _now_ms: int) -> Overdue:
        """It is already."""
        return self

    def held(self, until_ms: int, now_ms: int) -> Overdue:
        """In a grace: what counted so far stays counted, and no more does until the grace is over."""
        counted_ms = self.counted_ms + max(0, now_ms - self.since_ms)
        return Overdue(self.deadline_ms, max(now_ms, until_ms), counted_ms)

    def due_ms(self, gap_ms: int) -> int:
        """When it is given up."""
        return min(self.since_ms - self.counted_ms, self.deadline_ms) + gap_ms


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Its end is known and waits for its turn."""

    outcome: Outcome

    def due_ms(self, _gap_ms: int) -> int:
        """It can go at once."""
        return 0


Unsettled = Awaited | Overdue


class Settled(Enum):
    """What became of a result."""

    kept = "kept"
    #: Its utterance has been announced as missing: dropped.
    late = "late"
    #: Its utterance has an end already: dropped.
    repeated = "repeated"
    #: Nobody expects it: dropped.
    unknown = "unknown"


class Taken(msgspec.Struct, frozen=True):
    """What goes out now, in order, and which utterances have something to be done about."""

    events: list[Event]
    #: Their jobs: nobody waits for them any more.
    cancel: list[int]
    #: They are kept no longer without having been confirmed: their text can be erased.
    forgotten: list[int]


class CaughtUp(msgspec.Struct, frozen=True):
    """What a client had heard that was not known here: which utterances have ended by that, and where numbers go on.

    `awaited`: those of them whose end was not known.
    """

    heard: list[int]
    awaited: list[int]
    next_index: int


class OrderState(msgspec.Struct):
    """All that an order knows."""

    open: dict[int, Awaited | Overdue | Ready] = {}
    #: The last that went out.
    passed: int = -1
    #: Those that were announced as missing, and until when a late result is known as one.
    announced: dict[int, int] = {}
    log: Log = msgspec.field(default_factory=Log)


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(OrderState).decode


class Order:
    """The order of one session's results. Call `take` after every change, and at `due_ms`."""

    def __init__(self, limits: OrderLimits, *, next_event_id: int = 1) -> None:
        self._limits = limits
        self._state = OrderState(log=Log(next_id=next_event_id))

    @classmethod
    def load(cls, limits: OrderLimits, saved: bytes) -> Order:
        """The order that was saved."""
        order = cls(limits)
        order._state = _decode(saved)
        return order

    def save(self) -> bytes:
        """All of it, as bytes."""
        return _encode(self._state)

    @property
    def pending(self) -> int:
        """How many utterances have not gone out."""
        return len(self._state.open)

    @property
    def due_ms(self) -> int | None:
        """When time alone will change something: an utterance is given up, or something kept is too old."""
        state, dues = self._state, list(self._state.announced.values())
        leaves_at_ms = state.log.due_ms(self._limits.window_ms)
        if leaves_at_ms is not None:
            dues.append(leaves_at_ms)
        if state.open:
            dues.append(state.open[min(state.open)].due_ms(self._limits.gap_ms))
        return min(dues, default=None)

    @property
    def awaited(self) -> list[int]:
        """Those whose end is not known."""
        return sorted(index for index, slot in self._state.open.items() if isinstance(slot, Unsettled))

    def awaits(self, index: int) -> bool:
        """Whether its end is not known."""
        return isinstance(self._state.open.get(index), Unsettled)

    @property
    def blocking(self) -> int | None:
        """The one that keeps others waiting which are ready."""
        first = min(self._state.open, default=None)
        return first if first is not None and isinstance(self._state.open[first], Overdue) else None

    @property
    def passed(self) -> int:
        """The last that went out; -1: none has."""
        return self._state.passed

    def expect(self, index: int, deadline_ms: int, now_ms: int) -> None:
        """An utterance was submitted; its job ends by its deadline. `Invalid` if it is known or its turn has passed."""
        if index in self._state.open:
            raise Invalid(f"utterance_index {index} is already in use")
        if index <= self._state.passed:
            raise Invalid(f"utterance_index {index} comes too late: {self._state.passed} has been answered")
        slot = Awaited(deadline_ms, 0)
        waited_for = any(later > index and isinstance(other, Ready) for later, other in self._state.open.items())
        self._state.open[index] = slot.overdue(now_ms) if waited_for else slot

    def withdraw(self, index: int) -> None:
        """It will not come after all, and nobody is to hear of it. Until its turn is past it may be expected again."""
        if isinstance(self._state.open.get(index), Unsettled):
            del self._state.open[index]

    def settle(self, index: int, outcome: Outcome, now_ms: int) -> Settled:
        """The end of an utterance is known. The first word counts."""
        slot = self._state.open.get(index)
        if isinstance(slot, Ready):
            return Settled.repeated
        if slot is None:
            return self._settle_closed(index)
        self._state.open[index] = Ready(outcome)
        for earlier, other in self._state.open.items():
            if earlier < index and not isinstance(other, Ready):
                self._state.open[earlier] = other.overdue(now_ms)
        return Settled.kept

    def _settle_closed(self, index: int) -> Settled:
        """A word about an utterance that is not open."""
        if self._state.announced.pop(index, None) is not None:
            return Settled.late
        return Settled.repeated if index <= self._state.passed else Settled.unknown

    def hold(self, index: int, until_ms: int, now_ms: int) -> None:
        """The job of this one is in a grace until then; `now_ms` or earlier ends it. The last word counts.

        One whose time is over by now stays given up, whether or not that has gone out yet.
        """
        slot = self._state.open.get(index)
        if isinstance(slot, Unsettled) and slot.due_ms(self._limits.gap_ms) > now_ms:
            self._state.open[index] = slot.held(until_ms, now_ms)

    def take(self, now_ms: int) -> Taken:
        """What may go out by now. Each of these is given once; whatever happens to it, `replay` has it."""
        events, cancel = [], []
        for index in sorted(self._state.open):
            slot = self._state.open[index]
            if slot.due_ms(self._limits.gap_ms) > now_ms:
                break
            if not isinstance(slot, Ready):
                cancel.append(index)
                self._state.announced[index] = now_ms + self._limits.window_ms
            outcome = slot.outcome if isinstance(slot, Ready) else Missing(GAP_TIMEOUT)
            events.append(self._state.log.append(index, outcome, now_ms))
            self._state.passed = index
            del self._state.open[index]
        return Taken(events, cancel, self._forget(now_ms))

    def _forget(self, now_ms: int) -> list[int]:
        """What is too old or too much is kept no longer: which utterances that were."""
        announced = self._state.announced
        if announced:
            known = [(index, until) for index, until in announced.items() if until > now_ms]
            self._state.announced = dict(known[-self._limits.max_events :])
        return [event.index for event in self._state.log.trim(now_ms, self._limits)]

    def catch_up(self, last_event_id: int, next_index: int) -> CaughtUp:
        """The client comes back and has events that nobody here has given: the engine has forgotten that they were.

        They were the ends of those that are open, the first of them, for so they go out; and of others, said later: the
        next ones, or some after these. `next_index`: what is said next has no number below it, as far as is known here.
        """
        ahead = self._state.log.catch_up(last_event_id, self._limits.max_events)
        heard = sorted(self._state.open)[:ahead]
        awaited = [index for index in heard if self.awaits(index)]
        for index in heard:
            self._state.passed = index
            del self._state.open[index]
        if ahead > len(heard):
            next_index += ahead - len(heard)
            self._state.passed = next_index - 1
        return CaughtUp(heard, awaited, next_index)

    def confirm(self, last_event_id: int) -> list[int]:
        """The client has seen all up to this event. The utterances that this newly confirms."""
        return [event.index for event in self._state.log.confirm(last_event_id)]

    def away(self, now_ms: int) -> None:
        """The client has lost its socket."""
        if self._state.log.away_since_ms < 0:
            self._state.log.away_since_ms = now_ms

    def back(self, after: int, now_ms: int) -> Replayed:
        """The client is there again, and has seen all up to this event: what it missed, to be written now."""
        self._state.log.away_since_ms, self._state.log.back_at_ms = -1, now_ms
        return self.replay(after)

    def replay(self, after: int) -> Replayed:
        """What went out after this event and is kept."""
        return self._state.log.replay(after)
