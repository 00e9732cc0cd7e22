"""session: whose a session is, and who holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_id
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No, pack
from lingua_scheduler.store.keys import session_tag

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Session(Answer, frozen=True, tag="SESSION"):
    """A session that somebody used lately. `owner` is the connection that holds it, "" if it has no connection."""

    principal: str
    next_index: int
    owner: str


_SESSION: Final = Face("views/session", Session, refuses=("INVALID_SESSION",))


async def read_session(engine: Engine, session_id: str) -> Session | Refusal:
    """Look at a session. Whether the caller may know of it is for the door to say."""
    try:
        tag = session_tag(check_id("session_id", session_id))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _SESSION(engine, tag, pack(()))
    return refuse(answer.code) if isinstance(answer, No) else answer
