"""Reading what a client says; how many messages in a row could not be read, and what is said about each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.core.refusal import CODES, Invalid
from lingua_scheduler.front.sessions.effects import Close, Effect, Write
from lingua_scheduler.front.web import SMALL_BYTES
from lingua_scheduler.protocol.codec import Undecodable
from lingua_scheduler.protocol.errors import MAX_BAD_IN_A_ROW, CloseCode, error_message
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
        """It is told so; after too many of them the socket is closed."""
        self._bad_in_a_row += 1
        effects: list[Effect] = [Write(error_message(refusal, trace_id))]
        if self._bad_in_a_row >= MAX_BAD_IN_A_ROW:
            effects.append(Close(CloseCode.BAD_MESSAGES, refusal.detail))
        return effects
