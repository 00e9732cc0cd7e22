"""Messages of `/ws/session`."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from lingua_scheduler.protocol.codec import Reader
from lingua_scheduler.protocol.errors import ErrorMessage
from lingua_scheduler.protocol.fields import (
    Anything,
    Count,
    Id,
    Index,
    Language,
    Message,
    Mode,
    Number,
    SampleRate,
    Text,
)
from lingua_scheduler.protocol.options import Options, Pipeline

#: Meeting rooms are not part of this version.
ROOMS: Final = frozenset(
    {
        "room_create",
        "room_join",
        "room_leave",
        "room_members",
        "room_raw_voice_preference",
        "room_expired",
        "room_error",
        "webrtc_offer",
        "webrtc_answer",
        "webrtc_ice",
    }
)

AudioFormat = Literal["pcm16", "wav", "opus"]


class Speech(Message, frozen=True, kw_only=True):
    """How somebody wants to be translated: a session, or one utterance, where it differs from its session."""

    src_lang: Language | None = None
    tgt_lang: Language | None = None
    dialect: Text | None = None
    features: Anything | None = None
    mode: Mode | None = None
    lang_a: Language | None = None
    lang_b: Language | None = None
    auto_langs: list[Language] | None = None
    enable_streaming_asr: bool | None = None
    partial_update_interval_ms: Count | None = None
    trace_id: Text | None = None
    #: The span of the client for which this is done, in the form of W3C; its trace is meant if there is no `trace_id`.
    traceparent: Text | None = None
    pipeline: Pipeline | None = None
    options: Options | None = None


class SessionInit(Speech, frozen=True, kw_only=True, tag_field="type", tag="session_init"):
    """A client begins to talk, or comes back with its `resume_token`."""

    client_version: Text | None = None
    platform: Text | None = None
    pairing_code: Text | None = None
    tenant_id: Id | None = None
    resume_token: Text | None = None
    last_event_id: Count | None = None
    supports_binary_frame: bool | None = None
    preferred_codec: Text | None = None
    #: Of somebody who could not show it in a header.
    token: Text | None = None


class Utterance(Speech, frozen=True, kw_only=True, tag_field="type", tag="utterance"):
    """Something said, as a whole."""

    audio: str
    utterance_index: Index
    session_id: Id | None = None
    manual_cut: bool | None = None
    audio_format: AudioFormat | None = None
    sample_rate: SampleRate | None = None
    client_timestamp_ms: Number | None = None


class AudioChunk(Message, frozen=True, kw_only=True, tag_field="type", tag="audio_chunk"):
    """A piece of a stream. The last one without payload only cuts."""

    session_id: Id | None = None
    seq: Count | None = None
    is_final: bool | None = None
    payload: str | None = None
    client_timestamp_ms: Number | None = None


class ClientHeartbeat(Message, frozen=True, kw_only=True, tag_field="type", tag="client_heartbeat"):
    """The client is there, and has seen everything up to `last_event_id`."""

    session_id: Id | None = None
    timestamp: Number | None = None
    last_event_id: Count | None = None


class EventAck(Message, frozen=True, kw_only=True, tag_field="type", tag="event_ack"):
    """The client has seen everything up to here."""

    last_event_id: Count


class SessionClose(Message, frozen=True, kw_only=True, tag_field="type", tag="session_close"):
    """Send what is left, and close."""

    session_id: Id | None = None
    reason: Text | None = None


class TtsStarted(Message, frozen=True, kw_only=True, tag_field="type", tag="tts_started"):
    """The client began to play."""

    session_id: Id | None = None
    trace_id: Text | None = None
    group_id: Text | None = None
    ts: Number | None = None
    ts_start_ms: Number | None = None


class TtsPlayEnded(Message, frozen=True, kw_only=True, tag_field="type", tag="tts_play_ended"):
    """The client has played it."""

    session_id: Id | None = None
    trace_id: Text | None = None
    group_id: Text | None = None
    ts: Number | None = None
    ts_end_ms: Number | None = None


FromClient = (
    SessionInit | Utterance | AudioChunk | ClientHeartbeat | EventAck | SessionClose | TtsStarted | TtsPlayEnded
)


class SessionLimits(Message, frozen=True, kw_only=True):
    """What a session must keep within."""

    max_message_bytes: int
    max_utterance_bytes: int
    pause_ms: int
    max_duration_ms: int


class SessionInitAck(Message, frozen=True, kw_only=True, tag_field="type", tag="session_init_ack"):
    """The session is open, and this is what was agreed."""

    session_id: str
    assigned_node_id: str | None
    message: str
    trace_id: str
    protocol_version: str
    use_binary_frame: bool
    negotiated_codec: str
    negotiated_audio_format: str
    negotiated_sample_rate: int
    negotiated_channel_count: int
    resume_token: str
    limits: SessionLimits
    #: When it goes on: the last `seq` of its stream that was heard, -1 if none was. What is above will not be heard
    #: unless it is said again; None: that is not known.
    heard_seq: int | None = None


class AsrPartial(Message, frozen=True, kw_only=True, tag_field="type", tag="asr_partial"):
    """What was understood so far."""

    session_id: str
    utterance_index: int
    job_id: str
    text: str
    is_final: bool
    trace_id: str


class ServiceTimings(Message, frozen=True, kw_only=True):
    """How long each service took."""

    asr_ms: Number | None = None
    nmt_ms: Number | None = None
    tts_ms: Number | None = None
    total_ms: Number | None = None


class NetworkTimings(Message, frozen=True, kw_only=True):
    """How long each way took."""

    web_to_scheduler_ms: Number | None = None
    scheduler_to_node_ms: Number | None = None
    node_to_scheduler_ms: Number | None = None
    scheduler_to_web_ms: Number | None = None


class TranslationResult(Message, frozen=True, kw_only=True, tag_field="type", tag="translation_result"):
    """What an utterance means."""

    session_id: str
    utterance_index: int
    job_id: str
    text_asr: str
    text_translated: str
    tts_audio: str
    tts_format: str
    trace_id: str
    scheduler_sent_at_ms: int
    event_id: int
    extra: Anything | None = None
    group_id: str | None = None
    part_index: int | None = None
    service_timings: ServiceTimings | None = None
    network_timings: NetworkTimings | None = None
    asr_quality_level: str | None = None
    reason_codes: list[str] | None = None
    quality_score: Number | None = None
    rerun_count: Number | None = None
    segments_meta: Any = None


class MissingResult(Message, frozen=True, kw_only=True, tag_field="type", tag="missing_result"):
    """There will be no result, and why: `errors.missing_reason`, or `gap_timeout`."""

    session_id: str
    utterance_index: int
    reason: str
    created_at_ms: int
    trace_id: str
    event_id: int


class UiEvent(Message, frozen=True, kw_only=True, tag_field="type", tag="ui_event"):
    """Something to show. It may be lost."""

    trace_id: str
    session_id: str
    job_id: str
    utterance_index: int
    event: Literal[
        "INPUT_STARTED",
        "INPUT_ENDED",
        "ASR_PARTIAL",
        "ASR_FINAL",
        "DISPATCHED",
        "NODE_ACCEPTED",
        "NMT_DONE",
        "TTS_PLAY_STARTED",
        "TTS_PLAY_ENDED",
        "ERROR",
    ]
    status: Literal["ok", "error"]
    elapsed_ms: int | None = None
    error_code: str | None = None
    hint: str | None = None


class Backpressure(Message, frozen=True, kw_only=True, tag_field="type", tag="backpressure"):
    """Slow down."""

    action: Literal["BUSY", "PAUSE", "SLOW_DOWN"]
    resume_after_ms: int | None = None
    message: str | None = None


class ServerHeartbeat(Message, frozen=True, kw_only=True, tag_field="type", tag="server_heartbeat"):
    """The answer to a `client_heartbeat`."""

    session_id: str
    timestamp: int


class SessionCloseAck(Message, frozen=True, kw_only=True, tag_field="type", tag="session_close_ack"):
    """Everything was sent."""

    session_id: str


ToClient = (
    SessionInitAck
    | AsrPartial
    | TranslationResult
    | MissingResult
    | UiEvent
    | Backpressure
    | ServerHeartbeat
    | SessionCloseAck
    | ErrorMessage
)

#: What a client may say, and what it may be told.
read_from_client: Final[Reader[FromClient]] = Reader(*get_args(FromClient), unsupported=ROOMS)
read_to_client: Final[Reader[ToClient]] = Reader(*get_args(ToClient))
