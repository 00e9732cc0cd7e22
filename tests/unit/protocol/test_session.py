from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from lingua_scheduler.protocol.codec import Undecodable, encode
from lingua_scheduler.protocol.errors import ErrorMessage
from lingua_scheduler.protocol.session import (
    AudioChunk,
    EventAck,
    FromClient,
    SessionClose,
    SessionInit,
    SessionInitAck,
    ToClient,
    TranslationResult,
    Utterance,
    read_from_client,
    read_to_client,
)

#: As the web client opens a session in its usual mode.
INIT: dict[str, Any] = {
    "type": "session_init",
    "client_version": "web-client-v1.0",
    "platform": "web",
    "src_lang": "auto",
    "tgt_lang": "en",
    "dialect": None,
    "features": {},
    "pairing_code": None,
    "mode": "two_way_auto",
    "lang_a": "zh",
    "lang_b": "en",
    "auto_langs": ["zh", "en"],
    "trace_id": "5f0c6a34-0000-4000-8000-000000000000",
    "tenant_id": None,
}


def wire(message: Any) -> Any:
    return json.loads(encode(message))


def detail(said: dict[str, Any]) -> str:
    with pytest.raises(Undecodable) as refused:
        read_from_client(json.dumps(said))
    return refused.value.refusal.detail


def test_the_web_client_opens_a_session() -> None:
    message = read_from_client(json.dumps(INIT))
    assert isinstance(message, SessionInit)
    assert wire(message) == {name: value for name, value in INIT.items() if value is not None}


def test_a_client_comes_back() -> None:
    ours = {
        "resume_token": "r",
        "last_event_id": 7,
        "supports_binary_frame": True,
        "preferred_codec": "pcm16",
        "pipeline": {"use_tts": True},
        "options": {"policy": "spread", "wait_ms": 100},
    }
    message = read_from_client(json.dumps(INIT | ours))
    assert {name: value for name, value in wire(message).items() if name in ours} == ours


def test_an_utterance_comes_as_a_whole() -> None:
    said = {
        "type": "utterance",
        "session_id": "s1",
        "utterance_index": 0,
        "manual_cut": True,
        "src_lang": "en",
        "tgt_lang": "zh",
        "audio": "UENN",
        "audio_format": "pcm16",
        "sample_rate": 16_000,
        "trace_id": "t",
    }
    message = read_from_client(json.dumps(said | {"dialect": None, "features": None}))
    assert isinstance(message, Utterance)
    assert wire(message) == said


def test_a_stream_comes_in_chunks() -> None:
    said = {"type": "audio_chunk", "session_id": "s1", "seq": 0, "is_final": False, "payload": "UENN"}
    assert wire(read_from_client(json.dumps(said | {"client_timestamp_ms": None}))) == said
    cut = read_from_client('{"type": "audio_chunk", "session_id": "s1", "seq": 1, "is_final": true}')
    assert cut == AudioChunk(session_id="s1", seq=1, is_final=True)


@pytest.mark.parametrize(
    "said",
    [
        {"type": "client_heartbeat", "session_id": "s1", "timestamp": 1_700_000_000_000},
        {"type": "client_heartbeat", "session_id": "s1", "timestamp": 1.5, "last_event_id": 3},
        {"type": "event_ack", "last_event_id": 3},
        {"type": "session_close", "session_id": "s1", "reason": "user"},
        {"type": "tts_started", "session_id": "s1", "trace_id": "t", "group_id": "g", "ts_start_ms": 5},
        {"type": "tts_play_ended", "trace_id": "t", "group_id": "g", "ts_end_ms": 5},
        {"type": "tts_play_ended", "trace_id": "t", "group_id": "g", "ts": 5},
    ],
)
def test_the_rest_of_what_a_client_says(said: dict[str, Any]) -> None:
    assert wire(read_from_client(json.dumps(said))) == said


def test_a_client_confirms_and_leaves() -> None:
    assert read_from_client('{"type": "event_ack", "last_event_id": 0}') == EventAck(last_event_id=0)
    assert read_from_client('{"type": "session_close"}') == SessionClose()


@pytest.mark.parametrize(
    ("said", "where"),
    [
        (INIT | {"mode": "three_way"}, "mode: 'three_way' is none of the values"),
        (INIT | {"tenant_id": "a b"}, "tenant_id: expected 1 to 128 of"),
        (INIT | {"last_event_id": "7"}, "last_event_id: expected an integer, got a string"),
        (INIT | {"trace_id": "t" * 129}, "trace_id: expected a string of length <= 128"),
        (INIT | {"auto_langs": "zh"}, "auto_langs: expected a list, got a string"),
        (INIT | {"options": {"wait_ms": "x"}}, "options.wait_ms: expected an integer, got a string"),
        (INIT | {"src_lang": ""}, "src_lang: expected a string of length >= 1"),
        ({"type": "utterance", "audio": ""}, "utterance_index: missing"),
        ({"type": "utterance", "utterance_index": 0}, "audio: missing"),
        (
            {"type": "utterance", "utterance_index": 0, "audio": "", "audio_format": "mp3"},
            "audio_format: 'mp3' is none",
        ),
        ({"type": "utterance", "utterance_index": -1, "audio": ""}, "utterance_index: expected an integer >= 0"),
        ({"type": "audio_chunk", "session_id": "{s}"}, "session_id: expected 1 to 128 of"),
        ({"type": "event_ack"}, "last_event_id: missing"),
    ],
)
def test_a_message_that_does_not_fit_is_told_where(said: dict[str, Any], where: str) -> None:
    assert detail(said).startswith(where)


