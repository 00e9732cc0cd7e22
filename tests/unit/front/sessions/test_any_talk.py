"""Whatever happens to a session, in whatever order: each utterance ends once, in its turn, and its client sees it once.

The story plays all others: the engine that numbers, the nodes, the client that loses its socket and comes back with
what it saw, instances that die with all that was not saved, and an engine that forgets what was saved last.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lingua_scheduler.core.cutting import CutLimits
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.order import Order, OrderLimits
from lingua_scheduler.core.refusal import refuse
from lingua_scheduler.core.replay import Event, Missing
from lingua_scheduler.front.sessions.effects import (
    Abandon,
    Announce,
    Close,
    Effect,
    Finish,
    Forget,
    Look,
    Number,
    Release,
    Save,
    Submit,
)
from lingua_scheduler.front.sessions.rules import SessionRules
from lingua_scheduler.front.sessions.state import Saved, pack_state, unpack_state
from lingua_scheduler.front.sessions.talk import Talk
from lingua_scheduler.protocol.session import EventAck, SessionClose
from tests.unit.front.sessions.talking import START_MS, TOKEN, chunk, counting, init, talk, utterance

WINDOW = 5_000
RULES = SessionRules(
    cut=CutLimits(pause_ms=300, max_duration_ms=400),
    order=OrderLimits(gap_ms=1_000, window_ms=WINDOW, max_events=50),
    job=Limits(timeout_ms=3_000),
    burst=12,
    rate_per_s=20,
    max_unplaced=4,
    look_ms=500,
    look_closely_ms=200,
    doubt_ms=400,
    save_every_ms=900,
)
REFUSALS = ("ALL_CANDIDATES_FULL_OR_FAILED", "SCHEDULER_DEPENDENCY_DOWN", "OUTCOME_UNKNOWN")


class Story(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = START_MS
        self.machine = talk(RULES)
        self.saved = pack_state(self.machine.save())
        #: What was saved before that.
        self.pasts: list[bytes] = []
        #: The engine's own counter, and what is asked of it.
        self.counter = 0
        self.asked: list[Number] = []
        self.submits: dict[int, Submit] = {}
        self.jobs: dict[str, str] = {}
        self.looks: list[Look] = []
        self.released: set[str] = set()
        #: What was accepted: it must end.
        self.owed: set[int] = set()
        self.is_there = True
        self.events: list[Event] = []
        self.is_closed = self.is_told = self.is_over = False
        self.seq = 0

    def carry(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.carry_out(effect)

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Number():
                self.asked.append(effect)
                assert len(self.asked) == 1, "one number at a time"
            case Submit():
                self.save()
                self.submits[effect.index] = effect
            case Save():
                self.save()
            case Announce():
                self.save()
                self.receive(effect.events)
            case Abandon():
                self.submits.pop(effect.index, None)
                if self.jobs.get(effect.job_id) == "RUNNING":
                    self.jobs[effect.job_id] = "CANCELLED"
            case Release():
                assert self.jobs.get(effect.job_id) != "RUNNING", "text is erased of ended jobs only"
                assert effect.job_id not in self.released
                self.released.add(effect.job_id)
            case Look():
                self.looks.append(effect)
            case Finish():
                assert self.is_there
                assert self.is_closed
                assert not self.missing(), "all was announced before"
                self.is_told = True
            case Forget():
                self.is_over = True
            case Close():
                self.lose_the_socket()

    def save(self) -> None:
        self.pasts.append(self.saved)
        self.saved = pack_state(self.machine.save())
        assert len(self.saved) < 20_000, "bounded"
        self.owed |= set(self.machine.ledger.order.awaited)

    def receive(self, events: list[Event]) -> None:
        """A client that is there gets them once, each later than the last."""
        if not self.is_there:
            return
        for event in events:
            assert event.event_id == (self.events[-1].event_id + 1 if self.events else 1)
            assert not self.events or event.index > self.events[-1].index
            self.events.append(event)

    def missing(self) -> set[int]:
        return self.owed - {event.index for event in self.events}

    def alive(self) -> bool:
        return not self.is_over

    @precondition(lambda self: self.alive() and self.is_there)
    @rule(index=st.integers(0, 12), good=st.booleans(), known=st.booleans())
    def say(self, index: int, good: bool, known: bool) -> None:
        index += 0 if known else self.machine.ledger.next_index
        message = utterance(index, b"ab" if good else b"")
        was = self.machine.ledger.order.pending
        effects = self.machine.hear(message, self.now)
        if not good and not self.asked and self.machine.ledger.order.pending > was:
            self.owed.add(index)
        self.carry(effects)

    @precondition(lambda self: self.alive() and self.is_there)
    @rule(tenths=st.integers(0, 9), is_final=st.booleans())
    def stream(self, tenths: int, is_final: bool) -> None:
        self.seq += 1
        self.carry(self.machine.hear(chunk(self.seq, bytes(3_200 * tenths), is_final=is_final), self.now))

    @precondition(lambda self: self.asked)
    @rule(other=st.integers(0, 1), refused=st.sampled_from((None, None, None, *REFUSALS)))
    def number(self, other: int, refused: str | None) -> None:
        """The engine numbers; somebody else may have taken one in between, or it has forgotten its counter."""
        asked = self.asked.pop()
        if refused is not None:
            self.carry(self.machine.not_numbered(refuse(refused, pool=1, pair="en:zh"), self.now))
            return
        self.counter += other
        if asked.index is not None and asked.index < self.counter:
            self.carry(self.machine.not_numbered(refuse("INVALID_MESSAGE"), self.now))
            return
        index = asked.index if asked.index is not None else max(self.counter, asked.at_least)
        self.counter = index + 1
        self.carry(self.machine.numbered(index, f"c0.{index}", self.now))

    @precondition(lambda self: self.submits)
    @rule(data=st.data(), waited=st.booleans(), refused=st.sampled_from((None, None, None, *REFUSALS)))
    def place(self, data: Any, waited: bool, refused: str | None) -> None:
        index = data.draw(st.sampled_from(sorted(self.submits)))
        del self.submits[index]
        if refused is not None:
            self.carry(self.machine.refused(index, refuse(refused, pool=1, pair="en:zh"), self.now))
            return
        self.jobs.setdefault(f"c0.{index}", "RUNNING")
        if waited:
            self.carry(self.machine.busy(index, self.now))
        self.carry(self.machine.placed(index, self.now))

    @precondition(lambda self: self.alive() and "RUNNING" in self.jobs.values())
    @rule(data=st.data(), state=st.sampled_from(("FINISHED", "FAILED", "EXPIRED")), heard=st.booleans())
    def end(self, data: Any, state: str, heard: bool) -> None:
        """A job ends, and perhaps nobody tells; or it is told before it is told that the job exists."""
        job_id = data.draw(st.sampled_from(sorted(job for job, is_in in self.jobs.items() if is_in == "RUNNING")))
        self.jobs[job_id] = state
        if heard:
            self.carry(self.machine.ended(int(job_id[3:]), state, self.now))

    @precondition(lambda self: self.submits)
    @rule(data=st.data())
    def begin_to_place(self, data: Any) -> None:
        """The job exists, and it will be told later, or never."""
        self.jobs.setdefault(f"c0.{data.draw(st.sampled_from(sorted(self.submits)))}", "RUNNING")

    @precondition(lambda self: self.looks)
    @rule(grace=st.integers(0, 2_000), lost=st.integers(0, 9))
    def look(self, grace: int, lost: int) -> None:
        look = self.looks.pop(0)
        state = None if lost == 0 else self.jobs.get(look.job_id)
        if lost == 0 and self.jobs.get(look.job_id) == "RUNNING":
            self.jobs[look.job_id] = "EXPIRED"
        self.carry(self.machine.seen(look.index, state, self.now + grace, self.now))

    @precondition(lambda self: self.alive())
    @rule(ms=st.integers(1, 700))
    def time_passes(self, ms: int) -> None:
        until = self.now + ms
        while not self.is_over and self.machine.due_ms <= until:
            self.now = max(self.now, self.machine.due_ms)
            self.carry(self.machine.tick(self.now))
        self.now = until

    @precondition(lambda self: self.alive() and self.is_there)
    @rule(behind=st.integers(0, 3))
    def confirm(self, behind: int) -> None:
        last = max(0, len(self.events) - behind)
        self.carry(self.machine.hear(EventAck(last_event_id=last), self.now))

    @precondition(lambda self: self.alive() and self.is_there)
    @rule()
    def lose_the_socket(self) -> None:
        self.is_there = self.is_told = False
        self.carry(self.machine.away(self.now))

    @precondition(lambda self: self.alive() and not self.is_there)
    @rule()
    def come_back(self) -> None:
        self.is_there = True
        last = self.events[-1].event_id if self.events else 0
        self.carry(self.machine.back(init(last_event_id=last), TOKEN, self.now))

    @precondition(lambda self: self.alive())
    @rule(lost=st.integers(0, 2))
    def move_elsewhere(self, lost: int) -> None:
        """The instance dies: what was on its way there is gone, and the last that it wrote may not have arrived."""
        if self.is_there and lost:
            del self.events[len(self.events) - min(lost, self.unconfirmed()) :]
        saved = unpack_state(self.saved)
        assert isinstance(saved, Saved)
        self.asked.clear()
        self.submits.clear()
        self.looks.clear()
        self.is_there = self.is_told = False
        self.is_closed = saved.is_closing
        self.machine = Talk.load(RULES, saved, self.now, counting())
        self.come_back()

    @precondition(lambda self: self.alive() and self.pasts)
    @rule(saves=st.integers(1, 4))
    def forget(self, saves: int) -> None:
        """The engine fails over, and knows less than the client. What it knows is owed, and no end is heard twice.

        The client says only which event was its last. That tells everything if its numbers have no holes.
        """
        past = self.pasts[-saves:][0]
        saved = unpack_state(past)
        assert isinstance(saved, Saved)
        order = Order.load(RULES.order, saved.order)._state
        forgotten = [event.index for event in self.events if event.event_id >= order.log.next_id]
        told = [*sorted(order.open), *range(saved.next_index, saved.next_index + len(forgotten))]
        if forgotten != told[: len(forgotten)]:
            return
        del self.pasts[-saves:]
        self.saved = past
        self.owed = {event.index for event in self.events} | set(order.open)
        self.released.clear()
        self.move_elsewhere(0)

    def unconfirmed(self) -> int:
        kept = {event.event_id for event in self.machine.ledger.order.replay(0).events}
        return sum(event.event_id in kept for event in self.events)

    @precondition(lambda self: self.alive() and self.is_there and not self.is_closed and len(self.events) > 5)
    @rule()
    def close(self) -> None:
        self.is_closed = True
        self.carry(self.machine.hear(SessionClose(), self.now))

    @precondition(lambda self: self.alive() and self.is_there and self.is_told)
    @rule()
    def part(self) -> None:
        """The client has read that it has everything."""
        self.carry(self.machine.give_up())

    @precondition(lambda self: self.is_over)
    @rule()
    def nothing_more(self) -> None:
        assert not self.machine.ledger.sent

    @invariant()
    def nothing_grows(self) -> None:
        line = self.machine.ledger.line
        assert line.unplaced_bytes == sum(line.unplaced.values())
        assert set(line.unplaced) >= set(self.submits)

    def teardown(self) -> None:
        """Whatever is asked is answered, or never; time alone brings everything to its end."""
        if self.is_over:
            return
        if not self.is_there:
            self.come_back()
        last = self.now + 10_000
        while self.alive() and self.now < last:
            while self.asked:
                self.number(0, None)
            self.looks.clear()
            self.now = max(self.now, self.machine.due_ms)
            self.carry(self.machine.tick(self.now))
        assert not self.missing(), "every utterance has its end"
        assert not self.alive() or self.machine.ledger.is_settled
        ended = [event for event in self.events if not isinstance(event.outcome, Missing)]
        assert all(self.jobs[event.outcome.body.decode()] == "FINISHED" for event in ended)  # type: ignore[union-attr]


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=150, stateful_step_count=40)
