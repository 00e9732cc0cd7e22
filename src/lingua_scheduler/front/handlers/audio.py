"""Audio that comes before its job, and goes to the node that has it.

It is for whoever uploaded it, and for a node while it holds an attempt of a job that names it. To anybody else it is
not there. Where no tokens are configured nobody has to say who he is.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.flows.store_audio import store_audio
from lingua_scheduler.front.assignment import read_assignment
from lingua_scheduler.front.audio import AUDIO_TTL_MS, new_audio_ref
from lingua_scheduler.front.web import Query, Reply, Route
from lingua_scheduler.protocol.http import AudioAnswer
from lingua_scheduler.views.audio import read_audio
from lingua_scheduler.views.job import read_job
from lingua_scheduler.views.node import read_node

if TYPE_CHECKING:
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request, Said

#: What an utterance may weigh.
MAX_AUDIO_BYTES: Final = 2 * 1024 * 1024

#: What is audio to everybody. Anything else goes out as mere bytes: no page is ever served that somebody uploaded.
_is_audio: Final = re.compile(
    r"audio/(aac|basic|flac|l16|mp4|mpeg|ogg|opus|pcm|vnd\.wave|wav|wave|webm|x-flac|x-wav)"
    r"( ?; ?[a-z0-9-]+=\"?[a-z0-9.,_-]+\"?)*",
    re.IGNORECASE,
).fullmatch


async def upload(desk: Desk, request: Request) -> Said:
    """Keep audio for a job that will name it."""
    admitted = await desk.buckets.admit_upload(request.principal.name)
    if isinstance(admitted, Refusal):
        return admitted
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
    """The audio of a job, for the node that has it; and for whoever uploaded it."""
    ref = request.named["ref"]
    audio = await read_audio(desk.engine, ref)
    if isinstance(audio, Refusal):
        return audio
    if not request.principal.name or audio.owner != request.principal.name:
        refusal = await _refuse_node(desk, request, ref)
        if refusal is not None:
            return refusal
    media = audio.media if _is_audio(audio.media) else "application/octet-stream"
    return Reply(audio.audio, content_type=media, headers=(_NO_GUESSING, _NO_KEEPING))


async def _refuse_node(desk: Desk, request: Request, ref: str) -> Refusal | None:
    """Why a node may not have the audio; None: it may, for one of its attempts names it.

    A node on a socket has no secret: it is known by the credential with which it registered.
    """
    if "node" not in request.principal.scopes:
        return refuse("UNKNOWN_AUDIO", audio_ref=ref)
    node_id = request.headers.get("x-node-id")
    if node_id is None:
        missing = Refusal("UNAUTHENTICATED", "x-node-id: missing; audio is for the node that holds the attempt.")
        return missing if desk.auth.has_tokens else None
    node = await desk.directory.at_home(node_id, lambda cell: read_node(desk.engine, cell, node_id))
    if isinstance(node, Refusal):
        return node if node.code == "INVALID_MESSAGE" else refuse("UNKNOWN_AUDIO", audio_ref=ref)
    if node.profile.credential != request.principal.name:
        return Refusal("FORBIDDEN", "x-node-id: this node was not registered with this token.")
    if not node.profile.connection:
        epoch = desk.auth.check_node(request.principal, node_id, request.headers.get("x-node-secret"))
        if isinstance(epoch, Refusal):
            return epoch
    held = [lease.split(":")[1] for lease, fenced_at_ms in node.leases if not fenced_at_ms]
    named = await asyncio.gather(*(_ref_of(desk, job_id) for job_id in held))
    return None if ref in named else refuse("UNKNOWN_AUDIO", audio_ref=ref)


async def _ref_of(desk: Desk, job_id: str) -> str | None:
    """The audio that a job names."""
    job = await read_job(desk.engine, job_id)
    assignment = None if isinstance(job, Refusal) else read_assignment(job.payload)
    return None if assignment is None else assignment.audio_ref


_NO_GUESSING: Final = ("x-content-type-options", "nosniff")
_NO_KEEPING: Final = ("cache-control", "no-store")


ROUTES: Final = (
    Route(
        "POST",
        "/v1/audio",
        "session",
        upload,
        "Keep audio for a job that will name it.",
        answers=AudioAnswer,
        reads_raw=True,
        begins=True,
        most_bytes=MAX_AUDIO_BYTES,
        refuses=("PAYLOAD_TOO_LARGE", "RATE_LIMITED"),
        tag="audio",
    ),
    Route(
        "GET",
        "/v1/audio/{ref}",
        "node",
        download,
        "The audio of a job, for the node that has it; and for whoever uploaded it.",
        also="session",
        refuses=("UNKNOWN_AUDIO",),
        headers=(
            Query("x-node-id", "The node that asks. Needed where tokens are configured, but not by who uploaded it."),
            Query("x-node-secret", "Its `node_secret`, if it registered over HTTP and tokens are configured."),
        ),
        tag="audio",
    ),
)
