"""The first phase of a session's socket: nothing is known but that somebody is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.ids import check_code, check_id
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.front.sessions.effects import Close, Effect, Pong
from lingua_scheduler.front.sessions.manners import Manners
from lingua_scheduler.front.sessions.state import session_of
from lingua_scheduler.protocol.errors import CloseCode
from lingua_scheduler.protocol.frames import Frame, PingFrame, PongFrame
from lingua_scheduler.protocol.session import SessionInit
from lingua_scheduler.protocol.speech import Agreed, direction_of, negotiate

if TYPE_CHECKING:
    from lingua_scheduler.front.sessions.rules import SessionRules
    from lingua_scheduler.protocol.session import FromClient

#: What says in which direction a session goes. One that says none of it leaves that to its utterances.
_DIRECTION: Final = ("src_lang", "tgt_lang", "mode", "lang_a", "lang_b", "auto_langs")


class Begin(msgspec.Struct, frozen=True):
    """A new session, if whoever asks may have one. `pairing_code` "": any node will do."""

    init: SessionInit
    agreed: Agreed
    pairing_code: str


class Resume(msgspec.Struct, frozen=True):
    """Go on with a session that this token belongs to."""

    init: SessionInit
    session_id: str
    token: str


class Opening:
    """Waits for `session_init`, for a while."""

    def __init__(self, rules: SessionRules, now_ms: int, trace_id: str) -> None:
        self.due_ms = now_ms + rules.opening_ms
        self.manners = Manners()
        self._trace_id = trace_id

    def hear(self, message: FromClient | Frame) -> Begin | Resume | list[Effect]:
        """A message came: the way into a session, or what is to be said about it."""
        match message:
            case SessionInit():
                return self._begin(message)
            case PingFrame():
                return [Pong(message.payload)]
            case PongFrame():
                return []
        wrong = Invalid("the first message must be session_init")
        return self.manners.bad(wrong.refusal, self._trace_id)

    def _begin(self, init: SessionInit) -> Begin | Resume | list[Effect]:
        if init.resume_token:
            return self._resume(init, init.resume_token)
        try:
            code = _code_of(init)
            check_direction(init)
        except Invalid as invalid:
            return self.manners.bad(invalid.refusal, init.trace_id or self._trace_id)
        return Begin(init, negotiate(init), code)

    def _resume(self, init: SessionInit, token: str) -> Resume | list[Effect]:
        try:
            return Resume(init, check_id("resume_token", session_of(token)), token)
        except Invalid:
            return unknown_session()

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed."""
        return [Close(CloseCode.TIMEOUT, "no session_init came")] if now_ms >= self.due_ms else []


def unknown_session() -> list[Effect]:
    """There is no session that this token belongs to, or not for whoever shows it."""
    return [Close(CloseCode.UNKNOWN_SESSION)]


def check_direction(init: SessionInit) -> None:
    """`Invalid` if a session says in which direction it goes, but not one that means something."""
    if any(getattr(init, name) is not None for name in _DIRECTION):
        direction_of(init)


def _code_of(init: SessionInit) -> str:
    """The pairing code, "" if there is none; `Invalid` if it cannot be one."""
    if not init.pairing_code:
        return ""
    try:
        return check_code(init.pairing_code)
    except Invalid as invalid:
        raise Invalid(invalid.refusal.detail, "INVALID_PAIRING_CODE") from None
