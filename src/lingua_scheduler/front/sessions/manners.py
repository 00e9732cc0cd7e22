"""Reading what a client says; how many messages in a row could not be read, and what is said about each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from lingua_scheduler.core.refusal import CODES, Invalid
from lingua_scheduler.front.sessions.effects import Close, Effect, Write
from lingua_scheduler.front.web import SMALL_BYTES
from lingua_scheduler.protocol.codec import Undecodable
from lingua_scheduler.protocol.errors import MAX_BAD_IN_A_ROW, CloseCode, error_message
from lingua_scheduler.protocol.fields import MAX_TEXT_CHARS, Index, cut
from lingua_scheduler.protocol.frames import decode_frame
from lingua_scheduler.protocol.session import AudioChunk, Utterance, read_from_client

if TYPE_CHECKING:
    from lingua_scheduler.core.refusal import Refusal
    from lingua_scheduler.protocol.frames import Frame
    from lingua_scheduler.protocol.session import FromClient


def read_message(data: str | bytes) -> FromClient | Frame:
    """What a client said; `Invalid` if that cannot be known, or is larger than what has no audio may be."""
    if not isinstance(data, str):
        return decode_frame(data)
    message = read_from_client(data)
    if len(data) > SMALL_BYTES and not isinstance(message, Utterance | AudioChunk):
        raise Invalid(CODES["PAYLOAD_TOO_LARGE"].detail, "PAYLOAD_TOO_LARGE")
    return message


class _Named(msgspec.Struct):
    """What must be readable of an utterance that is otherwise wrong."""

    type: Literal["utterance"]
    utterance_index: Index
    session_id: Any = None
    trace_id: Any = None


_read_named: Final = msgspec.json.Decoder(_Named).decode


def wrong_utterance(data: str | bytes, session_id: str) -> Utterance | None:
    """The utterance that something unreadable was meant to be, by its number; None: it was none of this session."""
    try:
        named = _read_named(data)
    except (ValueError, RecursionError):
        return None
    if named.session_id is not None and named.session_id != session_id:
        return None
    trace_id = cut(named.trace_id, MAX_TEXT_CHARS) if isinstance(named.trace_id, str) else None
    return Utterance(audio="", utterance_index=named.utterance_index, trace_id=trace_id)


class Manners:
    """Of one socket."""

    def __init__(self) -> None:
        self._bad_in_a_row = 0

    def good(self) -> None:
        """A message that could be read."""
        self._bad_in_a_row = 0

    def unreadable(self, error: Invalid, trace_id: str | None) -> list[Effect]:
        """A message that could not. What is only not served by this version is no bad message."""
        if isinstance(error, Undecodable) and error.close is not None:
            return [Close(error.close, error.refusal.detail)]
        if error.refusal.code == "UNSUPPORTED_FEATURE":
            self.good()
            return [Write(error_message(error.refusal, trace_id))]
        return self.bad(error.refusal, trace_id)

    def bad(self, refusal: Refusal, trace_id: str | None) -> list[Effect]:
        """It is told so; after too many of them the socket is closed, which tells it too."""
        self._bad_in_a_row += 1
        if self._bad_in_a_row >= MAX_BAD_IN_A_ROW:
            return [Close(CloseCode.BAD_MESSAGES, refusal.detail)]
        return [Write(error_message(refusal, trace_id))]
