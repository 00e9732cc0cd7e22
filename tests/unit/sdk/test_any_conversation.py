"""Both ends of a session, joined by wires that break anywhere: what is said ends once, in order, and is heard once.

The client's machine is ours, and so is the scheduler's. The story plays the rest: the engine that numbers, the nodes,
the sockets, and an app that takes what it is handed when it likes.
"""

from __future__ import annotations

import base64
from collections import deque
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lingua_scheduler.core.cutting import CutLimits
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.order import OrderLimits
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.replay import Event
from lingua_scheduler.core.replay import Result as Ended
from lingua_scheduler.front.sessions.effects import Announce, Close, Effect, Finish, Forget, Number, Pong, Submit, Write
from lingua_scheduler.front.sessions.manners import read_message
from lingua_scheduler.front.sessions.rules import SessionRules
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.frames import PongFrame, encode_frame
from lingua_scheduler.protocol.session import (
    MissingResult,
    SessionCloseAck,
    SessionInit,
    SessionInitAck,
    TranslationResult,
    Utterance,
)
from lingua_scheduler.sdk.client_items import Item, Missing, Partial
from lingua_scheduler.sdk.client_session import Conversation
from tests.unit.front.sessions.talking import SESSION, START_MS, TENTH, TOKEN, init, moved, talk

RULES = SessionRules(
    cut=CutLimits(pause_ms=60_000, max_duration_ms=60_000),
    order=OrderLimits(gap_ms=600_000, window_ms=600_000),
    job=Limits(timeout_ms=600_000),
    burst=10_000,
    idle_ms=10_000_000,
)


