"""Binary frames, little-endian: audio without base64. `LAYOUT` tells how each is laid out."""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from lingua_scheduler.core.ids import check_id
from lingua_scheduler.core.refusal import Invalid

AUDIO_CHUNK: Final = 0x01
FINAL: Final = 0x02
PING: Final = 0x10
PONG: Final = 0x11

_CHUNK_HEAD: Final = struct.Struct("<BBIIBB")
_FINAL_HEAD: Final = struct.Struct("<BBII")
_LOW_32: Final = 2**32 - 1


class AudioFrame(msgspec.Struct, frozen=True):
    """A piece of a session's audio, or all of a job's. `timestamp` is the low 32 bits of milliseconds."""

    session_id: str
    seq: int
    timestamp: int
    is_final: bool
    audio: bytes


class FinalFrame(msgspec.Struct, frozen=True):
    """The utterance ends here."""

    session_id: str
    seq: int
    timestamp: int


class PingFrame(msgspec.Struct, frozen=True):
    """Asks whether anybody is there."""

    payload: bytes = b""


class PongFrame(msgspec.Struct, frozen=True):
    """Says so."""

    payload: bytes = b""


Frame = AudioFrame | FinalFrame | PingFrame | PongFrame

#: How each of them is laid out.
LAYOUT: Final[dict[type[Frame], str]] = {
    AudioFrame: "u8 0x01, u8 session-id length, u32 seq, u32 timestamp, u8 is_final, u8 0, session id, audio",
    FinalFrame: "u8 0x02, u8 session-id length, u32 seq, u32 timestamp, session id",
    PingFrame: "u8 0x10, anything",
    PongFrame: "u8 0x11, what the ping had",
}


def decode_frame(data: bytes) -> Frame:
    """The frame; `Invalid` says what is wrong with its header."""
    if not data:
        raise Invalid("frame: it is empty")
    kind = data[0]
    if kind == AUDIO_CHUNK:
        return _audio_frame(data)
    if kind == FINAL:
        return _final_frame(data)
    if kind == PING:
        return PingFrame(data[1:])
    if kind == PONG:
        return PongFrame(data[1:])
    raise Invalid(f"frame: unknown type 0x{kind:02x}")


def _audio_frame(data: bytes) -> AudioFrame:
    _, length, seq, timestamp, is_final, reserved = _head(_CHUNK_HEAD, data)
    if is_final > 1:
        raise Invalid(f"frame: is_final must be 0 or 1, not {is_final}")
    if reserved:
        raise Invalid(f"frame: the byte after is_final must be 0, not {reserved}")
    session_id, audio = _session_id(data, _CHUNK_HEAD.size, length)
    return AudioFrame(session_id, seq, timestamp, bool(is_final), audio)


def _final_frame(data: bytes) -> FinalFrame:
    _, length, seq, timestamp = _head(_FINAL_HEAD, data)
    session_id, rest = _session_id(data, _FINAL_HEAD.size, length)
    if rest:
        raise Invalid(f"frame: {len(rest)} bytes too many; a final frame has no audio")
    return FinalFrame(session_id, seq, timestamp)


def _head(head: struct.Struct, data: bytes) -> tuple[int, ...]:
    if len(data) < head.size:
        raise Invalid(f"frame: a header of {head.size} bytes is cut off after {len(data)}")
    return head.unpack_from(data)


def _session_id(data: bytes, start: int, length: int) -> tuple[str, bytes]:
    found = data[start : start + length]
    if len(found) < length:
        raise Invalid(f"frame: a session id of {length} bytes is cut off after {len(found)}")
    # What is not ASCII is no id, whatever it is.
    return check_id("frame: session_id", found.decode("ascii", "replace")), data[start + length :]


def encode_frame(frame: Frame) -> bytes:
    """A frame as it travels."""
    if isinstance(frame, PingFrame):
        return bytes((PING,)) + frame.payload
    if isinstance(frame, PongFrame):
        return bytes((PONG,)) + frame.payload
    name = check_id("session_id", frame.session_id).encode()
    seq, timestamp = frame.seq & _LOW_32, frame.timestamp & _LOW_32
    if isinstance(frame, FinalFrame):
        return _FINAL_HEAD.pack(FINAL, len(name), seq, timestamp) + name
    head = _CHUNK_HEAD.pack(AUDIO_CHUNK, len(name), seq, timestamp, frame.is_final, 0)
    return b"".join((head, name, frame.audio))


def job_audio(session_id: str, utterance_index: int, audio: bytes, now_ms: int = 0) -> bytes:
    """The frame that follows a `job_assign` to a node with `binary_audio`: all of the utterance, in one."""
    return encode_frame(AudioFrame(session_id, utterance_index, now_ms, is_final=True, audio=audio))
