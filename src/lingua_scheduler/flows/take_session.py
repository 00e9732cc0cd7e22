"""take_session: another connection goes on with a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_id, check_int, check_text
from lingua_scheduler.core.records import Given
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.flows.sessions import MAX_SESSION_MS, MAX_TOKEN_CHARS, check_principal, check_session
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Taken(Answer, frozen=True, tag="TAKEN"):
    """The session is this connection's now; `last_owner` had it, and this is how far that had come."""

    last_owner: str
    state: bytes
    #: The audio that it has heard and that may have no job yet.
    heard: bytes = b""
    #: The last numbers that others were given for it. Most of them are known to the state.
    given: tuple[Given, ...] = ()


_TAKE_SESSION: Final = Face("flows/take_session", Taken, refuses=("INVALID_SESSION", "SESSION_TAKEN"))


async def take_session(
    engine: Engine,
    session_id: str,
    owner: str,
    *,
    ttl_ms: int,
    principal: str = "",
    token: str = "",
    opened_ms: int = 0,
) -> Taken | Refusal:
    """Go on with a session on the connection `owner`; it stays for `ttl_ms`, or longer if it was saved for longer.

    INVALID_SESSION: there is none, its time is over, it is another principal's, or the token is not the one.
    SESSION_TAKEN: its client has come by a connection that was opened later than this one, at `opened_ms`.
    """
    try:
        tag = check_session(session_id)
        item = pack(
            (
                check_principal(principal),
                check_id("owner", owner),
                check_text("token", token, MAX_TOKEN_CHARS),
                check_int("ttl_ms", ttl_ms, 1, MAX_SESSION_MS),
                check_int("opened_ms", opened_ms, 0, 2**53),
            )
        )
    except Invalid as invalid:
        return invalid.refusal
    answer = await _TAKE_SESSION(engine, tag, item)
    return refuse(answer.code) if isinstance(answer, No) else answer