class Story(RuleBasedStateMachine):
    """The wires, and the scheduler at their end."""

    def __init__(self) -> None:
        super().__init__()
        self.client = Conversation(init(supports_binary_frame=isinstance(self, Streaming)))
        self.machine = talk(RULES)
        self.up: deque[str | bytes] = deque()
        self.down: deque[str | bytes] = deque()
        self.is_wired = self.is_known = False
        self.counter = 0
        #: Jobs that nobody has done yet, and the audio of all that there ever were.
        self.jobs: list[Submit] = []
        self.heard: list[bytes] = []
        self.taken: list[Item] = []

    # The scheduler.

    def carry(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.carry_out(effect)

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Write():
                self.tell(encode(self.told(effect.message)).decode())
            case Pong():
                self.tell(encode_frame(PongFrame(effect.payload)))
            case Number():
                self.number(effect)
            case Submit():
                self.jobs.append(effect)
                self.heard.append(effect.said.audio)
                self.carry(self.machine.placed(effect.index, START_MS))
            case Announce():
                for event in effect.events:
                    self.tell(self.written(event))
            case Finish():
                self.tell(encode(SessionCloseAck(session_id=SESSION)).decode())
            case Close() | Forget():
                raise AssertionError(effect)

    def told(self, message: Any) -> Any:
        """As the client reads it."""
        return message

    def tell(self, frame: str | bytes) -> None:
        if self.is_wired and self.is_known:
            self.down.append(frame)

    def number(self, asked: Number) -> None:
        """As the engine does it: they only grow."""
        if asked.index is not None and asked.index < self.counter:
            self.carry(self.machine.not_numbered(Refusal("INVALID_MESSAGE", "it was given out before"), START_MS))
            return
        index = max(self.counter, asked.at_least) if asked.index is None else asked.index
        self.counter = index + 1
        self.carry(self.machine.numbered(index, f"c0.j{index}", START_MS))

    def written(self, event: Event) -> str:
        sent = self.machine.ledger.sent[event.index]
        if isinstance(event.outcome, Ended):
            message: TranslationResult | MissingResult = TranslationResult(
                session_id=SESSION,
                utterance_index=event.index,
                job_id=event.outcome.body.decode(),
                text_asr="",
                text_translated=f"means {event.index}",
                tts_audio="",
                tts_format="",
                trace_id=sent.trace_id,
                scheduler_sent_at_ms=START_MS,
                event_id=event.event_id,
            )
        else:
            message = MissingResult(
                session_id=SESSION,
                utterance_index=event.index,
                reason=event.outcome.reason,
                created_at_ms=START_MS,
                trace_id=sent.trace_id,
                event_id=event.event_id,
            )
        return encode(message).decode()

    def hear(self, frame: str | bytes) -> None:
        message = read_message(frame)
        if not isinstance(message, SessionInit):
            self.carry(self.machine.hear(message, START_MS))
        elif message.resume_token is not None:
            assert message.resume_token == TOKEN
            self.is_known = True
            self.carry(self.machine.back(message, TOKEN, START_MS))
        else:
            self.is_known = True
            self.machine = talk(RULES)
            self.carry(self.machine.welcome(TOKEN))

    # What happens.

    @precondition(lambda self: not self.is_wired and not self.client.is_done)
    @rule()
    def connect(self) -> None:
        self.is_wired, self.is_known = True, False
        self.up.append(self.client.hello())

    @precondition(lambda self: self.is_wired)
    @rule()
    def break_the_wire(self) -> None:
        self.up.clear()
        self.down.clear()
        if self.is_known:
            self.carry(self.machine.away(START_MS))
        self.is_wired = self.is_known = False
        self.client.lost(None)

    @precondition(lambda self: self.is_wired)
    @rule(up=st.integers(0, 6), down=st.integers(0, 6))
    def carry_some(self, up: int, down: int) -> None:
        """So many frames pass each way."""
        for _ in range(up):
            if self.client.outbox:
                self.up.append(self.client.outbox.popleft())
            if self.up:
                self.hear(self.up.popleft())
        for _ in range(min(down, len(self.down))):
            self.client.hear(self.down.popleft(), START_MS)

    @precondition(lambda self: self.jobs)
    @rule(which=st.integers(0, 50), good=st.booleans())
    def do_a_job(self, which: int, good: bool) -> None:
        job = self.jobs.pop(which % len(self.jobs))
        self.carry(self.machine.ended(job.index, "FINISHED" if good else "FAILED", START_MS))

    @rule()
    def take(self) -> None:
        item = self.client.take()
        if item is not None and not isinstance(item, Partial):
            self.taken.append(item)

    def may_speak(self) -> bool:
        return self.client.ack is not None and not self.client.is_closing

    @precondition(lambda self: self.may_speak() and len(self.heard) > 2)
    @rule()
    def close(self) -> None:
        """Nothing more will be said, whatever becomes of the wire until the scheduler has said so, too."""
        self.client.close()

    @invariant()
    def each_once_in_order(self) -> None:
        indexes = [item.utterance_index for item in self.taken]
        assert indexes == sorted(set(indexes))

    def finish(self) -> None:
        """All that was said is answered, over one good wire."""
        if not (self.is_wired or self.client.is_over):
            self.connect()
        self.client.close()
        for _ in range(1_000):
            if self.client.is_over:
                break
            self.carry_some(6, 6)
            if self.jobs:
                self.do_a_job(0, good=True)
        assert self.client.is_over
        while self.client._held:
            self.take()
        self.each_once_in_order()


class Speaking(Story):
    """Whole utterances. The session may move to another instance at any time."""

    said = 0

    @precondition(lambda self: self.may_speak())
    @rule()
    def say(self) -> None:
        audio = base64.b64encode(TENTH).decode()
        trace_id = f"t-{self.said}"
        assert self.client.say(Utterance(audio=audio, utterance_index=0, trace_id=trace_id)) == self.said
        self.said += 1

    @precondition(lambda self: self.client.ack is not None and not self.is_wired)
    @rule()
    def move(self) -> None:
        self.machine = moved(self.machine)

    def teardown(self) -> None:
        self.finish()
        assert [item.utterance_index for item in self.taken] == list(range(self.said))
        assert all(not isinstance(item, Missing) or item.reason == "job_failed" for item in self.taken)
        assert len(self.heard) == self.said


class Streaming(Story):
    """A stream: every byte is heard, in order, and none twice."""

    sent = b""

    @precondition(lambda self: self.may_speak())
    @rule(size=st.integers(1, 3))
    def stream(self, size: int) -> None:
        audio = bytes([len(self.sent) % 251]) * 2 * size
        self.sent += audio
        self.client.stream(audio, START_MS)

    @precondition(lambda self: self.may_speak())
    @rule()
    def cut(self) -> None:
        self.client.cut(START_MS)

    def teardown(self) -> None:
        self.finish()
        assert b"".join(self.heard) == self.sent
        assert [item.utterance_index for item in self.taken] == list(range(len(self.heard)))


class StreamingToAnOlderOne(Streaming):
    """The same to a scheduler that does not say what it has heard, as long as it is the same one."""

    def told(self, message: Any) -> Any:
        return msgspec.structs.replace(message, heard_seq=None) if isinstance(message, SessionInitAck) else message


TestSpeaking = Speaking.TestCase
TestSpeaking.settings = settings(max_examples=300, stateful_step_count=40)
TestStreaming = Streaming.TestCase
TestStreaming.settings = settings(max_examples=300, stateful_step_count=40)


def test_what_had_its_cut_and_no_pong_is_heard_once_by_a_scheduler_that_does_not_say_what_it_has() -> None:
    story = StreamingToAnOlderOne()
    story.connect()
    story.carry_some(6, 6)
    for number in (1, 2):
        story.stream(number)
        story.cut()
        story.carry_some(9, 0)
        for _ in range(2):
            story.break_the_wire()
            story.connect()
            story.carry_some(9, 1)
    story.teardown()
    assert [len(audio) for audio in story.heard] == [2, 4]
