"""store_audio: audio is kept under its own name, for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_int, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.flows.audios import (
    MAX_AUDIO_BYTES,
    MAX_KEPT_MS,
    MAX_MEDIA_CHARS,
    MAX_OWNER_CHARS,
    check_audio,
    check_ref,
)
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Stored(Answer, frozen=True, tag="STORED"):
    """It is there, for as long as was said, or longer."""


_STORE_AUDIO: Final = Face("flows/store_audio", Stored, refuses=("FORBIDDEN",))


async def store_audio(
    engine: Engine,
    ref: str,
    audio: bytes,
    *,
    owner: str,
    media: str,
    ttl_ms: int,
    max_bytes: int = MAX_AUDIO_BYTES,
) -> Stored | Refusal:
    """Keep audio under `ref` for `ttl_ms`. `owner` is whose it is, "" nobody's in particular; `media` what it is.

    Under a ref that somebody else stored it is FORBIDDEN; what is larger than `max_bytes` is PAYLOAD_TOO_LARGE.
    """
    try:
        tag = check_ref(ref)
        most = check_int("max_bytes", max_bytes, 1, MAX_AUDIO_BYTES)
        item = pack(
            (
                check_text("owner", owner, MAX_OWNER_CHARS),
                check_text("media", media, MAX_MEDIA_CHARS),
                check_int("ttl_ms", ttl_ms, 1, MAX_KEPT_MS),
            )
        )
        audio = check_audio(audio, most)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _STORE_AUDIO(engine, tag, item, audio)
    return refuse(answer.code) if isinstance(answer, No) else answer
