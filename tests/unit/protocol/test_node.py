from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from lingua_scheduler.protocol.codec import Undecodable, encode
from lingua_scheduler.protocol.errors import ErrorMessage
from lingua_scheduler.protocol.node import (
    JobAck,
    JobAssign,
    JobCancel,
    JobNack,
    JobResult,
    JobStarted,
    JobStopped,
    Lid,
    NodeAsrPartial,
    NodeControl,
    NodeError,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
    read_from_node,
    read_to_node,
)
from lingua_scheduler.protocol.options import Pipeline

OF_ATTEMPT = {"job_id": "c0.1", "attempt_id": 2, "node_id": "n1", "session_id": "s1", "trace_id": "t1"}
ASSIGN = JobAssign(
    job_id="c0.1",
    attempt_id=1,
    session_id="s1",
    utterance_index=0,
    src_lang="en",
    tgt_lang="zh",
    dialect=None,
    pipeline=Pipeline(use_asr=True, use_nmt=True, use_tts=False),
    audio="UENN",
    audio_format="pcm16",
    sample_rate=16_000,
    trace_id="t1",
    is_manual_cut=True,
    is_timeout_triggered=False,
    is_max_duration_triggered=False,
    deadline_ms=1_700_000_060_000,
)


def wire(message: Any) -> Any:
    return json.loads(encode(message))


@pytest.mark.parametrize(
    ("kind", "message"), [("job_ack", JobAck), ("job_started", JobStarted), ("job_stopped", JobStopped)]
)
def test_a_node_speaks_of_an_attempt(kind: str, message: type[msgspec.Struct]) -> None:
    assert read_from_node(json.dumps({"type": kind} | OF_ATTEMPT)) == message(**OF_ATTEMPT)
    assert read_from_node(json.dumps({"type": kind, "job_id": "c0.1", "attempt_id": 2})) == message(
        job_id="c0.1", attempt_id=2
    )


def test_a_node_refuses_an_attempt() -> None:
    said = {"type": "job_nack", "reason": "NODE_OVERLOADED", "retry_after_ms": 500} | OF_ATTEMPT
    assert read_from_node(json.dumps(said)) == JobNack(reason="NODE_OVERLOADED", retry_after_ms=500, **OF_ATTEMPT)  # type: ignore[arg-type]


def test_a_node_says_what_it_understood_so_far() -> None:
    said = {
        "type": "asr_partial",
        "job_id": "c0.1",
        "node_id": "n1",
        "session_id": "s1",
        "utterance_index": 3,
        "text": "早上",
        "is_final": False,
        "trace_id": "t1",
    }
    message = read_from_node(json.dumps(said))
    assert isinstance(message, NodeAsrPartial)
    assert wire(message) == said


def test_a_result_with_every_legacy_field_is_read() -> None:
    said = {
        "type": "job_result",
        "utterance_index": 3,
        "success": True,
        "text_asr": "早",
        "text_translated": "morning",
        "tts_audio": "UENN",
        "tts_format": "pcm16",
        "extra": {"emotion": None, "service_timings": {"asr_ms": 12}},
        "processing_time_ms": 412.5,
        "error": {"code": "X", "message": "y", "details": {"service_id": "z"}},
        "group_id": "g",
        "part_index": 1,
        "node_completed_at_ms": 1_700_000_000_000.0,
        "asr_quality_level": "good",
        "reason_codes": ["a"],
        "quality_score": 0.9,
        "rerun_count": 1.0,
        "segments_meta": {"count": 2, "max_gap": 0.1},
    } | OF_ATTEMPT
    message = read_from_node(json.dumps(said))
    assert isinstance(message, JobResult)
    assert wire(message) == said


def test_a_number_is_handed_on_as_it_came() -> None:
    said = b'{"type":"job_result","job_id":"c0.1","attempt_id":1,"success":true,"quality_score":1.0,"rerun_count":1}'
    assert encode(read_from_node(said)) == said
    for wrong in ("1" * 400, '"1"', "true", "[]"):
        with pytest.raises(Undecodable, match="rerun_count: expected"):
            read_from_node(said.replace(b'"rerun_count":1', b'"rerun_count":' + wrong.encode()))


def test_a_failed_result_needs_only_to_say_so() -> None:
    message = read_from_node(
        '{"type": "job_result", "job_id": "c0.1", "attempt_id": 1, "success": false, "error": null}'
    )
    assert isinstance(message, JobResult)
    assert (message.success, message.error, message.tts_audio) == (False, None, None)


def test_an_error_of_a_node_may_be_long() -> None:
    text = "Traceback " * 1000
    said = {"type": "job_result", "success": False, "error": {"code": text, "message": text}} | OF_ATTEMPT
    message = read_from_node(json.dumps(said))
    assert isinstance(message, JobResult)
    assert message.error is not None
    assert message.error.message == text


