"""audio: what is kept under a ref."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_id
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No, pack
from lingua_scheduler.store.keys import audio_tag

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Audio(Answer, frozen=True, tag="AUDIO"):
    """Audio, whose it is ("": nobody's in particular) and what it is. Shown or logged, it has no bytes."""

    owner: str
    media: str
    audio: bytes

    def __repr__(self) -> str:
        return f"Audio(owner={self.owner!r}, media={self.media!r}, audio=<{len(self.audio)} bytes>)"


_AUDIO: Final = Face("views/audio", Audio, refuses=("UNKNOWN_AUDIO",))


async def read_audio(engine: Engine, ref: str) -> Audio | Refusal:
    """The audio that is kept under `ref`. Whether the caller may have it is for the door to say."""
    try:
        tag = audio_tag(check_id("audio_ref", ref))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _AUDIO(engine, tag, pack(()))
    return refuse(answer.code, audio_ref=ref) if isinstance(answer, No) else answer
