"""Whatever the scheduler, the socket and the handlers do: no slot too many, no job twice at once, no answer twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lingua_scheduler.protocol.frames import AudioFrame
from lingua_scheduler.protocol.node import JobAck, JobNack, JobResult, JobStopped
from lingua_scheduler.sdk.nodes.attempts import Attempts, Begin, Ping, Say, Stop
from tests.unit.sdk.test_attempts import assign, result

if TYPE_CHECKING:
    from lingua_scheduler.sdk.nodes.attempts import Act, Key

MAX_JOBS = 2
jobs = st.sampled_from(["c0.1", "c0.2", "c0.3"])
numbers = st.integers(1, 3)


class Story(RuleBasedStateMachine):
    """The handlers, the socket and the scheduler, as the attempts see them."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = Attempts(MAX_JOBS, takes_frames=True)
        self.attempts.node_id = "n1"
        self.is_in = False
        self.pings: list[int] = []
        #: Handlers that have not ended, and those of them that were told to.
        self.running: set[Key] = set()
        self.stopping: set[Key] = set()
        #: What was answered on this socket since it was last assigned.
        self.answered: set[Key] = set()

    def do(self, acts: list[Act]) -> None:
        for act in acts:
            match act:
                case Ping(number):
                    assert self.is_in
                    self.pings.append(number)
                case Begin(message, _):
                    key = (message.job_id, message.attempt_id)
                    assert message.job_id not in {job_id for job_id, _ in self.running}, "twice at the same time"
                    self.running.add(key)
                    assert len(self.running) <= MAX_JOBS
                case Stop(key, _):
                    assert key in self.running
                    assert key not in self.stopping
                    self.stopping.add(key)
                case Say(message):
                    assert self.is_in
                    self.say(message)

    def say(self, message: object) -> None:
        if isinstance(message, JobResult):
            key = (message.job_id, message.attempt_id)
            assert key not in self.running
            assert key not in self.answered, "twice on one socket, and nobody had asked again"
            self.answered.add(key)
        if isinstance(message, JobStopped):
            assert (message.job_id, message.attempt_id) not in self.running

    @precondition(lambda self: self.is_in)
    @rule(job_id=jobs, attempt_id=numbers, framed=st.booleans())
    def assign(self, job_id: str, attempt_id: int, framed: bool) -> None:
        self.answered.discard((job_id, attempt_id))
        said = {"audio": ""} if framed else {}
        acts = self.attempts.assigned(assign(job_id, attempt_id, session_id=job_id, **said))
        words = [act.message for act in acts if isinstance(act, Say)]
        assert sum(isinstance(word, JobAck) for word in words) <= 1
        assert not (any(isinstance(word, JobNack) for word in words) and any(isinstance(act, Begin) for act in acts))
        self.do(acts)

    @precondition(lambda self: self.is_in)
    @rule(job_id=jobs)
    def frame(self, job_id: str) -> None:
        self.do(self.attempts.framed(AudioFrame(job_id, 7, 0, is_final=True, audio=b"framed")))

    @precondition(lambda self: self.is_in)
    @rule(job_id=jobs, attempt_id=numbers)
    def cancel(self, job_id: str, attempt_id: int) -> None:
        self.do(self.attempts.cancelled((job_id, attempt_id)))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        self.running.discard(key)
        was_stopping = key in self.stopping
        self.stopping.discard(key)
        acts = self.attempts.finished(key, result(*key))
        assert not (was_stopping and any(isinstance(act, Say) and isinstance(act.message, JobResult) for act in acts))
        self.do(acts)

    @precondition(lambda self: self.pings)
    @rule()
    def pong(self) -> None:
        self.do(self.attempts.ponged(self.pings.pop(0)))

    @precondition(lambda self: self.is_in)
    @rule()
    def lose(self) -> None:
        self.is_in, self.answered = False, set()
        self.pings.clear()
        self.attempts.lost()

    @precondition(lambda self: not self.is_in)
    @rule()
    def join(self) -> None:
        claimed = {(one.job_id, one.attempt_id) for one in self.attempts.claimed()}
        assert self.running <= claimed
        self.is_in = True
        self.do(self.attempts.joined())

    @invariant()
    def what_runs_is_named(self) -> None:
        named = {(one.job_id, one.attempt_id) for one in self.attempts.running()}
        assert self.running <= named
        assert len(named) == self.attempts.busy <= MAX_JOBS

    @invariant()
    def nothing_is_forgotten_that_runs(self) -> None:
        assert not (self.running and self.attempts.is_idle)

    def teardown(self) -> None:
        """In the end everything that ran is over, and everything that was to be said is said and confirmed."""
        for key in sorted(self.running):
            self.running.discard(key)
            self.stopping.discard(key)
            self.do(self.attempts.finished(key, result(*key)))
        if not self.is_in:
            self.join()
        while self.pings or self.running:
            if self.pings:
                self.pong()
            for key in sorted(self.running):
                self.running.discard(key)
                self.stopping.discard(key)
                self.do(self.attempts.finished(key, result(*key)))
        assert self.attempts.is_idle


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=150, stateful_step_count=40)