def test_a_node_says_that_something_is_wrong_with_it() -> None:
    said = {"type": "node_error", "node_id": "n1", "code": "MODEL_NOT_AVAILABLE", "message": "m", "details": {"x": 1}}
    message = read_from_node(json.dumps(said))
    assert isinstance(message, NodeError)
    assert wire(message) == said


@pytest.mark.parametrize(
    ("said", "detail"),
    [
        ({"type": "job_result", "job_id": "c0.1", "attempt_id": 1}, "success: missing"),
        ({"type": "job_result", "attempt_id": 1, "success": True}, "job_id: missing"),
        ({"type": "job_ack", "job_id": "c0.1", "attempt_id": 0}, "attempt_id: expected an integer >= 1"),
        ({"type": "job_ack", "job_id": "{x}", "attempt_id": 1}, "job_id: expected 1 to 128 of"),
        (
            {"type": "job_ack", "job_id": "c0.1", "attempt_id": 1, "session_id": "a b"},
            "session_id: expected 1 to 128 of",
        ),
        ({"type": "node_register", "node_id": "a b"}, "node_id: expected 1 to 128 of"),
        ({"type": "node_register", "capability_by_type": [{}]}, "capability_by_type[0].type: missing"),
        (
            {"type": "node_heartbeat", "resource_usage": {"running_jobs": []}},
            "resource_usage.running_jobs: expected an integer or a number",
        ),
        ({"type": "asr_partial", "job_id": "c0.1"}, "text: missing"),
        ({"type": "job_assign"}, "type: unknown message type 'job_assign'"),
    ],
)
def test_a_message_that_does_not_fit_is_told_where(said: dict[str, Any], detail: str) -> None:
    with pytest.raises(Undecodable) as refused:
        read_from_node(json.dumps(said))
    assert refused.value.refusal.detail.startswith(detail)


def test_a_bare_registration_and_a_bare_heartbeat_are_enough() -> None:
    assert read_from_node('{"type": "node_register"}') == NodeRegister()
    assert read_from_node('{"type": "node_heartbeat"}') == NodeHeartbeat()


def test_a_node_is_told_that_it_is_in() -> None:
    said = {
        "type": "node_register_ack",
        "node_id": "n1",
        "message": "registered",
        "status": "registering",
        "epoch": "1-x",
        "heartbeat_interval_ms": 15_000,
        "pools": [],
        "warnings": [],
    }
    message = read_to_node(json.dumps(said))
    assert isinstance(message, NodeRegisterAck)
    assert wire(message) == said


def test_an_assignment_has_every_legacy_field_and_leaves_out_what_is_optional() -> None:
    assert wire(ASSIGN) == {
        "type": "job_assign",
        "job_id": "c0.1",
        "attempt_id": 1,
        "session_id": "s1",
        "utterance_index": 0,
        "src_lang": "en",
        "tgt_lang": "zh",
        "dialect": None,
        "pipeline": {"use_asr": True, "use_nmt": True, "use_tts": False},
        "audio": "UENN",
        "audio_format": "pcm16",
        "sample_rate": 16_000,
        "trace_id": "t1",
        "is_manual_cut": True,
        "is_timeout_triggered": False,
        "is_max_duration_triggered": False,
        "deadline_ms": 1_700_000_060_000,
    }


def test_an_assignment_with_everything_is_read_at_the_other_end() -> None:
    full = msgspec.structs.replace(
        ASSIGN,
        src_lang="auto",
        dialect="cantonese",
        features={"emotion_detection": True},
        mode="two_way_auto",
        lang_a="zh",
        lang_b="en",
        auto_langs=["zh", "en"],
        enable_streaming_asr=True,
        partial_update_interval_ms=500,
        group_id="g",
        part_index=0,
        context_text="before",
        padding_ms=0,
        turn_id="turn",
        lid=Lid(candidates=["zh", "en"]),
        room_id="r",
        audio_ref="blob://1",
        payload={"x": [1]},
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    assert set(wire(full)) == {"type", *JobAssign.__struct_fields__}
    assert wire(full)["lid"] == {"candidates": ["zh", "en"]}
    assert read_to_node(encode(full)) == full


def test_a_node_is_told_to_stop_and_what_the_operator_wants() -> None:
    assert wire(JobCancel(job_id="c0.1", attempt_id=1)) == {"type": "job_cancel", "job_id": "c0.1", "attempt_id": 1}
    for command in ("drain", "resume", "shutdown", "reload_config"):
        message = read_to_node(json.dumps({"type": "node_control", "command": command}))
        assert message == NodeControl(command=command)
    with pytest.raises(Undecodable, match="command: 'explode' is none of the values"):
        read_to_node('{"type": "node_control", "command": "explode"}')


def test_a_node_reads_errors() -> None:
    said = '{"type":"error","error":"X","detail":"y","retryable":false,"code":"X","message":"y"}'
    assert read_to_node(said) == ErrorMessage(error="X", detail="y", retryable=False, code="X", message="y")
