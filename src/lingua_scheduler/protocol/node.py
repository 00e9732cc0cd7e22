"""Messages of `/ws/node`. Who has no word on something leaves it out; the legacy names are those of the field nodes."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args

from msgspec import Meta

from lingua_scheduler.protocol.codec import Reader
from lingua_scheduler.protocol.errors import ErrorMessage
from lingua_scheduler.protocol.fields import (
    Anything,
    AttemptId,
    Count,
    Id,
    Language,
    Message,
    Mode,
    Number,
    Prose,
    Ref,
    SampleRate,
    Text,
)
from lingua_scheduler.protocol.options import Pipeline
from lingua_scheduler.protocol.registration import Declaration


class Gpu(Message, frozen=True, kw_only=True):
    """One of a node's GPUs."""

    name: str | None = None
    memory_gb: Number | None = None


class Hardware(Message, frozen=True, kw_only=True):
    """What a node runs on."""

    cpu_cores: Number | None = None
    memory_gb: Number | None = None
    gpus: list[Gpu] | None = None


class InstalledService(Message, frozen=True, kw_only=True):
    """An implementation of a service. Jobs go by `capability_by_type`; this is shown."""

    service_id: str | None = None
    type: str | None = None
    device: str | None = None
    status: str | None = None
    version: str | None = None
    model_id: str | None = None
    engine: str | None = None
    mem_mb: Number | None = None


class CapabilityByType(Message, frozen=True, kw_only=True):
    """Whether a service is ready, whoever implements it."""

    type: str
    ready: bool | None = None
    reason: str | None = None
    ready_impl_ids: list[str] | None = None


class LanguageCapabilities(Message, frozen=True, kw_only=True):
    """The languages of a field node."""

    asr_languages: list[str] | None = None
    semantic_languages: list[str] | None = None
    tts_languages: list[str] | None = None
    semantic_core_ready: bool | None = None


class ResourceUsage(Message, frozen=True, kw_only=True):
    """How busy a field node is, in percent; `running_jobs` is a number."""

    cpu_percent: Number | None = None
    gpu_percent: Number | None = None
    gpu_mem_percent: Number | None = None
    mem_percent: Number | None = None
    running_jobs: Number | None = None
    gpu_queue_length: Number | None = None


class NodeRegister(Declaration, frozen=True, kw_only=True, tag_field="type", tag="node_register"):
    """A node joins, or comes back."""

    node_id: Id | None = None
    version: Text | None = None
    capability_schema_version: Text | None = None
    platform: Text | None = None
    hardware: Hardware | None = None
    installed_models: list[Any] | None = None
    installed_services: list[InstalledService] | None = None
    capability_by_type: list[CapabilityByType] | None = None
    features_supported: Anything | None = None
    advanced_features: list[str] | None = None
    #: Of somebody who could not show it in a header.
    token: Text | None = None
    language_capabilities: LanguageCapabilities | None = None


class NodeHeartbeat(Declaration, frozen=True, kw_only=True, tag_field="type", tag="node_heartbeat"):
    """A sign of life, and whatever has changed."""

    node_id: Id | None = None
    timestamp: Number | None = None
    resource_usage: ResourceUsage | None = None
    installed_models: list[Any] | None = None
    installed_services: list[InstalledService] | None = None
    capability_by_type: list[CapabilityByType] | None = None
    processing_metrics: Anything | None = None
    language_capabilities: LanguageCapabilities | None = None


class _OfAttempt(Message, frozen=True, kw_only=True):
    job_id: Id
    attempt_id: AttemptId
    node_id: Id | None = None
    session_id: Id | None = None
    trace_id: Text | None = None


class JobAck(_OfAttempt, frozen=True, kw_only=True, tag_field="type", tag="job_ack"):
    """The node has the job."""


class JobStarted(_OfAttempt, frozen=True, kw_only=True, tag_field="type", tag="job_started"):
    """It works on it."""


class JobStopped(_OfAttempt, frozen=True, kw_only=True, tag_field="type", tag="job_stopped"):
    """It no longer works on this attempt."""


class JobNack(_OfAttempt, frozen=True, kw_only=True, tag_field="type", tag="job_nack"):
    """It does not take it."""

    reason: Prose | None = None
    retry_after_ms: Count | None = None
    details: Any = None


