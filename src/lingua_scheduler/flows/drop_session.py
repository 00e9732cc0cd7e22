"""drop_session: a session is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_id
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.flows.sessions import check_session
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Dropped(Answer, frozen=True, tag="DROPPED"):
    """Nobody can take the session over any more; `existed`: until now somebody could."""

    existed: bool


_DROP_SESSION: Final = Face("flows/drop_session", Dropped, refuses=("SESSION_TAKEN",))


async def drop_session(engine: Engine, session_id: str, owner: str) -> Dropped | Refusal:
    """Forget a session that the connection `owner` holds."""
    try:
        tag = check_session(session_id)
        item = pack((check_id("owner", owner),))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _DROP_SESSION(engine, tag, item)
    return refuse(answer.code) if isinstance(answer, No) else answer