def test_a_session_is_open() -> None:
    said = {
        "type": "session_init_ack",
        "session_id": "s1",
        "assigned_node_id": None,
        "message": "session created",
        "trace_id": "t",
        "protocol_version": "1.0",
        "use_binary_frame": False,
        "negotiated_codec": "opus",
        "negotiated_audio_format": "opus",
        "negotiated_sample_rate": 16_000,
        "negotiated_channel_count": 1,
        "resume_token": "r",
        "limits": {"max_message_bytes": 1, "max_utterance_bytes": 2, "pause_ms": 3000, "max_duration_ms": 10_000},
    }
    message = read_to_client(json.dumps(said))
    assert isinstance(message, SessionInitAck)
    assert wire(message) == said


RESULT: dict[str, Any] = {
    "type": "translation_result",
    "session_id": "s1",
    "utterance_index": 0,
    "job_id": "c0.1",
    "text_asr": "",
    "text_translated": "",
    "tts_audio": "",
    "tts_format": "pcm16",
    "trace_id": "t",
    "scheduler_sent_at_ms": 5,
    "event_id": 1,
}
MORE: dict[str, Any] = {
    "extra": {"emotion": None},
    "group_id": "g",
    "part_index": 0,
    "service_timings": {"asr_ms": 1, "nmt_ms": 2.5, "tts_ms": 3, "total_ms": 7},
    "network_timings": {
        "web_to_scheduler_ms": 1,
        "scheduler_to_node_ms": 2,
        "node_to_scheduler_ms": 3,
        "scheduler_to_web_ms": 4,
    },
    "asr_quality_level": "good",
    "reason_codes": [],
    "quality_score": 0.5,
    "rerun_count": 0,
    "segments_meta": {"count": 1},
}


def test_a_result_always_has_its_texts_and_leaves_out_what_is_optional() -> None:
    assert wire(read_to_client(json.dumps(RESULT))) == RESULT
    assert wire(read_to_client(json.dumps(RESULT | MORE))) == RESULT | MORE
    assert {"type", *TranslationResult.__struct_fields__} == set(RESULT | MORE)


@pytest.mark.parametrize(
    "said",
    [
        {
            "type": "missing_result",
            "session_id": "s1",
            "utterance_index": 1,
            "reason": "gap_timeout",
            "created_at_ms": 5,
            "trace_id": "t",
            "event_id": 2,
        },
        {
            "type": "ui_event",
            "trace_id": "t",
            "session_id": "s1",
            "job_id": "c0.1",
            "utterance_index": 0,
            "event": "DISPATCHED",
            "status": "ok",
        },
        {
            "type": "ui_event",
            "trace_id": "t",
            "session_id": "s1",
            "job_id": "c0.1",
            "utterance_index": 0,
            "event": "ERROR",
            "status": "error",
            "elapsed_ms": 9,
            "error_code": "JOB_TIMEOUT",
            "hint": "h",
        },
        {
            "type": "asr_partial",
            "session_id": "s1",
            "utterance_index": 0,
            "job_id": "c0.1",
            "text": "x",
            "is_final": False,
            "trace_id": "t",
        },
        {"type": "backpressure", "action": "BUSY"},
        {"type": "backpressure", "action": "PAUSE", "resume_after_ms": 500, "message": "m"},
        {"type": "server_heartbeat", "session_id": "s1", "timestamp": 5},
        {"type": "session_close_ack", "session_id": "s1"},
    ],
)
def test_the_rest_of_what_a_client_is_told(said: dict[str, Any]) -> None:
    assert wire(read_to_client(json.dumps(said))) == said


def test_both_directions_are_complete() -> None:
    heard = {kind.__struct_config__.tag for kind in get_args(FromClient)}
    told = {kind.__struct_config__.tag for kind in get_args(ToClient)}
    assert heard == {
        *("session_init", "utterance", "audio_chunk", "client_heartbeat", "event_ack", "session_close"),
        *("tts_started", "tts_play_ended"),
    }
    assert told == {
        *("session_init_ack", "asr_partial", "translation_result", "missing_result", "ui_event", "backpressure"),
        *("server_heartbeat", "session_close_ack", "error"),
    }
    assert ErrorMessage in get_args(ToClient)
