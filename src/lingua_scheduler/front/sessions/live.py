"""The second phase: a client speaks. What comes in is cut, checked and put into the ledger. No I/O, no clock."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.audio import Opus, Pcm16
from lingua_scheduler.core.cutting import Cut, Cutter, Cutting
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.core.traces import trace_in
from lingua_scheduler.front.sessions.bucket import Bucket
from lingua_scheduler.front.sessions.effects import Close, Effect, Save, Write
from lingua_scheduler.front.sessions.said import Said, cut_from_stream, piece_of, sent_whole
from lingua_scheduler.logs import get_log
from lingua_scheduler.protocol.errors import CloseCode, error_message
from lingua_scheduler.protocol.frames import AudioFrame, FinalFrame
from lingua_scheduler.protocol.session import AudioChunk, Utterance
from lingua_scheduler.protocol.speech import audio_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.core.cutting import Utterance as Piece
    from lingua_scheduler.front.sessions.ledger import Ledger
    from lingua_scheduler.front.sessions.state import Stream

    Input = Utterance | AudioChunk | AudioFrame | FinalFrame

_LOW_32: Final = 2**32
#: What was under way for longer than this has another clock.
_MAX_WEB_MS: Final = 60_000

log = get_log(__name__)


class Live:
    """A session that may say something."""

    def __init__(
        self,
        ledger: Ledger,
        now_ms: int,
        new_id: Callable[[], str],
        stream: Stream | None = None,
        audio: bytes = b"",
    ) -> None:
        """`stream`, with its audio: what was heard elsewhere and may be in no job; None: nothing is known of that."""
        self.ledger = ledger
        rules, agreed = ledger.rules, ledger.about.agreed
        codec = Opus() if agreed.codec == "opus" else Pcm16(agreed.sample_rate, agreed.channel_count)
        self._cutter = Cutter(rules.cut, codec, new_id)
        self._bucket = Bucket(rules.rate_per_s, rules.burst, now_ms)
        self._web_ms: int | None = None
        self._heard_ms = now_ms
        self._is_known = stream is not None
        #: Since when there is audio that is not saved; None: all of it is.
        self._unsaved_ms: int | None = None
        #: What is to be done as soon as somebody asks.
        self._owed: list[Effect] = [] if stream is None else self._go_on(stream, audio, now_ms)
        self._seq = self._cutter.last_seq

    def _go_on(self, stream: Stream, audio: bytes, now_ms: int) -> list[Effect]:
        """With what was heard elsewhere. If its audio is not all there, none of it is used; heard it was."""
        about, wholes, cutting = self.ledger.about, stream.wholes, stream.cutting
        if len(audio) != stream.size:
            log.warning("heard", session_id=about.session_id, trace_id=about.trace_id, reason="its audio is not kept")
            wholes, cutting, audio = [], Cutting(cutting.sequence), b""
        pieces = []
        for whole in wholes:
            piece, audio = piece_of(whole, audio[: whole.size]), audio[whole.size :]
            if whole.index is None:
                pieces.append(piece)
                continue
            with contextlib.suppress(Invalid):
                self.ledger.may_place_again(whole.index, self._said_of(piece, now_ms))
        self._cutter.load(cutting, audio)
        return self._cut(pieces, now_ms)

    def save(self) -> Cutting | None:
        """How far its stream has come; None: what was heard elsewhere is not known, and nothing since."""
        self._unsaved_ms = None
        return self.cutting

    @property
    def cutting(self) -> Cutting | None:
        """The same, without saving it."""
        saved = self._cutter.save()
        return saved if self._is_known or saved.sequence else None

    @property
    def open_audio(self) -> bytes | bytearray:
        """What was heard and is not cut."""
        return self._cutter.open_audio

    def came_back(self, now_ms: int) -> None:
        """The client was away."""
        self._heard_ms = now_ms
        self._cutter.came_back()

    def heard(self, now_ms: int) -> None:
        """The client said something, whatever it was."""
        self._heard_ms = now_ms

    def hear(self, message: Input, now_ms: int) -> list[Effect]:
        """A whole utterance, or a piece of a stream."""
        match message:
            case Utterance():
                return self._whole(message, now_ms)
            case AudioChunk():
                return self._chunk(message, now_ms)
            case AudioFrame():
                self._web_ms = _believed((now_ms - message.timestamp) % _LOW_32)
                return self._add(message.seq, message.audio, message.is_final, now_ms)
            case FinalFrame():
                return self._add(message.seq, b"", True, now_ms)

    def _whole(self, utterance: Utterance, now_ms: int) -> list[Effect]:
        said, refusal = self._nothing(utterance, now_ms), self._too_fast(now_ms)
        if refusal is None:
            try:
                said = sent_whole(utterance, self.ledger.about, self.ledger.rules.cut.max_bytes, said)
            except Invalid as invalid:
                refusal = invalid.refusal
        return self._say(said, refusal, now_ms)

    def refuse(self, utterance: Utterance, refusal: Refusal, now_ms: int) -> list[Effect]:
        """An utterance of which only its number could be read."""
        return self._say(self._nothing(utterance, now_ms), self._too_fast(now_ms) or refusal, now_ms)

    def _nothing(self, utterance: Utterance, now_ms: int) -> Said:
        """What is known of an utterance without looking into it."""
        parent = utterance.traceparent
        trace_id = utterance.trace_id or trace_in(parent) or self.ledger.about.trace_id
        web_ms = _under_way_ms(utterance.client_timestamp_ms, now_ms)
        return Said(
            index=utterance.utterance_index,
            trace_id=trace_id,
            traceparent=parent,
            began_ms=now_ms,
            heard_ms=now_ms,
            web_ms=web_ms,
        )

    def _chunk(self, chunk: AudioChunk, now_ms: int) -> list[Effect]:
        try:
            audio = audio_of("payload", chunk.payload) if chunk.payload else b""
        except Invalid as invalid:
            return [Write(error_message(invalid.refusal, self.ledger.about.trace_id))]
        if chunk.client_timestamp_ms is not None:
            self._web_ms = _under_way_ms(chunk.client_timestamp_ms, now_ms)
        seq = self._seq + 1 if chunk.seq is None else chunk.seq
        return self._add(seq, audio, chunk.is_final is True, now_ms)

    def _add(self, seq: int, audio: bytes, is_final: bool, now_ms: int) -> list[Effect]:
        """A piece of the stream."""
        self._seq = seq
        ledger, effects = self.ledger, self._cut(self._cutter.tick(now_ms), now_ms)
        was_silent = self._cutter.due_ms is None
        added = self._cutter.add(seq, audio, is_final, now_ms)
        if self._unsaved_ms is None and self._cutter.open_audio:
            self._unsaved_ms = now_ms
        if added.refusal is not None:
            effects.append(Write(error_message(added.refusal, ledger.about.trace_id)))
        if was_silent and (added.utterances or self._cutter.due_ms is not None):
            started = ledger.hints.show("INPUT_STARTED", ledger.coming_index, now_ms, trace_id=ledger.about.trace_id)
            effects.append(started)
        return effects + self._cut(added.utterances, now_ms)

    def _cut(self, pieces: list[Piece], now_ms: int) -> list[Effect]:
        """Pieces of the stream are whole."""
        effects: list[Effect] = []
        hints, about = self.ledger.hints, self.ledger.about
        for piece in pieces:
            if piece.cut is Cut.max_length:
                log.warning(
                    "cut",
                    session_id=about.session_id,
                    trace_id=about.trace_id,
                    bytes=len(piece.audio),
                    reason="too many bytes for one utterance",
                )
            ended = hints.show("INPUT_ENDED", self.ledger.coming_index, now_ms, trace_id=about.trace_id)
            effects += [ended, *self._say_piece(piece, now_ms)]
        return effects

    def _say_piece(self, piece: Piece, now_ms: int) -> list[Effect]:
        said, refusal = self._of_piece(piece, now_ms), self._too_fast(now_ms)
        if refusal is None:
            try:
                said = self._said_of(piece, now_ms)
            except Invalid as invalid:
                refusal = invalid.refusal
        return self._say(said, refusal, now_ms)

    def _of_piece(self, piece: Piece, now_ms: int) -> Said:
        """What is known of a piece without knowing what its session wants."""
        about = self.ledger.about
        parent = about.init.traceparent
        return Said(index=None, trace_id=about.trace_id, traceparent=parent, began_ms=piece.first_ms, heard_ms=now_ms)

    def _said_of(self, piece: Piece, now_ms: int) -> Said:
        """A piece of the stream as an utterance. `Invalid` if nobody can know what its session wants."""
        about = self.ledger.about
        return cut_from_stream(piece, about.init, about.agreed, self._of_piece(piece, now_ms), self._web_ms)

    def _too_fast(self, now_ms: int) -> Refusal | None:
        after_ms = self._bucket.take(now_ms)
        if not after_ms:
            return None
        return msgspec.structs.replace(refuse("RATE_LIMITED"), after_ms=after_ms)

    def _say(self, said: Said, refusal: Refusal | None, now_ms: int) -> list[Effect]:
        """Put it into the ledger, if there is room for it."""
        hints, full = self.ledger.hints, None if refusal else self.ledger.line.room_for(len(said.audio))
        effects = self.ledger.say(said, refusal or full, now_ms)
        if full is not None:
            return effects + hints.press("PAUSE", self.ledger.rules.wait_ms, full.detail, now_ms)
        return effects if refusal is None else effects + hints.pressed(refusal, now_ms)

    @property
    def due_ms(self) -> int:
        """When time alone will change something."""
        if self._owed:
            return 0
        dues = [self.ledger.due_ms, self._cutter.due_ms, self._idle_at_ms, self._keep_at_ms]
        return min(due for due in dues if due is not None)

    @property
    def _keep_at_ms(self) -> int | None:
        """When what was heard is to be saved, so that it is not lost with this instance."""
        return None if self._unsaved_ms is None else self._unsaved_ms + self.ledger.rules.keep_every_ms

    @property
    def _idle_at_ms(self) -> int | None:
        """When a client that says nothing, and waits for nothing, is sent away."""
        if self.ledger.away_since_ms is not None or not self.ledger.is_settled:
            return None
        return self._heard_ms + self.ledger.rules.idle_ms

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed."""
        effects = [*self._take_owed(), *self._cut(self._cutter.tick(now_ms), now_ms), *self.ledger.tick(now_ms)]
        keep_at_ms = self._keep_at_ms
        if keep_at_ms is not None and now_ms >= keep_at_ms:
            self._unsaved_ms = None
            effects.append(Save())
        idle_at_ms = self._idle_at_ms
        if idle_at_ms is not None and now_ms >= idle_at_ms:
            self._heard_ms = now_ms
            effects.append(Close(CloseCode.TIMEOUT, "nothing was said for too long"))
        return effects

    def end(self, now_ms: int) -> list[Effect]:
        """The client will say no more: what is there is its last utterance."""
        return [*self._take_owed(), *self._cut(self._cutter.end(), now_ms)]

    def _take_owed(self) -> list[Effect]:
        owed, self._owed = self._owed, []
        return owed


def _under_way_ms(stamp_ms: float | None, now_ms: int) -> int | None:
    """How long something was under way, by its sender's clock; None: that is not known."""
    return None if stamp_ms is None else _believed(now_ms - int(stamp_ms))


def _believed(passed_ms: int) -> int | None:
    """The same, unless it was stamped by another clock than ours."""
    return passed_ms if 0 <= passed_ms <= _MAX_WEB_MS else None
