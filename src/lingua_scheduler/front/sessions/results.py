"""What an utterance means, as its client is told: made of the job's record, its stored result, and its audio."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from lingua_scheduler.protocol.session import MissingResult, NetworkTimings, ServiceTimings, TranslationResult

if TYPE_CHECKING:
    from lingua_scheduler.core.records import JobRecord
    from lingua_scheduler.core.replay import Event
    from lingua_scheduler.front.sessions.state import About, Sent
    from lingua_scheduler.views.job import Job

_SERVICES: Final = ("asr", "nmt", "tts")
_read: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Ways(NamedTuple):
    """How long a message takes to the client, and to the node: half of a ping's round trip. None: that is not known."""

    client_ms: int | None = None
    node_ms: int | None = None


def read_result(job: Job) -> dict[str, Any] | None:
    """What the node said; None: it has been erased. A job has its text as long as it has what was asked."""
    if not job.payload:
        return None
    try:
        return _read(job.result)
    except msgspec.DecodeError:
        return {}


def tts_ref_of(result: dict[str, Any]) -> str:
    """Where its speech is kept, if there is any."""
    return _text(result, "tts_ref")


def missing_result(about: About, event: Event, sent: Sent | None, reason: str) -> MissingResult:
    """There is none, and why."""
    return MissingResult(
        session_id=about.session_id,
        utterance_index=event.index,
        reason=reason,
        created_at_ms=event.at_ms,
        trace_id=sent.trace_id if sent else about.trace_id,
        event_id=event.event_id,
    )


def translation_result(
    about: About,
    event: Event,
    sent: Sent | None,
    job: Job,
    result: dict[str, Any],
    speech: bytes,
    now_ms: int,
    ways: Ways,
) -> TranslationResult:
    """All of it, with how long each part took as far as that is known."""
    extra = _kind(result, "extra", dict) or {}
    timed = {**extra, **(_kind(extra, "service_timings", dict) or {})}
    spent_ms = _number(result, "processing_time_ms")
    if spent_ms is None:
        spent_ms = _number(timed, "total_ms")
    return TranslationResult(
        session_id=about.session_id,
        utterance_index=event.index,
        job_id=job.ticket.job,
        text_asr=_text(result, "text_asr"),
        text_translated=_text(result, "text_translated"),
        tts_audio=base64.b64encode(speech).decode() if speech else _text(result, "tts_audio"),
        tts_format=_text(result, "tts_format"),
        trace_id=job.ticket.trace,
        scheduler_sent_at_ms=now_ms,
        event_id=event.event_id,
        extra=_kind(result, "extra", dict),
        group_id=_kind(result, "group_id", str),
        part_index=_kind(result, "part_index", int),
        service_timings=_service_timings(timed, spent_ms, job.record),
        network_timings=_network_timings(job.record, spent_ms, _number(result, "node_completed_at_ms"), sent, ways),
        asr_quality_level=_kind(result, "asr_quality_level", str),
        reason_codes=_kind(result, "reason_codes", list),
        quality_score=_number(result, "quality_score"),
        rerun_count=_number(result, "rerun_count"),
        segments_meta=result.get("segments_meta"),
    )


def _service_timings(timed: dict[str, Any], spent_ms: float | None, record: JobRecord) -> ServiceTimings:
    """The node's own word, in `extra` or in its `service_timings`; all of it took no less than the node says."""
    each = {f"{service}_ms": _number(timed, f"{service}_ms") for service in _SERVICES}
    began_ms = record.started_at_ms or record.accepted_at_ms or record.dispatched_at_ms or record.reserved_at_ms
    return ServiceTimings(**each, total_ms=record.ended_at_ms - began_ms if spent_ms is None else spent_ms)


def _network_timings(
    record: JobRecord, spent_ms: float | None, completed_ms: float | None, sent: Sent | None, ways: Ways
) -> NetworkTimings:
    """How long it was under way. What nobody can see for himself is half of a ping's round trip.

    To the node and back is what the node did not spend itself. The way back is known if the node says when it was done,
    and its clock is right; the way there if it acknowledged. Otherwise both took the same, if it is known what is left
    for them.
    """
    written_ms = record.dispatched_at_ms or record.reserved_at_ms
    both_ms = max(0, round(record.ended_at_ms - written_ms - (spent_ms or 0)))
    there_ms = max(0, record.accepted_at_ms - written_ms) if record.acks and record.accepted_at_ms else None
    back_ms = None if completed_ms is None else round(record.ended_at_ms - completed_ms)
    if back_ms is not None and not 0 <= back_ms <= both_ms:
        back_ms = None
    if spent_ms is not None:
        if back_ms is None:
            back_ms = both_ms - min(both_ms // 2 if there_ms is None else there_ms, both_ms)
        there_ms = both_ms - back_ms
    return NetworkTimings(
        web_to_scheduler_ms=_web_ms(sent, ways),
        scheduler_to_node_ms=ways.node_ms if there_ms is None else there_ms,
        node_to_scheduler_ms=ways.node_ms if back_ms is None else back_ms,
        scheduler_to_web_ms=ways.client_ms,
    )


def _web_ms(sent: Sent | None, ways: Ways) -> int | None:
    """From the client to here, by its own stamp if it has one. What somebody else submitted came another way."""
    if sent is None or sent.is_foreign:
        return None
    return ways.client_ms if sent.web_ms is None else sent.web_ms


def _text(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""


def _kind(said: dict[str, Any], name: str, kind: type) -> Any:  # noqa: ANN401 - None, or of this kind
    value = said.get(name)
    return value if isinstance(value, kind) else None


def _number(said: dict[str, Any], name: str) -> float | None:
    value = said.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
