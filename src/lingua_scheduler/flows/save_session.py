"""save_session: what a session needs to go on elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_bool, check_id, check_int, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.core.ticket import LAST_INDEX
from lingua_scheduler.flows.sessions import (
    MAX_SESSION_MS,
    MAX_TOKEN_CHARS,
    check_principal,
    check_session,
    check_state,
    others_session,
)
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Saved(Answer, frozen=True, tag="SAVED"):
    """Whoever takes the session over goes on from here."""


_SAVE_SESSION: Final = Face("flows/save_session", Saved, refuses=("FORBIDDEN", "SESSION_TAKEN", "INVALID_SESSION"))


async def save_session(
    engine: Engine,
    session_id: str,
    owner: str,
    state: bytes,
    ttl_ms: int,
    *,
    principal: str = "",
    token: str = "",
    next_index: int = 0,
    create: bool = False,
    opened_ms: int = 0,
) -> Saved | Refusal:
    """Save the state of a session that the connection `owner` holds; it can be taken over for `ttl_ms` from now on.

    `token` is what whoever takes it over must show (better its digest than itself). `next_index` is the least index
    that the next utterance may have. Its client's last connection was opened at `opened_ms`, by the engine's clock:
    by an older one it cannot be taken over. SESSION_TAKEN: another connection has the session, this one is over.
    INVALID_SESSION: there is none, and `create` was not given.
    """
    try:
        tag = check_session(session_id)
        item = pack(
            (
                check_principal(principal),
                check_id("owner", owner),
                check_text("token", token, MAX_TOKEN_CHARS),
                check_int("next_index", next_index, 0, LAST_INDEX),
                check_bool("create", create),
                check_int("ttl_ms", ttl_ms, 1, MAX_SESSION_MS),
                check_int("opened_ms", opened_ms, 0, 2**53),
            )
        )
        state = check_state(state)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _SAVE_SESSION(engine, tag, item, state)
    if not isinstance(answer, No):
        return answer
    return others_session(session_id) if answer.code == "FORBIDDEN" else refuse(answer.code)
