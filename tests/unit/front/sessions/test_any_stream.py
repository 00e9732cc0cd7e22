"""Whoever speaks a stream, and whichever instance dies when: all that was said is in one utterance, once, in order.

The story plays the client, who says again what the scheduler has not, and the engine, which has what was saved.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lingua_scheduler.core.cutting import CutLimits
from lingua_scheduler.core.errors import OutcomeUnknown
from lingua_scheduler.front.sessions.effects import Announce, Effect, Look, Number, Save, Submit
from lingua_scheduler.front.sessions.rules import SessionRules
from lingua_scheduler.front.sessions.saver import Change, Saver
from lingua_scheduler.front.sessions.state import Saved, pack_state, unpack_state
from lingua_scheduler.front.sessions.talk import Talk
from lingua_scheduler.protocol.session import SessionInitAck
from tests.unit.front.sessions.talking import START_MS, TOKEN, chunk, counting, init, messages, talk

if TYPE_CHECKING:
    from lingua_scheduler.core.refusal import Refusal

#: A second of silence ends an utterance, and so do 320 bytes of sound.
RULES = SessionRules(
    cut=CutLimits(pause_ms=1_000, max_duration_ms=10), rate_per_s=10**6, burst=10**6, keep_every_ms=200
)


class Story(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = START_MS
        self.machine = talk(RULES)
        self.saver = Saver(self.machine.save, self.machine.heard, self.put, create=True)
        self.state, self.heard = b"", b""
        self.fails = False
        self.chunks: list[tuple[bytes, bool]] = []
        self.asked: list[Number] = []
        self.is_wished = False
        self.next_index = 0
        self.submits: dict[int, bytes] = {}
        self.looks: list[int] = []
        #: Those that have their job.
        self.utterances: dict[int, bytes] = {}
        self.save()

    async def put(self, saved: Saved, change: Change | None, *, create: bool) -> Refusal | None:
        del create
        self.state, self.next_index = pack_state(saved), saved.next_index
        if change is not None:
            assert change.start <= len(self.heard)
            self.heard = self.heard[: change.start] + change.audio
        if self.fails:
            raise OutcomeUnknown("nobody heard the answer")
        return None

    def save(self) -> None:
        self.is_wished = self.fails = False
        asyncio.run(self.saver.save())

    def carry(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Number():
                    self.asked.append(effect)
                case Submit():
                    self.save()
                    self.submits[effect.index] = effect.said.audio
                case Look():
                    self.looks.append(effect.index)
                case Save():
                    self.is_wished = True
                case Announce():
                    raise AssertionError("nothing ends here")

    def say(self, seq: int) -> None:
        audio, is_final = self.chunks[seq]
        self.carry(self.machine.hear(chunk(seq, audio, is_final=is_final), self.now))

    @rule(size=st.integers(0, 700), is_final=st.booleans())
    def stream(self, size: int, is_final: bool) -> None:
        seq = len(self.chunks)
        self.chunks.append((bytes((seq + place) % 251 for place in range(size)), is_final))
        self.say(seq)

    @rule(ms=st.integers(1, 1_500))
    def time_passes(self, ms: int) -> None:
        self.now += ms
        self.carry(self.machine.tick(self.now))

    @precondition(lambda self: self.asked)
    @rule()
    def number(self) -> None:
        asked = self.asked.pop()
        index = max(asked.at_least, self.next_index)
        self.carry(self.machine.numbered(index, f"c0.{index}", self.now))

    @precondition(lambda self: self.submits)
    @rule(is_told=st.booleans())
    def place(self, is_told: bool) -> None:
        """The job exists; if nobody is told, the instance is about to die."""
        index, audio = self.submits.popitem()
        assert self.utterances.setdefault(index, audio) == audio
        if is_told:
            self.carry(self.machine.placed(index, self.now))
        else:
            self.the_instance_dies()

    @precondition(lambda self: self.looks)
    @rule()
    def look(self) -> None:
        index = self.looks.pop(0)
        state = "RUNNING" if index in self.utterances else None
        self.carry(self.machine.seen(index, state, 0, self.now))

    @precondition(lambda self: self.is_wished)
    @rule()
    def is_saved(self) -> None:
        self.save()

    @rule()
    def is_saved_and_not_told(self) -> None:
        self.fails = True
        try:
            asyncio.run(self.saver.save())
        except OutcomeUnknown:
            self.fails = False

    @rule()
    def comes_back(self) -> None:
        self.go_on()

    @rule()
    def the_instance_dies(self) -> None:
        saved = unpack_state(self.state)
        assert saved is not None
        self.asked.clear()
        self.submits.clear()
        self.looks.clear()
        self.is_wished = False
        self.machine = Talk.load(RULES, saved, self.now, counting(), self.heard)
        self.saver = Saver(self.machine.save, self.machine.heard, self.put, create=False)
        self.go_on()

    def go_on(self) -> None:
        """The client is back, and says again what the scheduler has not."""
        effects = self.machine.back(init(), TOKEN, self.now)
        (ack,) = messages(effects, SessionInitAck)
        assert ack.heard_seq is not None
        self.carry(effects)
        self.carry(self.machine.tick(self.now))
        for seq in range(ack.heard_seq + 1, len(self.chunks)):
            self.say(seq)

    def teardown(self) -> None:
        self.stream(2, True)
        self.carry(self.machine.tick(self.now))
        while self.asked or self.submits or self.looks:
            if self.looks:
                self.look()
            elif self.submits:
                self.place(True)
            else:
                self.number()
        assert self.machine.heard().since(0) == b""
        said = b"".join(audio for _, audio in sorted(self.utterances.items()))
        assert said == _whole(self.chunks)


def _whole(chunks: list[tuple[bytes, bool]]) -> bytes:
    """All samples: the beginning of one before a cut is no sample."""
    parts, part = [], b""
    for audio, is_final in chunks:
        part += audio
        if is_final:
            parts.append(part[: len(part) // 2 * 2])
            part = b""
    return b"".join(parts)


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=150, stateful_step_count=40)
