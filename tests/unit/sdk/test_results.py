"""From what a handler returned or raised to the message that ends its attempt."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from lingua_scheduler.protocol.node import JobNack, JobResult
from lingua_scheduler.sdk import Job, JobError
from lingua_scheduler.sdk.nodes.results import MAX_RESULT_BYTES, Rubbish, failure_of, result_of
from tests.unit.sdk.test_attempts import assign


def made(returned: object) -> JobResult:
    return result_of(assign(group_id="g", part_index=2), "n1", returned, 12)


def test_a_result_names_its_attempt_and_carries_everything_that_it_may() -> None:
    said: dict[str, Any] = {
        "text_asr": "good morning",
        "text_translated": "早上好",
        "extra": {"mine": [1]},
        "asr_quality_level": "good",
        "reason_codes": ["a"],
        "quality_score": 0.9,
        "rerun_count": 1,
        "segments_meta": {"n": 1},
    }
    result = made(said)
    assert {name: getattr(result, name) for name in said} == said
    assert (result.job_id, result.attempt_id, result.node_id, result.session_id) == ("c0.1", 1, "n1", "room")
    assert (result.utterance_index, result.trace_id, result.group_id, result.part_index) == (7, "t", "g", 2)
    assert (result.success, result.processing_time_ms, result.tts_audio, result.tts_format) == (True, 12, None, None)


@pytest.mark.parametrize(
    ("speech", "said", "form"),
    [
        (b"\x01\x02", {}, "pcm16"),
        (bytearray(b"\x01\x02"), {}, "pcm16"),
        (memoryview(b"\x01\x02"), {}, "pcm16"),
        (b"RIFF....", {}, "wav"),
        (b"OggS", {"tts_format": "opus"}, "opus"),
    ],
)
def test_speech_is_bytes_and_says_what_it_is(speech: bytes, said: dict[str, str], form: str) -> None:
    result = made({"tts_audio": speech} | said)
    assert result.tts_audio == base64.b64encode(speech).decode()
    assert result.tts_format == form


def test_none_is_the_same_as_left_out() -> None:
    result = made({"text_asr": "", "text_translated": None, "tts_audio": None})
    assert (result.text_asr, result.text_translated, result.tts_audio) == ("", None, None)
    with pytest.raises(Rubbish, match="returned none of"):
        made({"text_asr": None})


def test_what_would_close_the_socket_is_not_sent() -> None:
    most = (MAX_RESULT_BYTES - 1_000) // 4 * 3
    assert len(base64.b64decode(made({"tts_audio": bytes(most)}).tts_audio or "")) == most
    with pytest.raises(Rubbish, match="fit into a message"):
        made({"tts_audio": bytes(most + 1_000)})


@pytest.mark.parametrize("returned", [{1: "x"}, {"text_asr": b"bytes"}, {"text_asr": "\ud800"}, ["text_asr"], 7, True])
def test_whatever_it_is_it_is_a_result_or_rubbish(returned: object) -> None:
    with pytest.raises(Rubbish, match=r"^INVALID_RESULT: the handler returned .*; return \{"):
        made(returned)


def failed(error: BaseException) -> JobResult:
    answer = failure_of(assign(), "n1", error, 5)
    assert isinstance(answer, JobResult)
    return answer


def test_what_was_raised_is_told_with_its_kind() -> None:
    answer = failed(ValueError("x" * 1_000))
    assert answer.success is False
    assert answer.error is not None
    assert answer.error.code == "HANDLER_FAILED"
    assert answer.error.message is not None
    assert answer.error.message.startswith("ValueError: xxx")
    assert len(answer.error.message) == 300
    assert (answer.error.details, answer.processing_time_ms) == (None, 5)


def test_a_handler_may_say_that_nobody_else_will_succeed() -> None:
    answer = failed(JobError("BAD_AUDIO", "empty", retryable=False, details={"bytes": 0}))
    assert answer.error is not None
    assert (answer.error.code, answer.error.message) == ("BAD_AUDIO", "empty")
    assert answer.error.details == {"bytes": 0, "retryable": False}


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels else []


@pytest.mark.parametrize(
    "extra", [{"deep": deep(70)}, {"many": [[]] * 20_001}, {"huge": "x" * 5_000_000}], ids=["deep", "many", "huge"]
)
def test_what_the_scheduler_could_not_read_is_not_sent_and_as_a_detail_left_out(extra: dict[str, Any]) -> None:
    with pytest.raises(Rubbish):
        made({"text_asr": "x", "extra": extra})
    answer = failed(JobError("X", details=extra, retryable=False))
    assert answer.error is not None
    assert answer.error.details == {"retryable": False}


def test_whatever_is_said_of_an_error_can_be_written() -> None:
    answer = failed(JobError("X\ud800", "\ud800" * 1_000))
    assert answer.error is not None
    assert (answer.error.code, answer.error.message) == ("X?", "?" * 299 + "…")


def test_a_partial_is_cut_and_can_be_written() -> None:
    said: list[str] = []
    job = Job(assign(), b"", lambda text, _is_final: said.append(text))
    job.partial("\ud800" * 20_000)
    assert said == ["?" * 9_999 + "…"]


def test_details_that_cannot_be_written_are_left_out() -> None:
    answer = failed(JobError("X", details={"a": object()}))
    assert answer.error is not None
    assert answer.error.details is None


def test_with_a_time_to_wait_it_is_a_refusal() -> None:
    answer = failure_of(assign(), "n1", JobError("NODE_OVERLOADED", "full", retry_after_ms=500))
    assert isinstance(answer, JobNack)
    assert (answer.reason, answer.retry_after_ms, answer.job_id) == ("NODE_OVERLOADED: full", 500, "c0.1")


def test_a_job_is_shown_without_what_was_said() -> None:
    job = Job(assign(payload={"secret": 1}, context_text="secret"), b"secret")
    assert repr(job) == "<Job c0.1 attempt 1 en:zh>"
    with pytest.raises(TypeError, match="a partial is text, not bytes"):
        job.partial(b"so far")  # type: ignore[arg-type] # that is the mistake
