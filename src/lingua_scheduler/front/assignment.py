"""What a node is told of a job: the part that stays the same, however often the job is tried, and the rest."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.fields import Mode
from lingua_scheduler.protocol.frames import job_audio
from lingua_scheduler.protocol.legacy import Abilities
from lingua_scheduler.protocol.node import JobAssign, Lid
from lingua_scheduler.protocol.options import Pipeline

if TYPE_CHECKING:
    from lingua_scheduler.views.job import Job

#: A node without a socket: it says everything, and is told everything in one JSON message.
BY_POLLING: Final = Abilities(acks=True, starts=True, tells=True, audio_ref=False, binary_audio=False)


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of a `job_assign` is the same for every attempt. It is the job's `body` in the engine."""

    src_lang: str
    tgt_lang: str
    pipeline: Pipeline
    audio_format: str = "pcm16"
    sample_rate: int = 16_000
    dialect: str | None = None
    features: dict[str, Any] | None = None
    mode: Mode | None = None
    lang_a: str | None = None
    lang_b: str | None = None
    auto_langs: list[str] | None = None
    #: Among which languages the node decides.
    candidates: list[str] | None = None
    enable_streaming_asr: bool | None = None
    partial_update_interval_ms: int | None = None
    group_id: str | None = None
    part_index: int | None = None
    context_text: str | None = None
    padding_ms: int | None = None
    turn_id: str | None = None
    is_manual_cut: bool = False
    is_timeout_triggered: bool = False
    is_max_duration_triggered: bool = False
    #: Where the audio is, ours or somebody else's: the latter is handed on as it is, and never fetched.
    audio_ref: str | None = None
    #: The audio is in our own store, under `audio_ref`.
    has_own_audio: bool = False
    payload: dict[str, Any] | None = None

    def text(self) -> str:
        """As it is stored: the same assignment is the same text."""
        return _canonical(self).decode()


class Errand(msgspec.Struct, frozen=True):
    """One attempt of a job, on its way to a node or there: what of a `job_assign` is not the same for every attempt."""

    job_id: str
    attempt_id: int
    node_id: str
    session_id: str
    utterance_index: int
    trace_id: str
    #: When the job's time is over, by the engine's clock.
    deadline_ms: int


class Cargo(msgspec.Struct, frozen=True):
    """All that a node must know of a job, whichever node and attempt it is. `audio` None: not read yet."""

    assignment: Assignment
    session_id: str
    utterance_index: int
    trace_id: str
    deadline_ms: int
    audio: bytes | None = None

    def errand(self, job_id: str, attempt_id: int, node_id: str) -> Errand:
        """The attempt that carries it."""
        return Errand(
            job_id, attempt_id, node_id, self.session_id, self.utterance_index, self.trace_id, self.deadline_ms
        )


_canonical: Final = msgspec.json.Encoder(order="deterministic").encode
_read: Final = msgspec.json.Decoder(Assignment).decode


def read_assignment(text: str) -> Assignment | None:
    """An assignment as it was stored; None: this is none, or it has been erased."""
    try:
        return _read(text)
    except msgspec.MsgspecError:
        return None


def cargo_of(job: Job) -> Cargo | None:
    """What is to be carried of a job, as the engine has it."""
    assignment, ticket = read_assignment(job.payload), job.ticket
    if assignment is None:
        return None
    return Cargo(assignment, ticket.session, ticket.utterance, ticket.trace, job.record.deadline_at_ms)


def inlines_audio(assignment: Assignment, abilities: Abilities) -> bool:
    """Whether the audio travels with the assignment: ours does, unless the node fetches it itself."""
    return assignment.has_own_audio and not abilities.audio_ref


def job_assign(
    assignment: Assignment,
    errand: Errand,
    audio: bytes = b"",
    abilities: Abilities = BY_POLLING,
    traceparent: str | None = None,
) -> JobAssign:
    """The message. `audio` is needed only where `inlines_audio`; with `binary_audio` it follows as a frame."""
    inlines = inlines_audio(assignment, abilities)
    return JobAssign(
        job_id=errand.job_id,
        attempt_id=errand.attempt_id,
        session_id=errand.session_id,
        utterance_index=errand.utterance_index,
        src_lang=assignment.src_lang,
        tgt_lang=assignment.tgt_lang,
        dialect=assignment.dialect,
        pipeline=assignment.pipeline,
        audio=base64.b64encode(audio).decode() if inlines and not abilities.binary_audio else "",
        audio_format=assignment.audio_format,
        sample_rate=assignment.sample_rate,
        trace_id=errand.trace_id,
        is_manual_cut=assignment.is_manual_cut,
        is_timeout_triggered=assignment.is_timeout_triggered,
        is_max_duration_triggered=assignment.is_max_duration_triggered,
        deadline_ms=errand.deadline_ms,
        features=assignment.features,
        mode=assignment.mode,
        lang_a=assignment.lang_a,
        lang_b=assignment.lang_b,
        auto_langs=assignment.auto_langs,
        enable_streaming_asr=assignment.enable_streaming_asr,
        partial_update_interval_ms=assignment.partial_update_interval_ms,
        group_id=assignment.group_id,
        part_index=assignment.part_index,
        context_text=assignment.context_text,
        padding_ms=assignment.padding_ms,
        turn_id=assignment.turn_id,
        lid=None if assignment.candidates is None else Lid(candidates=assignment.candidates),
        audio_ref=None if inlines else assignment.audio_ref,
        payload=assignment.payload,
        traceparent=traceparent,
    )


def frames_of(
    assignment: Assignment, errand: Errand, audio: bytes, abilities: Abilities, traceparent: str | None = None
) -> list[str | bytes]:
    """What is written to the node's socket, in this order."""
    written: list[str | bytes] = [encode(job_assign(assignment, errand, audio, abilities, traceparent)).decode()]
    if abilities.binary_audio and inlines_audio(assignment, abilities):
        written.append(job_audio(errand.session_id, errand.utterance_index, audio))
    return written
