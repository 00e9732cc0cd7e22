"""One session as its client sees it: what to send, what to hand to the app, and how to go on after a loss. No I/O.

Whoever holds it writes what stands in `outbox`, tells it what came (`hear`) and that a socket was lost (`lost`), and
hands to the app what `take` gives. Nothing that was said leaves before its end is known, and a new socket begins with
all that may have been lost, in order: utterances without their end, and chunks. The scheduler knows utterances that it
has heard before by their number, and says of chunks up to which it has them; results are known here, by event.

A pong says that a chunk was heard, and makes room for more. But whoever heard it may be killed before it has saved it:
so chunks are kept here for a while longer.

A stream may begin its numbers anew, after a cut or a pause, with the first that the scheduler heard. One that does not
say up to which chunk it has them could take what is said again for such a beginning. So the first that it hears is a
chunk without audio, under a number that no audio has, and no other beginning.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import CLOSES, CloseCode, ErrorMessage
from lingua_scheduler.protocol.frames import (
    AudioFrame,
    FinalFrame,
    PingFrame,
    PongFrame,
    decode_frame,
    encode_frame,
)
from lingua_scheduler.protocol.session import (
    AsrPartial,
    Backpressure,
    ClientHeartbeat,
    EventAck,
    MissingResult,
    SessionClose,
    SessionCloseAck,
    SessionInit,
    SessionInitAck,
    TranslationResult,
    Utterance,
    read_to_client,
)
from lingua_scheduler.sdk._connect import announced
from lingua_scheduler.sdk.client_errors import ClientError, Refused, SessionLost, refused_by
from lingua_scheduler.sdk.client_items import Item, Missing, bare_result, missing_of, partial_of, reason_of, result_of

if TYPE_CHECKING:
    from lingua_scheduler.protocol.frames import Frame
    from lingua_scheduler.protocol.session import ToClient

#: So much may wait for the app, and so much audio for its confirmation, before nothing more is taken.
MAX_HELD_BYTES: Final = 16 * 1024 * 1024
MAX_UNSURE_BYTES: Final = 1024 * 1024
#: So much of what was heard is kept for saying it again: half a minute of 16 kHz. A scheduler saves it in a second.
MAX_HEARD_BYTES: Final = 1024 * 1024
#: Larger chunks travel in pieces: two seconds of 16 kHz.
PIECE_BYTES: Final = 64 * 1024
#: So many announced refusals are remembered until their utterances end.
_MAX_CAUSES: Final = 64
#: How long to be slow, if nobody says how long.
_SLOW_MS: Final = 1_000
_LOW_32: Final = 2**32 - 1
#: The first number of audio. Those below it are left for beginnings.
FIRST_SEQ: Final = 64

#: It would be the same again.
_FINAL: Final = frozenset(
    {
        CloseCode.NOT_JSON,
        CloseCode.POLICY,
        CloseCode.TOO_BIG,
        CloseCode.BAD_MESSAGES,
        CloseCode.UNAUTHENTICATED,
        CloseCode.FORBIDDEN,
    }
)
_KNOWN: Final = frozenset(CLOSES)
_LOST: Final = frozenset({CloseCode.UNKNOWN_SESSION, CloseCode.REPLACED})
#: Refusals of a beginning after which another try may succeed, though the same message would not.
_BEGIN_AGAIN: Final = frozenset({"INTERNAL", "SESSION_CLOSED"})

log = logging.getLogger(__name__)


class _Said(msgspec.Struct):
    """An utterance whose end is not known."""

    frame: str
    times: int = 0


class _Held(msgspec.Struct):
    """Something for the app. `event_id` 0: nobody waits for its confirmation."""

    item: Item
    event_id: int = 0
    size: int = 0


class _Chunks:
    """Chunks of a stream, in the order of their numbers."""

    def __init__(self) -> None:
        self._chunks: deque[tuple[int, bytes]] = deque()
        self.size = 0

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def first(self) -> int:
        return self._chunks[0][0]

    def frames(self) -> list[bytes]:
        return [frame for _, frame in self._chunks]

    def add(self, seq: int, frame: bytes) -> None:
        self._chunks.append((seq, frame))
        self.size += len(frame)

    def take(self) -> tuple[int, bytes]:
        """The first."""
        seq, frame = self._chunks.popleft()
        self.size -= len(frame)
        return seq, frame

    def take_back(self, earlier: _Chunks, seq: int) -> None:
        """Those of the earlier ones that are above a number."""
        while earlier and earlier._chunks[-1][0] > seq:
            last, frame = earlier._chunks.pop()
            earlier.size -= len(frame)
            self._chunks.appendleft((last, frame))
            self.size += len(frame)


class Conversation:
    """From the first `session_init` to the end, over as many sockets as it takes."""

    def __init__(self, init: SessionInit, *, max_held_bytes: int = MAX_HELD_BYTES) -> None:
        self._init = init
        self._max_held_bytes = max_held_bytes
        #: What was agreed; None until then.
        self.ack: SessionInitAck | None = None
        #: The present socket has its session.
        self.is_open = False
        #: Everything has ended, as was asked.
        self.is_over = False
        #: Why there will be nothing more, if that is so.
        self.failure: ClientError | None = None
        #: Why the session could not be opened on this socket, though it may be on another.
        self.refused: Refused | None = None
        #: When to come again at the earliest, counted from a loss.
        self.again_after_ms = 0
        #: Whoever sends waits until then.
        self.slow_until_ms = 0
        self.outbox: deque[str | bytes] = deque()
        self._said: dict[int, _Said] = {}
        self._next_index = 0
        #: Chunks without their pong, and the last of those that had theirs.
        self._unsure = _Chunks()
        self._heard = _Chunks()
        self._seq = FIRST_SEQ - 1
        self._next_beginning = FIRST_SEQ - 1
        self.is_closing = False
        self._held: dict[tuple[str, int], _Held] = {}
        self._held_bytes = 0
        self._last_event_id = 0
        self._taken_event_id = 0
        self._causes: dict[tuple[str | None, str], ErrorMessage] = {}
        self._last_error: ErrorMessage | None = None

    @property
    def is_done(self) -> bool:
        """No socket is needed any more."""
        return self.is_over or self.failure is not None

    @property
    def may_hear(self) -> bool:
        """Whether there is room for what comes. If not, it waits at the scheduler, and partials go first."""
        return self._held_bytes < self._max_held_bytes

    @property
    def may_send(self) -> bool:
        """Whether there is room for more audio that nobody has confirmed."""
        return self._unsure.size < MAX_UNSURE_BYTES

    # Sockets.

    def hello(self) -> str:
        """The first message on a new socket."""
        self.refused = None
        self._last_error = None
        if self.ack is None:
            return encode(self._init).decode()
        going_on = SessionInit(
            client_version=self._init.client_version,
            platform=self._init.platform,
            resume_token=self.ack.resume_token,
            last_event_id=self._last_event_id,
        )
        return encode(going_on).decode()

    def lost(self, code: int | None, reason: str = "") -> None:
        """The socket is closed, with this if the scheduler said so. What was not written is not lost."""
        close = CLOSES.get(CloseCode(code)) if code in _KNOWN else None
        error = self._last_error if self.refused is not None else announced(self._last_error, code)
        was_open = self.is_open
        self._leave()
        self.again_after_ms = (error.retry_after_ms or 0) if error is not None and error.retryable else 0
        if close is None:
            return
        detail = error.detail if error is not None else reason or close.meaning
        if code == CloseCode.REPLACED and not was_open:
            # A connection that is not the latest is refused: the next one is.
            return
        if code in _LOST:
            self.fail(SessionLost(close.error, detail, retryable=code == CloseCode.UNKNOWN_SESSION))
        elif code in _FINAL:
            self.fail(Refused(close.error, detail) if error is None else refused_by(error))

    def fail(self, failure: ClientError) -> None:
        """There is nothing more to be had. The first reason counts."""
        if not self.is_done:
            self.failure = failure
        self._leave()

    def _leave(self) -> None:
        self.is_open = False
        self.outbox.clear()

    # Saying something.

    def say(self, utterance: Utterance) -> int:
        """A whole utterance; its number, under which its end will come. The number it comes with does not count."""
        index, self._next_index = self._next_index, self._next_index + 1
        numbered = msgspec.structs.replace(utterance, utterance_index=index, session_id=self.session_id)
        said = self._said[index] = _Said(encode(numbered).decode())
        if self.is_open:
            self._utter(said)
        return index

    def _utter(self, said: _Said) -> None:
        said.times += 1
        self.outbox.append(said.frame)

    def stream(self, audio: bytes, at_ms: int) -> None:
        """More of a stream."""
        for start in range(0, len(audio), PIECE_BYTES):
            piece = audio[start : start + PIECE_BYTES]
            self._add(AudioFrame(self.session_id, self._seq + 1, at_ms & _LOW_32, is_final=False, audio=piece))

    def cut(self, at_ms: int) -> None:
        """What was streamed so far is an utterance."""
        self._add(FinalFrame(self.session_id, self._seq + 1, at_ms & _LOW_32))

    def _add(self, frame: AudioFrame | FinalFrame) -> None:
        self._seq = frame.seq
        raw = encode_frame(frame)
        self._unsure.add(frame.seq, raw)
        if self.is_open:
            if frame.seq == FIRST_SEQ:
                self._begin()
            self.outbox += (raw, _ping(frame.seq))

    def _begin(self) -> None:
        """What follows is no beginning."""
        self.outbox.append(
            encode_frame(AudioFrame(self.session_id, self._next_beginning, 0, is_final=False, audio=b""))
        )
        self._next_beginning = max(0, self._next_beginning - 1)

    def beat(self) -> None:
        """We are still here."""
        if self.is_open:
            beat = ClientHeartbeat(session_id=self.session_id, last_event_id=self._taken_event_id)
            self.outbox.append(encode(beat).decode())
            if self._unsure:
                self.outbox.append(_ping(self._seq))

    def close(self) -> None:
        """Nothing more will be said: what was said is answered, and then it is over."""
        if not self.is_closing:
            self.is_closing = True
            if self.is_open:
                self._say_goodbye()

    def _say_goodbye(self) -> None:
        self.outbox.append(encode(SessionClose(session_id=self.session_id, reason="done")).decode())

    @property
    def session_id(self) -> str:
        """Under which the scheduler knows it. It stays the same over all sockets."""
        if self.ack is None:
            raise RuntimeError("the session is not open yet")
        return self.ack.session_id

    # Hearing something.

    def hear(self, data: str | bytes, now_ms: int) -> None:
        """Something came. What cannot be read is of a newer scheduler, and not for us, but a result is a result."""
        try:
            message = read_to_client(data) if isinstance(data, str) else decode_frame(data)
        except Invalid as invalid:
            found = bare_result(data)
            if found is None:
                log.debug("not understood: %s", invalid)
                return
            message = found
        self._hear(message, now_ms)

    def _hear(self, message: ToClient | Frame, now_ms: int) -> None:
        match message:
            case SessionInitAck():
                self._agree(message)
            case TranslationResult():
                self._end(message.utterance_index, message.event_id, result_of(message))
            case MissingResult():
                self._miss(message)
            case AsrPartial():
                self._held["partial", message.utterance_index] = _Held(partial_of(message))
            case Backpressure():
                self.slow_until_ms = max(self.slow_until_ms, now_ms + (message.resume_after_ms or _SLOW_MS))
            case ErrorMessage():
                self._hear_error(message)
            case SessionCloseAck():
                self.is_over = True
            case PingFrame():
                self.outbox.append(encode_frame(PongFrame(message.payload)))
            case PongFrame():
                self._heard_up_to(int.from_bytes(message.payload, "little"))

    def _agree(self, ack: SessionInitAck) -> None:
        """The session is open, or goes on: everything that may have been lost is said again, in order."""
        self.ack = ack
        self.is_open = True
        for said in self._said.values():
            self._utter(said)
        if ack.heard_seq is not None:
            self._unsure.take_back(self._heard, ack.heard_seq)
            self._heard_up_to(ack.heard_seq)
        if self._unsure:
            if ack.heard_seq is None or ack.heard_seq < 0:
                self._begin()
            self.outbox += (*self._unsure.frames(), _ping(self._seq))
        if self.is_closing:
            self._say_goodbye()

    def _heard_up_to(self, seq: int) -> None:
        """The scheduler has heard everything up to this number."""
        while self._unsure and self._unsure.first <= seq:
            self._heard.add(*self._unsure.take())
        while self._heard.size > MAX_HEARD_BYTES:
            self._heard.take()

    def _hear_error(self, error: ErrorMessage) -> None:
        """Of a beginning, of an utterance that will be missing, or before a close that tells more."""
        self._last_error = error
        if self.is_open:
            self._causes[error.trace_id, reason_of(error)] = error
            if len(self._causes) > _MAX_CAUSES:
                del self._causes[next(iter(self._causes))]
            log.debug("the scheduler says %s: %s", error.error, error.detail)
            return
        if error.error == "INVALID_SESSION":
            self.fail(SessionLost(error.error, error.detail, retryable=True, trace_id=error.trace_id))
            return
        self.refused = refused_by(error)
        if not error.retryable and error.error not in _BEGIN_AGAIN:
            self.fail(self.refused)

    def _miss(self, message: MissingResult) -> None:
        """What was said twice and refused for that ended nowhere else: the first was lost with its instance."""
        said = self._said.get(message.utterance_index)
        if said is not None and said.times > 1 and message.reason == "invalid_message":
            message = msgspec.structs.replace(message, reason="lost")
        cause = self._causes.pop((message.trace_id, message.reason), None)
        self._end(message.utterance_index, message.event_id, missing_of(message, cause))

    def _end(self, index: int, event_id: int, item: Item) -> None:
        """The one end of an utterance. What we have had, we have had."""
        if event_id <= self._last_event_id:
            return
        self._last_event_id = event_id
        self._said.pop(index, None)
        size = 0 if isinstance(item, Missing) else _size_of(item)
        self._held["end", index] = _Held(item, event_id, size)
        self._held_bytes += size

    # The app.

    def take(self) -> Item | None:
        """The next for the app, which has it then; None: there is nothing just now."""
        if not self._held:
            return None
        held = self._held.pop(next(iter(self._held)))
        self._held_bytes -= held.size
        if held.event_id:
            self._taken_event_id = held.event_id
            if self.is_open:
                self.outbox.append(encode(EventAck(last_event_id=held.event_id)).decode())
        return held.item


def _ping(seq: int) -> bytes:
    """Its pong says that everything up to here was heard."""
    return encode_frame(PingFrame(seq.to_bytes(8, "little")))


def _size_of(item: Item) -> int:
    """About what a result takes."""
    return len(getattr(item, "tts_audio", b"")) + len(getattr(item, "text_translated", ""))
