"""save_session: what a session needs to go on elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_bool, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.sessions import (
    MAX_HEARD_BYTES,
    Saved,
    check_saving,
    check_session,
    check_state,
    not_saved,
)
from lingua_scheduler.store.face import Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


_SAVE_SESSION: Final = Face(
    "flows/save_session", Saved, refuses=("FORBIDDEN", "SESSION_TAKEN", "INVALID_SESSION", "UNKNOWN_AUDIO")
)


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
    is_silent: bool = False,
    front: int = 0,
    size: int = 0,
) -> Saved | Refusal:
    """Save the state of a session that the connection `owner` holds; it can be taken over for `ttl_ms` from now on.

    `token` is what whoever takes it over must show (better its digest than itself). `next_index` is the least index
    that the next utterance may have. Its client's last connection was opened at `opened_ms`, by the engine's clock:
    by an older one it cannot be taken over. SESSION_TAKEN: another connection has the session, this one is over.
    INVALID_SESSION: there is none, and `create` was not given. `is_silent`: what `keep_heard` kept is erased. `size`:
    so much of what was heard since `front` is kept, else UNKNOWN_AUDIO, and nothing was saved.
    """
    try:
        tag = check_session(session_id)
        about = check_saving(principal, owner, token, next_index, create, ttl_ms, opened_ms)
        since, size = check_int("front", front, 0, 2**53), check_int("size", size, 0, MAX_HEARD_BYTES)
        item = pack((*about, check_bool("is_silent", is_silent), since, size))
        state = check_state(state)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _SAVE_SESSION(engine, tag, item, state)
    return not_saved(session_id, answer) if isinstance(answer, No) else answer
