"""A session, from `session_init` to its end, as one machine: whoever holds it tells it what happened and when.

Every method gives what is to be done, in order. Its phases are types: `Live`, then `Closing`; what comes before is
`Opening`, which has no session yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.cutting import Cutting, Sequence
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.core.traces import trace_in
from lingua_scheduler.front.sessions.closing import Closing
from lingua_scheduler.front.sessions.effects import Effect, Forget, Pong, Save, Write
from lingua_scheduler.front.sessions.ledger import Ledger
from lingua_scheduler.front.sessions.live import Live
from lingua_scheduler.front.sessions.manners import Manners, wrong_utterance
from lingua_scheduler.front.sessions.opening import check_direction
from lingua_scheduler.front.sessions.said import paired, whole_of
from lingua_scheduler.front.sessions.state import Heard, Stream
from lingua_scheduler.protocol.errors import error_message
from lingua_scheduler.protocol.frames import AudioFrame, FinalFrame, PingFrame
from lingua_scheduler.protocol.session import (
    AudioChunk,
    ClientHeartbeat,
    EventAck,
    ServerHeartbeat,
    SessionClose,
    SessionInit,
    SessionInitAck,
    SessionLimits,
    Speech,
    TtsPlayEnded,
    TtsStarted,
    Utterance,
)
from lingua_scheduler.protocol.speech import PROTOCOL_VERSION, outdated

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.front.sessions.rules import SessionRules
    from lingua_scheduler.front.sessions.state import About, Saved, Whole
    from lingua_scheduler.protocol.frames import Frame
    from lingua_scheduler.protocol.session import FromClient

_INPUT: Final = (Utterance, AudioChunk, AudioFrame, FinalFrame)


class Talk:
    """The machine. It does nothing itself, and knows no time but what it is told."""

    def __init__(self, ledger: Ledger, phase: Live | Closing) -> None:
        self.ledger = ledger
        self.phase = phase
        self.manners = Manners()

    @classmethod
    def begin(cls, rules: SessionRules, about: About, now_ms: int, new_id: Callable[[], str]) -> Talk:
        """A new session."""
        ledger = Ledger(rules, about, now_ms)
        return cls(ledger, Live(ledger, now_ms, new_id, Stream()))

    @classmethod
    def load(
        cls, rules: SessionRules, saved: Saved, now_ms: int, new_id: Callable[[], str], audio: bytes = b""
    ) -> Talk:
        """One that was saved elsewhere, with the audio of its stream. Its client is away until it is `back`."""
        ledger, stream = Ledger.load(rules, saved, now_ms), saved.stream
        if saved.is_closing:
            return cls(ledger, Closing(ledger, stream.cutting if stream else None))
        return cls(ledger, Live(ledger, now_ms, new_id, stream, audio))

    def save(self, *, is_bare: bool = False) -> Saved:
        """All that is needed to go on elsewhere, but for the audio.

        `is_bare`: nobody keeps that. What has its number is announced as lost, if it has no job; and whoever goes on
        tells the client to go on behind that.
        """
        line, cutting = self.ledger.line, self.phase.save()
        wholes = [whole_of(said, index) for index, said in line.placing.items()]
        unnumbered = [whole_of(said, None) for said in line.pieces()]
        if cutting is not None and is_bare:
            stream: Stream | None = Stream([], Cutting(_numbered_up_to(cutting, unnumbered)))
        else:
            stream = None if cutting is None else Stream(wholes + unnumbered, cutting)
        is_closing = isinstance(self.phase, Closing) and self.phase.has_heard_all
        return msgspec.structs.replace(self.ledger.save(), is_closing=is_closing, stream=stream)

    def heard(self) -> Heard:
        """The audio that belongs to what `save` gives."""
        line, opened = self.ledger.line, self.phase.open_audio if isinstance(self.phase, Live) else b""
        return Heard(line.left, [*(said.audio for said in (*line.placing.values(), *line.pieces())), opened])

    # The client.

    def welcome(self, token: str) -> list[Effect]:
        """The session is open."""
        return [Save(), Write(self._ack(token, "session is open", None))]

    def going_on(self, init: SessionInit) -> About:
        """The session as its client wants it from now on: what it says anew, and the rest as before.

        `Invalid` if its languages mean nothing. The node that it was paired with stays.
        """
        about = self.ledger.about
        said = {name: getattr(init, name) for name in Speech.__struct_fields__ if getattr(init, name) is not None}
        said = dict.fromkeys(outdated(init, about.init)) | said
        wanted = paired(msgspec.structs.replace(about.init, **said), about.paired_node_id)
        check_direction(wanted)
        trace_id = init.trace_id or trace_in(init.traceparent) or about.trace_id
        return msgspec.structs.replace(about, init=wanted, trace_id=trace_id)

    def back(self, init: SessionInit, token: str, now_ms: int) -> list[Effect]:
        """The client is there again: what it missed, and in which direction it goes on, if it says so."""
        ledger = self.ledger
        ledger.about = self.going_on(init)
        self.manners = Manners()
        if isinstance(self.phase, Closing):
            self.phase.came_back()
        else:
            self.phase.came_back(now_ms)
        ack = Write(self._ack(token, "session goes on", _heard_seq(self.phase.cutting)))
        return self._then([ack, *ledger.back(init.last_event_id, now_ms), *ledger.look_at_all(now_ms)])

    def _ack(self, token: str, message: str, heard_seq: int | None) -> SessionInitAck:
        about, rules = self.ledger.about, self.ledger.rules
        return SessionInitAck(
            session_id=about.session_id,
            assigned_node_id=about.paired_node_id or None,
            message=message,
            trace_id=about.trace_id,
            protocol_version=PROTOCOL_VERSION,
            use_binary_frame=about.agreed.use_binary_frame,
            negotiated_codec=about.agreed.codec,
            negotiated_audio_format=about.agreed.audio_format,
            negotiated_sample_rate=about.agreed.sample_rate,
            negotiated_channel_count=about.agreed.channel_count,
            resume_token=token,
            limits=SessionLimits(
                max_message_bytes=rules.max_message_bytes,
                max_utterance_bytes=rules.cut.max_bytes,
                pause_ms=rules.cut.pause_ms,
                max_duration_ms=rules.cut.max_duration_ms,
            ),
            heard_seq=heard_seq,
        )

    def away(self, now_ms: int) -> list[Effect]:
        """The client has lost its socket. What it said is not lost, and it may come back."""
        return self.ledger.away(now_ms)

    def unreadable(self, data: str | bytes, error: Invalid, now_ms: int) -> list[Effect]:
        """Something came that is no message. If it was meant to be an utterance, it ends as one that is refused."""
        about = self.ledger.about
        meant = wrong_utterance(data, about.session_id)
        if meant is None:
            return self.manners.unreadable(error, about.trace_id)
        self.manners.good()
        if isinstance(self.phase, Closing):
            return self.phase.hear()
        self.phase.heard(now_ms)
        return self.phase.refuse(meant, error.refusal, now_ms)

    def hear(self, message: FromClient | Frame, now_ms: int) -> list[Effect]:
        """A message came."""
        if isinstance(message, SessionInit):
            return self.manners.bad(Refusal("INVALID_MESSAGE", "the session is open already"), message.trace_id)
        self.manners.good()
        if isinstance(self.phase, Live):
            self.phase.heard(now_ms)
        named = getattr(message, "session_id", None)
        if named is not None and named != self.ledger.about.session_id:
            return [Write(error_message(refuse("INVALID_SESSION"), self.ledger.about.trace_id))]
        return self._then(self._take_in(message, now_ms))

    def _take_in(self, message: FromClient | Frame, now_ms: int) -> list[Effect]:
        ledger = self.ledger
        match message:
            case Utterance() | AudioChunk() | AudioFrame() | FinalFrame():
                return self.phase.hear(message, now_ms) if isinstance(self.phase, Live) else self.phase.hear()
            case ClientHeartbeat():
                beat = ServerHeartbeat(session_id=ledger.about.session_id, timestamp=now_ms)
                return [Write(beat, may_drop=True), *ledger.confirm(message.last_event_id)]
            case EventAck():
                return ledger.confirm(message.last_event_id)
            case TtsStarted() | TtsPlayEnded():
                return [self._played(message, now_ms)]
            case SessionClose():
                return self._close(now_ms)
        return [Pong(message.payload)] if isinstance(message, PingFrame) else []

    def _played(self, message: TtsStarted | TtsPlayEnded, now_ms: int) -> Write:
        index = self.ledger.hints.find(message.trace_id)
        known = self.ledger.sent.get(index)
        return self.ledger.hints.show(
            "TTS_PLAY_STARTED" if isinstance(message, TtsStarted) else "TTS_PLAY_ENDED",
            index,
            now_ms,
            job_id=known.job_id if known else "",
            trace_id=message.trace_id or "",
        )

    def _close(self, now_ms: int) -> list[Effect]:
        """The client wants to leave: what it said is answered first."""
        if isinstance(self.phase, Closing):
            return []
        effects = self.phase.end(now_ms)
        self.phase = Closing(self.ledger, self.phase.cutting)
        return effects

    # What becomes of its utterances. The ledger knows.

    def numbered(self, index: int, job_id: str, now_ms: int) -> list[Effect]:
        """Answers `Number`. The id is a new one, for the job that is to be."""
        return self._then(self.ledger.numbered(index, job_id, now_ms))

    def not_numbered(self, refusal: Refusal, now_ms: int) -> list[Effect]:
        """Answers `Number`."""
        return self._then(self.ledger.not_numbered(refusal, now_ms))

    def placed(self, index: int, now_ms: int) -> list[Effect]:
        """Answers `Submit`."""
        return self._then(self.ledger.placed(index, now_ms))

    def busy(self, index: int, now_ms: int) -> list[Effect]:
        """The job of an utterance waits for a node, and goes on doing so whoever has this session."""
        known = self.ledger.sent.get(index)
        if known is not None:
            known.waits = True
        return self.ledger.hints.busy(now_ms)

    def in_vain(self, index: int, now_ms: int) -> list[Effect]:
        """It has waited long enough, and nobody here is placing it."""
        return self._then(self.ledger.in_vain(index, now_ms))

    def refused(self, index: int, refusal: Refusal, now_ms: int) -> list[Effect]:
        """Answers `Submit`."""
        return self._then(self.ledger.refused(index, refusal, now_ms))

    def doubt(self, index: int, now_ms: int) -> list[Effect]:
        """Answers `Submit`, and of what somebody else submitted: nobody knows how that went."""
        return self._then(self.ledger.doubt(index, now_ms))

    def withdraw(self, index: int, now_ms: int) -> list[Effect]:
        """What somebody else submitted was refused."""
        return self._then(self.ledger.withdraw(index, now_ms))

    def ended(self, index: int, state: str, now_ms: int) -> list[Effect]:
        """The job of an utterance has ended."""
        return self._then(self.ledger.ended(index, state, now_ms))

    def seen(self, index: int, state: str | None, grace_until_ms: int, now_ms: int) -> list[Effect]:
        """Answers `Look`."""
        return self._then(self.ledger.seen(index, state, grace_until_ms, now_ms))

    # Time.

    @property
    def due_ms(self) -> int:
        """When to call `tick`."""
        return self.phase.due_ms

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed."""
        window_ends_ms = self.ledger.window_ends_ms
        if window_ends_ms is not None and now_ms >= window_ends_ms:
            return self.give_up()
        return self._then(self.phase.tick(now_ms))

    def reopen(self, now_ms: int) -> list[Effect]:
        """The engine has come back empty: save everything again, and see what is lost."""
        return [Save(), *self.ledger.look_at_all(now_ms)]

    def give_up(self) -> list[Effect]:
        """The session is over: nobody waits for it any more, and nothing of it is kept."""
        return [*self.ledger.give_up(), Forget()]

    def _then(self, effects: list[Effect]) -> list[Effect]:
        """A session that closes is finished as soon as it owes nothing."""
        return [*effects, *self.phase.finish()] if isinstance(self.phase, Closing) else effects


def _numbered_up_to(cutting: Cutting, unnumbered: list[Whole]) -> Sequence | None:
    """The chunks of a stream before all that has no number yet; None: there is none."""
    sequence, begin = cutting.sequence, [whole.before for whole in unnumbered]
    begin += [cutting.turn.before] if cutting.turn is not None and cutting.turn.size else []
    if sequence is None or not begin:
        return sequence
    return Sequence(sequence.first, min(begin)) if min(begin) >= sequence.first else None


def _heard_seq(cutting: Cutting | None) -> int | None:
    """The last chunk of a stream that was heard, -1 if there was none; None: that is not known."""
    if cutting is None:
        return None
    return cutting.sequence.last if cutting.sequence else -1
