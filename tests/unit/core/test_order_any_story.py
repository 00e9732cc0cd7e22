"""Whatever happens to a session, in whatever order: each utterance ends once, in its turn, and nothing stays for ever.

The model knows no clocks that run or stop. It writes down what was said and when, and looks at every millisecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lingua_scheduler.core.order import Order, OrderLimits, Settled
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.core.replay import Event, Missing, Outcome, Result

if TYPE_CHECKING:
    from lingua_scheduler.core.order import Taken

GAP: Final = 10
WINDOW: Final = 60
LIMITS: Final = OrderLimits(window_ms=WINDOW, max_events=6, max_bytes=100, gap_ms=GAP)
indexes = st.integers(0, 15)


class Told(msgspec.Struct):
    """All that was said about an utterance, and when."""

    at_ms: int
    deadline_ms: int
    holds: list[tuple[int, int]]
    outcome: Outcome | None = None
    settled_at_ms: int = 0

    def held_at(self, ms: int) -> bool:
        """Whether it was in a grace then, by the last word before."""
        said = [until for at, until in self.holds if at <= ms]
        return bool(said) and ms < said[-1]


class Story(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.order = Order(LIMITS)
        self.now = 0
        self.open: dict[int, Told] = {}
        self.out: list[Event] = []
        self.announced: dict[int, int] = {}
        self.kept: list[Event] = []
        self.gone = 0
        self.away_since: int | None = None
        self.back_at = 0

    @initialize(number=st.integers(2, 5))
    def some_are_submitted(self, number: int) -> None:
        for index in range(number):
            self.submit(index * 2, 100)

    @rule(index=indexes, time=st.integers(0, 60))
    def submit(self, index: int, time: int) -> None:
        if index in self.open or (self.out and index <= self.out[-1].index):
            with pytest.raises(Invalid):
                self.order.expect(index, self.now + time, self.now)
            return
        self.order.expect(index, self.now + time, self.now)
        self.open[index] = Told(self.now, self.now + time, [])

    @rule(index=indexes, size=st.integers(0, 60), fails=st.booleans())
    def settle(self, index: int, size: int, fails: bool) -> None:
        outcome: Outcome = Missing("job_failed") if fails else Result(bytes(size))
        told = self.open.get(index)
        if told is not None and told.outcome is None:
            expected = Settled.kept
            told.outcome, told.settled_at_ms = outcome, self.now
        elif told is not None:
            expected = Settled.repeated
        elif index in self.announced:
            expected = Settled.late
            del self.announced[index]
        else:
            expected = Settled.repeated if self.out and index <= self.out[-1].index else Settled.unknown
        assert self.order.settle(index, outcome, self.now) is expected

    @rule(index=indexes, time=st.integers(-3, 30))
    def hold(self, index: int, time: int) -> None:
        self.order.hold(index, self.now + time, self.now)
        if index in self.open:
            self.open[index].holds.append((self.now, self.now + time))

    @rule(index=indexes)
    def withdraw(self, index: int) -> None:
        self.order.withdraw(index)
        if index in self.open and self.open[index].outcome is None:
            del self.open[index]

    @rule(time=st.integers(1, 12))
    def time_passes(self, time: int) -> None:
        self.now += time

    @rule()
    def take(self) -> None:
        due, before = self.order.due_ms, self.order.save()
        taken = self.order.take(self.now)
        changed = self.order.save() != before
        assert changed == (due is not None and due <= self.now), "it changes when it said, and then only"
        self._check(taken)

    @precondition(lambda self: self.order.due_ms is not None)
    @rule()
    def sleep_until_due(self) -> None:
        self.now = max(self.now, self.order.due_ms or 0)
        self.take()

    @rule(back=st.integers(-2, 6))
    def confirm(self, back: int) -> None:
        last = len(self.out) - back
        confirmed = [event.index for event in self.kept if event.event_id <= last <= len(self.out)]
        assert self.order.confirm(last) == confirmed
        self.kept = self.kept[len(confirmed) :]

    @rule()
    def lose_the_socket(self) -> None:
        self.order.away(self.now)
        self.away_since = self.now if self.away_since is None else self.away_since

    @rule(seen=st.integers(0, 6))
    def come_back(self, seen: int) -> None:
        after = max(0, len(self.out) - seen)
        replayed = self.order.back(after, self.now)
        self.away_since, self.back_at = None, self.now
        assert replayed.events == [event for event in self.kept if event.event_id > after]
        assert replayed.lost_to == (self.gone if self.gone > after else 0)

    @rule()
    def move_elsewhere(self) -> None:
        self.order = Order.load(LIMITS, self.order.save())

    @invariant()
    def what_is_kept_is_what_should_be(self) -> None:
        assert self.order.replay(0).events == self.kept
        assert self.order.pending == len(self.open)

    def _given_up(self, index: int) -> bool:
        """By looking at every millisecond: was it waited for too long, or is its job long over?"""
        told = self.open[index]
        ready = [other.settled_at_ms for later, other in self.open.items() if later > index and other.outcome]
        if self.now >= told.deadline_ms + GAP:
            return True
        start = max(told.at_ms, min(ready, default=self.now))
        return sum(not told.held_at(ms) for ms in range(start, self.now)) >= GAP

    def _check(self, taken: Taken) -> None:
        """What goes out now, one after the other."""
        for event in taken.events:
            index = min(self.open)
            assert (event.event_id, event.index, event.at_ms) == (len(self.out) + 1, index, self.now)
            assert not self.out or self.out[-1].index < index
            if self.open[index].outcome is None:
                assert self._given_up(index)
                assert event.outcome == Missing("gap_timeout")
                assert index in taken.cancel
                self.announced[index] = self.now + WINDOW
            else:
                assert event.outcome == self.open[index].outcome
                assert index not in taken.cancel
            del self.open[index]
            self.out.append(event)
            self.kept.append(event)
        assert set(taken.cancel) <= {event.index for event in taken.events}
        if self.open:
            first = min(self.open)
            assert self.open[first].outcome is None
            assert not self._given_up(first)
        self._forget(taken)

    def _forget(self, taken: Taken) -> None:
        """What leaves for its age, its number or its size."""
        known = [(index, until) for index, until in self.announced.items() if self.now < until]
        self.announced = dict(known[-LIMITS.max_events :])
        stays = [event for event in self.kept if not self._is_old(event)][-LIMITS.max_events :]
        left = self.kept[: len(self.kept) - len(stays)]
        assert taken.forgotten == [event.index for event in left]
        self.gone = left[-1].event_id if left else self.gone
        while sum(_size(event) for event in stays) > LIMITS.max_bytes:
            place = next(place for place, event in enumerate(stays) if _size(event))
            stays[place] = msgspec.structs.replace(stays[place], outcome=Missing("forgotten"))
        self.kept = stays

    def _is_old(self, event: Event) -> bool:
        since = max(event.at_ms, self.back_at) if self.away_since is None else self.away_since
        return self.now >= since + WINDOW

    def teardown(self) -> None:
        """Time alone brings everything to its end."""
        last = self.now + 100 + GAP + 2 * WINDOW
        while (due := self.order.due_ms) is not None:
            assert due <= last
            self.now = max(self.now, due)
            self.take()
        assert not self.open
        assert not self.kept
        indexes_out = [event.index for event in self.out]
        assert indexes_out == sorted(set(indexes_out))
        assert len(self.order.save()) < 120, "no trace is left of what went out"


def _size(event: Event) -> int:
    return len(event.outcome.body) if isinstance(event.outcome, Result) else 0


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=150, stateful_step_count=40)
