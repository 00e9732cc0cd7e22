"""keep_heard: a session is saved with the audio that it has heard and that may have no job yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.audios import check_audio
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

_KEEP_HEARD: Final = Face(
    "flows/keep_heard", Saved, refuses=("FORBIDDEN", "SESSION_TAKEN", "INVALID_SESSION", "UNKNOWN_AUDIO")
)


async def keep_heard(
    engine: Engine,
    session_id: str,
    owner: str,
    state: bytes,
    ttl_ms: int,
    *,
    start: int,
    audio: bytes,
    front: int = 0,
    principal: str = "",
    token: str = "",
    next_index: int = 0,
    create: bool = False,
    opened_ms: int = 0,
) -> Saved | Refusal:
    """As `save_session`; and what was heard since `front` is `audio`, from `start` on: both are taken over together.

    UNKNOWN_AUDIO: what is kept is older, or does not end at `start`, and nothing was saved. From 0 on it is all that
    there is.
    """
    try:
        tag = check_session(session_id)
        about = check_saving(principal, owner, token, next_index, create, ttl_ms, opened_ms)
        start = check_int("start", start, 0, MAX_HEARD_BYTES)
        item = pack((*about, check_int("front", front, 0, 2**53), start))
        state, audio = check_state(state), check_audio(audio, MAX_HEARD_BYTES - start)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _KEEP_HEARD(engine, tag, item, state, audio)
    return not_saved(session_id, answer) if isinstance(answer, No) else answer
