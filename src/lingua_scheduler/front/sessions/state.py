"""What is saved of a session, so that it can go on anywhere: no text. Audio stands beside it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

import msgspec

from lingua_scheduler.core.cutting import Cut, Cutting
from lingua_scheduler.protocol.session import SessionInit
from lingua_scheduler.protocol.speech import Agreed


class Sent(msgspec.Struct):
    """What is known of an utterance until its client has confirmed it."""

    trace_id: str
    heard_ms: int
    #: "": it was refused, and never had a job.
    job_id: str = ""
    #: The job is known to exist, or to have existed.
    is_placed: bool = False
    #: It has no node yet: if the job is gone, it has waited in vain.
    waits: bool = False
    web_ms: int | None = None
    #: When its job was last looked at, or was placed.
    looked_ms: int = 0
    #: Somebody else submitted it, and has his own use for the job: it is neither cancelled nor erased from here.
    is_foreign: bool = False
    #: Where its speech is kept, "" if it has none; None: its result was not read yet.
    speech_ref: str | None = None


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change while a session lives, but for what its client says when it comes back."""

    session_id: str
    #: Who it belongs to; "": nobody in particular.
    principal: str
    token_hash: str
    trace_id: str
    init: SessionInit
    agreed: Agreed
    paired_node_id: str = ""


class Whole(msgspec.Struct, frozen=True):
    """A piece of the stream that is cut and may have no job yet, but for its audio, which has so many bytes."""

    turn_id: str
    piece: int
    cut: Cut
    first_ms: int
    size: int
    #: None: it has no number yet.
    index: int | None = None
    #: The chunk before the one in which it begins.
    before: int = -1


class Stream(msgspec.Struct, frozen=True):
    """What was heard of a stream and may be in no job. Its audio stands beside it, in this order."""

    wholes: list[Whole] = []
    cutting: Cutting = Cutting()

    @property
    def size(self) -> int:
        """How many bytes of audio that are."""
        return sum(whole.size for whole in self.wholes) + (self.cutting.turn.size if self.cutting.turn else 0)


class Heard(msgspec.Struct, frozen=True):
    """That audio: each whole piece, then the open one. It only grows, unless `front` has changed."""

    front: int
    parts: Sequence[bytes | bytearray]

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return sum(map(len, self.parts))

    def since(self, start: int) -> bytes:
        """All behind so many bytes."""
        found = []
        for part in self.parts:
            found.append(part[start:])
            start = max(0, start - len(part))
        return b"".join(found)


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    about: About
    order: bytes
    sent: dict[int, Sent]
    next_index: int
    #: The client has said that it will say no more, and all that it said is in here.
    is_closing: bool = False
    #: None: nothing is known of it.
    stream: Stream | None = None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Saved).decode
_SECRET_BYTES: Final = 24


def pack_state(saved: Saved) -> bytes:
    """As it is kept."""
    return _encode(saved)


def unpack_state(raw: bytes) -> Saved | None:
    """As it was; None: another version wrote it, and it cannot be read."""
    try:
        return _decode(raw)
    except msgspec.DecodeError:
        return None


def new_token(session_id: str) -> str:
    """The word by which a client comes back: it names its session, and proves that it is its own."""
    return f"{session_id}.{secrets.token_urlsafe(_SECRET_BYTES)}"


def session_of(token: str) -> str:
    """The session that a token names; "" if it names none."""
    return token.rpartition(".")[0]


def hash_of(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_token(token: str, hashed: str) -> bool:
    """Whether this is the token, in constant time."""
    return hmac.compare_digest(hash_of(token), hashed)
