"""Audio that is ours: how it is named, how long it is kept, and how it leaves a result and comes back to it.

Audio is stored once, under a name of its own that cannot be guessed, and never in a job: the assignment and the result
name it, and whoever needs it reads it.
"""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.audio_ref import is_own_ref
from lingua_scheduler.core.job_state import LIVE_STATES
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.keep_audio import keep_audio
from lingua_scheduler.flows.store_audio import store_audio
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.speech import audio_of
from lingua_scheduler.views.audio import read_audio
from lingua_scheduler.views.whereabouts import At, read_whereabouts

if TYPE_CHECKING:
    from lingua_scheduler.core.limits import Limits
    from lingua_scheduler.flows.keep_audio import Kept
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.store.engine import Engine

#: How long audio is kept that nobody needs yet, and after the time of the job that needed it.
AUDIO_TTL_MS: Final = 120_000

_read: Final = msgspec.json.Decoder(dict[str, Any]).decode


def new_audio_ref() -> str:
    """A name for audio of ours."""
    return f"audio-{secrets.token_hex(16)}"


async def keep_for_job(desk: Desk, ref: str | None, owner: str, limits: Limits) -> Kept | Refusal | None:
    """Keep the audio that a job names as long as that may take. To whoever did not upload it, it is unknown."""
    if ref is None or not is_own_ref(ref):
        return None
    return await keep_audio(desk.engine, ref, owner=owner, for_ms=limits.timeout_ms + AUDIO_TTL_MS)


def speech_ref(job_id: str, attempt_id: int) -> str:
    """Where the speech of a result is kept: under the attempt's name, so that no late result takes its place."""
    return f"{job_id}.{attempt_id}.tts"


async def keep_speech(
    engine: Engine, job_id: str, attempt_id: int, spoken: str, *, field: str, media: str, ttl_ms: int
) -> str | Refusal:
    """Keep the speech of a result, which came as base64 in `field`; where it is then."""
    try:
        audio = audio_of(field, spoken)
    except Invalid as invalid:
        return invalid.refusal
    ref = speech_ref(job_id, attempt_id)
    stored = await store_audio(engine, ref, audio, owner=job_id, media=media, ttl_ms=ttl_ms)
    return stored if isinstance(stored, Refusal) else ref


async def has_attempt(engine: Engine, job_id: str, attempt_id: int, node_id: str, epoch: str = "") -> bool:
    """Whether a node has a job now, in this very attempt: nobody wants the speech of another. `epoch` "": whichever."""
    at = await read_whereabouts(engine, job_id)
    return (
        isinstance(at, At)
        and at.state in LIVE_STATES
        and (at.node_id, at.attempt_id) == (node_id, attempt_id)
        and epoch in {"", at.epoch}
    )


async def whole_result(engine: Engine, job_id: str, attempt_id: int, result: str) -> str:
    """A result as its node gave it: with the audio that was taken out of it, if that still exists.

    What a node itself calls `tts_ref` is data like the rest: only the speech of this very attempt is read.
    """
    ref = speech_ref(job_id, attempt_id)
    if ref not in result:
        return result
    said = _read(result)
    if said.get("tts_ref") != ref:
        return result
    del said["tts_ref"]
    audio = await read_audio(engine, ref)
    said["tts_audio"] = None if isinstance(audio, Refusal) else base64.b64encode(audio.audio).decode()
    return encode(said).decode()
