"""keep_audio: somebody needs the audio for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_int, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.flows.audios import MAX_KEPT_MS, MAX_OWNER_CHARS, check_ref
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Kept(Answer, frozen=True, tag="KEPT"):
    """It stays at least as long as was asked."""


_KEEP_AUDIO: Final = Face("flows/keep_audio", Kept, refuses=("UNKNOWN_AUDIO",))


async def keep_audio(engine: Engine, ref: str, *, owner: str, for_ms: int) -> Kept | Refusal:
    """Keep audio of this owner for `for_ms` from now on; if it is kept longer already, nothing changes.

    To anybody else it is UNKNOWN_AUDIO, as if it were not there.
    """
    try:
        tag = check_ref(ref)
        item = pack((check_text("owner", owner, MAX_OWNER_CHARS), check_int("for_ms", for_ms, 1, MAX_KEPT_MS)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _KEEP_AUDIO(engine, tag, item)
    return refuse(answer.code, audio_ref=ref) if isinstance(answer, No) else answer
