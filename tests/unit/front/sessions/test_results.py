"""A result as its client is told, with how long each part took."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lingua_scheduler.core.records import JobRecord, Past, Ticket
from lingua_scheduler.core.replay import Event, Missing, Result
from lingua_scheduler.front.sessions.results import Ways, missing_result, read_result, translation_result
from lingua_scheduler.front.sessions.state import Sent
from lingua_scheduler.protocol.session import NetworkTimings, ServiceTimings, TranslationResult
from lingua_scheduler.views.job import Job
from tests.unit.front.sessions.talking import about, init

UNKNOWN = Ways()
EVENT = Event(3, 7, Result(b"c0.j"), 900)
TICKET = Ticket("c0.j", "s-1", 7, "en:zh", "", 1, 1, 1, 1, 1, "t-7", 0, 0, 0, [])


def job(result: dict[str, Any] | str, *, acks: int = 0, payload: str = "{}") -> Job:
    record = JobRecord("FINISHED", 1, "n", "e", acks, 0, 0, 0, 100, 110, 120, 150, 0, 620, Past(), 0)
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    return Job(record, TICKET, payload, text)


def told(
    result: dict[str, Any], *, acks: int = 0, speech: bytes = b"", sent: Sent | None = None, ways: Ways = UNKNOWN
) -> TranslationResult:
    one = job(result, acks=acks)
    read = read_result(one)
    assert read is not None
    return translation_result(about(init()), EVENT, sent, one, read, speech, 1_000, ways)


def test_everything_that_the_node_said_is_handed_on() -> None:
    said = {
        "text_asr": "hello",
        "text_translated": "你好",
        "tts_format": "opus",
        "extra": {"x": 1},
        "group_id": "g",
        "part_index": 2,
        "asr_quality_level": "good",
        "reason_codes": ["a"],
        "quality_score": 0.5,
        "rerun_count": 1,
        "segments_meta": [1],
    }
    result = told(said, speech=b"ab")
    assert {name: getattr(result, name) for name in said} == said
    assert (result.tts_audio, result.event_id, result.utterance_index) == ("YWI=", 3, 7)
    assert (result.trace_id, result.job_id, result.scheduler_sent_at_ms) == ("t-7", "c0.j", 1_000)


def test_whatever_a_node_says_there_is_a_result() -> None:
    wrong = {"text_asr": 1, "extra": [], "group_id": {}, "part_index": "x", "quality_score": True, "reason_codes": 3}
    result = told(wrong)
    assert (result.text_asr, result.text_translated, result.tts_audio, result.extra) == ("", "", "", None)
    assert (result.group_id, result.part_index, result.quality_score, result.reason_codes) == (None, None, None, None)
    assert read_result(job("no json")) == {}


def test_what_is_erased_is_not_a_result_without_text() -> None:
    assert read_result(job("", payload="")) is None
    assert read_result(job("")) == {}


@pytest.mark.parametrize(
    ("said", "timings"),
    [
        ({"processing_time_ms": 400, "extra": {"asr_ms": 1, "nmt_ms": 2.5}}, (1, 2.5, None, 400)),
        ({"extra": {"service_timings": {"tts_ms": 3, "total_ms": 9}}}, (None, None, 3, 9)),
        ({}, (None, None, None, 470)),
    ],
)
def test_services_took_what_the_node_says_or_at_most_what_was_seen(
    said: dict[str, Any], timings: tuple[float | None, ...]
) -> None:
    asr, nmt, tts, total = timings
    assert told(said).service_timings == ServiceTimings(asr_ms=asr, nmt_ms=nmt, tts_ms=tts, total_ms=total)


@pytest.mark.parametrize(
    ("said", "acks", "there", "back"),
    [
        ({"processing_time_ms": 400, "node_completed_at_ms": 590}, 0, 70, 30),
        ({"processing_time_ms": 400}, 1, 30, 70),
        ({"processing_time_ms": 400}, 0, 50, 50),
        ({"processing_time_ms": 400, "node_completed_at_ms": 9_999}, 0, 50, 50),
        ({"processing_time_ms": 9_999}, 1, 0, 0),
        ({"extra": {"total_ms": 400}}, 0, 50, 50),
        ({"node_completed_at_ms": 600}, 0, None, 20),
        ({"node_completed_at_ms": 600}, 1, 30, 20),
        ({"node_completed_at_ms": 9_999}, 1, 30, None),
        ({}, 1, 30, None),
        ({}, 0, None, None),
    ],
)
def test_the_ways_are_what_the_node_did_not_spend(
    said: dict[str, Any], acks: int, there: int | None, back: int | None
) -> None:
    timings = told(said, acks=acks, sent=Sent("t", 0, web_ms=12)).network_timings
    assert timings == NetworkTimings(web_to_scheduler_ms=12, scheduler_to_node_ms=there, node_to_scheduler_ms=back)


@pytest.mark.parametrize(
    ("sent", "web"),
    [
        (Sent("t", 0, web_ms=12), 12),
        (Sent("t", 0, web_ms=0), 0),
        (Sent("t", 0), 7),
        (Sent("t", 0, is_foreign=True), None),
    ],
)
def test_what_nobody_can_see_is_half_of_a_round_trip(sent: Sent, web: int | None) -> None:
    assert told({}, sent=sent, ways=Ways(7, 3)).network_timings == NetworkTimings(
        web_to_scheduler_ms=web, scheduler_to_node_ms=3, node_to_scheduler_ms=3, scheduler_to_web_ms=7
    )
    seen = told({"processing_time_ms": 400}, acks=1, sent=sent, ways=Ways(0, 3)).network_timings
    assert seen is not None
    assert (seen.scheduler_to_node_ms, seen.node_to_scheduler_ms, seen.scheduler_to_web_ms) == (30, 70, 0)


def test_a_missing_result_says_since_when_and_why() -> None:
    event = Event(4, 8, Missing("gap_timeout"), 900)
    told = missing_result(about(init()), event, Sent("t-8", 0), "gap_timeout")
    assert (told.session_id, told.utterance_index, told.event_id) == ("s-1", 8, 4)
    assert (told.reason, told.created_at_ms, told.trace_id) == ("gap_timeout", 900, "t-8")
    assert missing_result(about(init()), event, None, "lost").trace_id == "t-session"