class NodeAsrPartial(Message, frozen=True, kw_only=True, tag_field="type", tag="asr_partial"):
    """What was understood so far."""

    job_id: Id
    text: Prose
    node_id: Id | None = None
    session_id: Id | None = None
    utterance_index: Count | None = None
    is_final: bool | None = None
    trace_id: Text | None = None


class JobError(Message, frozen=True, kw_only=True):
    """Why a job failed."""

    code: Prose | None = None
    message: Prose | None = None
    details: Any = None


class JobResult(_OfAttempt, frozen=True, kw_only=True, tag_field="type", tag="job_result"):
    """What came of an attempt."""

    success: bool
    utterance_index: Count | None = None
    text_asr: str | None = None
    text_translated: str | None = None
    tts_audio: str | None = None
    tts_format: Text | None = None
    extra: Anything | None = None
    processing_time_ms: Number | None = None
    error: JobError | None = None
    group_id: Text | None = None
    part_index: Count | None = None
    node_completed_at_ms: Number | None = None
    asr_quality_level: Text | None = None
    reason_codes: list[str] | None = None
    quality_score: Number | None = None
    rerun_count: Number | None = None
    segments_meta: Any = None


class NodeError(Message, frozen=True, kw_only=True, tag_field="type", tag="node_error"):
    """Something is wrong with the node itself."""

    code: Prose
    node_id: Id | None = None
    message: Prose | None = None
    details: Any = None


FromNode = (
    NodeRegister | NodeHeartbeat | JobAck | JobStarted | JobStopped | JobNack | NodeAsrPartial | JobResult | NodeError
)


class NodeRegisterAck(Message, frozen=True, kw_only=True, tag_field="type", tag="node_register_ack"):
    """The node is in. `status` is `registering` until its first heartbeat."""

    node_id: str
    message: str
    status: str
    epoch: str
    heartbeat_interval_ms: int
    pools: list[str]
    warnings: list[str]


class Lid(Message, frozen=True, kw_only=True):
    """Among which languages the node decides."""

    candidates: list[str]


class JobAssign(Message, frozen=True, kw_only=True, tag_field="type", tag="job_assign"):
    """A job for the node. With `binary_audio` its audio is "", and follows as one binary frame."""

    job_id: Id
    attempt_id: AttemptId
    session_id: Id
    utterance_index: Count
    src_lang: Language
    tgt_lang: Language
    dialect: str | None
    pipeline: Pipeline
    audio: str
    audio_format: str
    sample_rate: SampleRate
    trace_id: str
    is_manual_cut: bool
    is_timeout_triggered: bool
    is_max_duration_triggered: bool
    deadline_ms: Count
    features: Anything | None = None
    mode: Mode | None = None
    lang_a: Language | None = None
    lang_b: Language | None = None
    auto_langs: list[Language] | None = None
    enable_streaming_asr: bool | None = None
    partial_update_interval_ms: Count | None = None
    group_id: str | None = None
    part_index: Count | None = None
    context_text: str | None = None
    padding_ms: Count | None = None
    turn_id: str | None = None
    lid: Lid | None = None
    room_id: str | None = None
    audio_ref: Ref | None = None
    payload: Anything | None = None
    #: The span of the job, where spans are made: that of the node's work is its child.
    traceparent: str | None = None


class JobCancel(Message, frozen=True, kw_only=True, tag_field="type", tag="job_cancel"):
    """Stop working on this attempt."""

    job_id: Id
    attempt_id: AttemptId
    trace_id: str | None = None
    reason: str | None = None


class NodeControl(Message, frozen=True, kw_only=True, tag_field="type", tag="node_control"):
    """What the operator wants of the node."""

    command: Annotated[Literal["drain", "resume", "shutdown", "reload_config"], Meta(description="what to do")]
    reason: str | None = None


ToNode = NodeRegisterAck | JobAssign | JobCancel | NodeControl | ErrorMessage

#: What a node may say, and what it may be told.
read_from_node: Final[Reader[FromNode]] = Reader(*get_args(FromNode))
read_to_node: Final[Reader[ToNode]] = Reader(*get_args(ToNode))
