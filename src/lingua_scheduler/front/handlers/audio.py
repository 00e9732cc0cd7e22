"""Audio that comes before its job, and goes to the node that has it.

A ref cannot be guessed and is told only to whoever uploaded the audio and to nodes that got a job with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.store_audio import store_audio
from lingua_scheduler.front.audio import AUDIO_TTL_MS, new_audio_ref
from lingua_scheduler.front.web import Reply, Route
from lingua_scheduler.protocol.http import AudioAnswer
from lingua_scheduler.views.audio import read_audio

if TYPE_CHECKING:
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request, Said

#: What an utterance may weigh.
MAX_AUDIO_BYTES: Final = 2 * 1024 * 1024


async def upload(desk: Desk, request: Request) -> Said:
    """Keep audio for a job that will name it."""
    ref = new_audio_ref()
    stored = await store_audio(
        desk.engine,
        ref,
        request.raw,
        owner=request.principal.name,
        media=request.headers.get("content-type", "application/octet-stream"),
        ttl_ms=AUDIO_TTL_MS,
        max_bytes=MAX_AUDIO_BYTES,
    )
    return stored if isinstance(stored, Refusal) else AudioAnswer(audio_ref=ref)


async def download(desk: Desk, request: Request) -> Said:
    """The audio of a job, for the node that has it."""
    audio = await read_audio(desk.engine, request.named["ref"])
    if isinstance(audio, Refusal):
        return audio
    return Reply(audio.audio, content_type=audio.media)


ROUTES: Final = (
    Route(
        "POST",
        "/v1/audio",
        "session",
        upload,
        "Keep audio for a job that will name it.",
        answers=AudioAnswer,
        reads_raw=True,
        most_bytes=MAX_AUDIO_BYTES,
        refuses=("PAYLOAD_TOO_LARGE", "RATE_LIMITED"),
        tag="audio",
    ),
    Route(
        "GET",
        "/v1/audio/{ref}",
        "node",
        download,
        "The audio of a job, for the node that has it.",
        refuses=("UNKNOWN_AUDIO",),
        tag="audio",
    ),
)
