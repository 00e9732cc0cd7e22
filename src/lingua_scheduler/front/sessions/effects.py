"""What a session wants done. The machine says it, the glue does it, in this order."""

from __future__ import annotations

import msgspec

from lingua_scheduler.core.replay import Event
from lingua_scheduler.front.sessions.said import Said
from lingua_scheduler.protocol.errors import CloseCode, ErrorMessage
from lingua_scheduler.protocol.session import (
    AsrPartial,
    Backpressure,
    ServerHeartbeat,
    SessionInitAck,
    UiEvent,
)


class Write(msgspec.Struct, frozen=True):
    """Tell the client, if it is there. Hints may be lost if it does not read."""

    message: SessionInitAck | AsrPartial | UiEvent | Backpressure | ServerHeartbeat | ErrorMessage
    may_drop: bool = False


class Pong(msgspec.Struct, frozen=True):
    """Answer a binary ping."""

    payload: bytes


class Number(msgspec.Struct, frozen=True):
    """May this session say one more thing, and which number has it? Say so by `numbered` or `not_numbered`.

    `index` is the client's own word; without one any number will do that is not below `at_least`.
    """

    index: int | None
    at_least: int


class Submit(msgspec.Struct, frozen=True):
    """Save the state, then place the job under this id. Say how that ended by `placed` or `refused`."""

    index: int
    job_id: str
    said: Said


class Save(msgspec.Struct, frozen=True):
    """The state has changed."""


class Announce(msgspec.Struct, frozen=True):
    """Save the state, then write these to the client if it is there, each with its text. They go out in order."""

    events: list[Event]


class Abandon(msgspec.Struct, frozen=True):
    """Nobody waits for this one any more: stop placing it, and cancel its job."""

    index: int
    job_id: str


class Release(msgspec.Struct, frozen=True):
    """The client has it, or will never ask again: erase the text of the job, and the audio.

    What somebody else submitted is his to erase: it is only not waited for any more.
    """

    job_id: str
    is_foreign: bool = False
    #: Where its speech is kept, "" if it has none; None: its result was not read yet.
    speech_ref: str | None = None


class Look(msgspec.Struct, frozen=True):
    """How is this job? Say so by `seen`."""

    index: int
    job_id: str


class Close(msgspec.Struct, frozen=True):
    """Close the socket; the session stays. `after_ms`: when to come again, if that is known."""

    code: CloseCode
    detail: str = ""
    after_ms: int | None = None


class Finish(msgspec.Struct, frozen=True):
    """When all that was announced is written: `session_close_ack`, close 1000.

    The session is over when the client closes, too. If its socket breaks before, it may come back.
    """


class Forget(msgspec.Struct, frozen=True):
    """The session is over and leaves nothing."""


Effect = Write | Pong | Number | Submit | Save | Announce | Abandon | Release | Look | Close | Finish | Forget
