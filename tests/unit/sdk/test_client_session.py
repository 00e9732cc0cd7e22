"""The client's side of a session, without sockets: what it sends, what it hands over, what it makes of each end."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from lingua_scheduler.core.refusal import Breakdown, Refusal, refuse
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import CloseCode, error_message, farewell
from lingua_scheduler.protocol.frames import AudioFrame, FinalFrame, PingFrame, PongFrame, decode_frame, encode_frame
from lingua_scheduler.protocol.session import (
    AsrPartial,
    Backpressure,
    MissingResult,
    SessionCloseAck,
    SessionInit,
    SessionInitAck,
    SessionLimits,
    TranslationResult,
    Utterance,
)
from lingua_scheduler.sdk.client_errors import Refused, SessionLost
from lingua_scheduler.sdk.client_items import Missing, Partial, Result
from lingua_scheduler.sdk.client_session import (
    FIRST_SEQ,
    MAX_HEARD_BYTES,
    MAX_UNSURE_BYTES,
    PIECE_BYTES,
    Conversation,
)

NOW = 1_000


def ack() -> SessionInitAck:
    return SessionInitAck(
        session_id="s-1",
        assigned_node_id=None,
        message="",
        trace_id="t-session",
        protocol_version="1.0",
        use_binary_frame=True,
        negotiated_codec="pcm16",
        negotiated_audio_format="pcm16",
        negotiated_sample_rate=16_000,
        negotiated_channel_count=1,
        resume_token="s-1.secret",  # noqa: S106 - nobody has it
        limits=SessionLimits(max_message_bytes=1, max_utterance_bytes=1, pause_ms=1, max_duration_ms=1),
    )


def result(index: int, event_id: int, **said: Any) -> TranslationResult:
    usual = {"text_asr": "a", "text_translated": f"means {index}", "tts_audio": "", "tts_format": "pcm16"}
    about = {"session_id": "s-1", "job_id": "c0.j", "trace_id": "t", "scheduler_sent_at_ms": NOW}
    return TranslationResult(**{**usual, **about, "utterance_index": index, "event_id": event_id, **said})


def missing(index: int, event_id: int, reason: str, trace_id: str = "t") -> MissingResult:
    return MissingResult(
        session_id="s-1",
        utterance_index=index,
        reason=reason,
        created_at_ms=NOW,
        trace_id=trace_id,
        event_id=event_id,
    )


def partial(index: int, text: str) -> AsrPartial:
    return AsrPartial(session_id="s-1", utterance_index=index, job_id="j", text=text, is_final=False, trace_id="t")


def hear(machine: Conversation, *messages: Any) -> None:
    for message in messages:
        machine.hear(encode(message).decode(), NOW)


def opened(**said: Any) -> Conversation:
    machine = Conversation(SessionInit(src_lang="en", tgt_lang="zh", client_version="1", **said))
    machine.hello()
    hear(machine, ack())
    return machine


def streaming() -> Conversation:
    return opened(supports_binary_frame=True)


def answer_pings(machine: Conversation) -> list[Any]:
    """What was written is heard; each ping has its pong. What it was, without them and without beginnings."""
    frames = written(machine)
    for frame in frames:
        if isinstance(frame, PingFrame):
            machine.hear(encode_frame(PongFrame(frame.payload)), NOW)
    return [frame for frame in frames if not (isinstance(frame, PingFrame) or is_beginning(frame))]


def is_beginning(frame: object) -> bool:
    return isinstance(frame, AudioFrame) and not frame.audio


def written(machine: Conversation) -> list[Any]:
    frames = list(machine.outbox)
    machine.outbox.clear()
    return [json.loads(frame) if isinstance(frame, str) else decode_frame(frame) for frame in frames]


def say(machine: Conversation, trace_id: str = "t") -> int:
    return machine.say(Utterance(audio="AAAA", utterance_index=0, trace_id=trace_id))


def error(code: str, trace_id: str = "t", **said: Any) -> Any:
    return error_message(Refusal(code, "because", **said), trace_id)


# Sockets.


def test_a_new_socket_shows_the_token_and_the_last_event() -> None:
    machine = Conversation(SessionInit(src_lang="en", tgt_lang="zh", client_version="1", platform="api-gateway"))
    first = json.loads(machine.hello())
    assert first == {
        "type": "session_init",
        "src_lang": "en",
        "tgt_lang": "zh",
        "client_version": "1",
        "platform": "api-gateway",
    }
    hear(machine, ack(), result(0, 1), result(1, 2))
    machine.lost(None)
    again = json.loads(machine.hello())
    assert again == {
        "type": "session_init",
        "client_version": "1",
        "platform": "api-gateway",
        "resume_token": "s-1.secret",
        "last_event_id": 2,
    }


@pytest.mark.parametrize("code", [None, 1000, 1001, 1006, 1011, 1012, 1013, 4408, 4429, 4503, 4999])
def test_most_closes_only_mean_to_come_again(code: int | None) -> None:
    machine = opened()
    machine.lost(code)
    assert not machine.is_done
    assert not machine.is_open


@pytest.mark.parametrize("code", [1007, 1008, 1009, 4400, 4401, 4403])
def test_some_closes_would_be_the_same_again(code: int) -> None:
    machine = opened()
    hear(machine, farewell(CloseCode(code), "told why"))
    machine.lost(code)
    assert isinstance(machine.failure, Refused)
    assert machine.failure.detail == "told why"
    assert not machine.failure.retryable


@pytest.mark.parametrize(("reason", "detail"), [("told in the close", "told in the close"), ("", "not authenticated")])
def test_a_close_without_an_error_before_it_says_why_itself(reason: str, detail: str) -> None:
    machine = Conversation(SessionInit())
    machine.hello()
    machine.lost(4401, reason)
    assert isinstance(machine.failure, Refused)
    assert (machine.failure.code, machine.failure.detail) == ("UNAUTHENTICATED", detail)


@pytest.mark.parametrize(("code", "retryable"), [(4404, True), (4409, False)])
def test_a_session_can_be_lost(code: int, retryable: bool) -> None:
    machine = opened()
    machine.lost(code)
    assert isinstance(machine.failure, SessionLost)
    assert machine.failure.retryable is retryable
    machine.fail(Refused("OTHER", ""))
    assert isinstance(machine.failure, SessionLost), "the first reason counts"


def test_a_connection_that_is_refused_for_a_newer_one_is_not_the_end_of_its_session() -> None:
    machine = opened()
    machine.lost(1006)
    machine.hello()
    machine.lost(4409)
    assert not machine.is_done
    machine.hello()
    hear(machine, farewell(CloseCode.REPLACED))
    assert machine.refused is not None
    assert not machine.is_done


def test_a_beginning_that_is_refused_is_an_error() -> None:
    machine = Conversation(SessionInit())
    machine.hello()
    hear(machine, error("INVALID_PAIRING_CODE"))
    assert isinstance(machine.failure, Refused)
    assert machine.failure.code == "INVALID_PAIRING_CODE"


@pytest.mark.parametrize(("code", "after_ms"), [("RATE_LIMITED", 1000), ("SHUTTING_DOWN", 1000), ("INTERNAL", 0)])
def test_a_beginning_that_is_refused_for_now_is_tried_again_on_another_socket(code: str, after_ms: int) -> None:
    machine = Conversation(SessionInit())
    machine.hello()
    hear(machine, error(code))
    assert machine.refused is not None
    assert not machine.is_done
    machine.lost(None)
    assert machine.again_after_ms == after_ms
    machine.hello()
    assert machine.refused is None


def test_an_unknown_session_is_lost_before_the_close_says_so() -> None:
    machine = opened()
    machine.lost(None)
    machine.hello()
    hear(machine, error("INVALID_SESSION"))
    assert isinstance(machine.failure, SessionLost)


def test_an_error_about_something_else_does_not_explain_a_close() -> None:
    machine = opened()
    hear(machine, error("ALL_CANDIDATES_FULL_OR_FAILED"))
    machine.lost(CloseCode.RESTART)
    assert machine.again_after_ms == 0


def test_an_error_of_an_earlier_socket_does_not_explain_a_close() -> None:
    machine = opened()
    hear(machine, error("SHUTTING_DOWN"))
    machine.lost(CloseCode.RESTART)
    assert machine.again_after_ms == 1_000
    machine.hello()
    machine.lost(CloseCode.RESTART)
    assert machine.again_after_ms == 0


def test_what_was_not_written_to_a_lost_socket_is_written_once_to_the_next() -> None:
    machine = opened()
    say(machine)
    machine.lost(None)
    machine.hello()
    hear(machine, ack())
    assert [one["utterance_index"] for one in written(machine)] == [0]


def test_nothing_is_written_any_more_when_there_is_nothing_to_be_had() -> None:
    machine = opened()
    say(machine)
    machine.fail(Refused("FORBIDDEN", ""))
    assert (machine.is_open, written(machine)) == (False, [])
    say(machine)
    assert written(machine) == []


# Utterances.


def test_what_has_not_ended_is_said_again_in_order_and_what_has_is_not() -> None:
    machine = opened()
    assert [say(machine) for _ in range(3)] == [0, 1, 2]
    first = written(machine)
    assert [one["utterance_index"] for one in first] == [0, 1, 2]
    assert {one["session_id"] for one in first} == {"s-1"}
    hear(machine, result(0, 1))
    machine.lost(None)
    assert say(machine) == 3
    assert written(machine) == []
    hear(machine, ack())
    assert [one["utterance_index"] for one in written(machine)] == [1, 2, 3]


def test_a_result_that_comes_twice_is_handed_over_once() -> None:
    machine = opened()
    hear(machine, result(0, 1), result(0, 1), result(1, 2))
    machine.lost(None)
    hear(machine, ack(), result(1, 2), result(2, 3))
    taken = [machine.take() for _ in range(4)]
    assert [item.utterance_index for item in taken if item is not None] == [0, 1, 2]


def test_what_the_app_took_is_confirmed() -> None:
    machine = opened()
    hear(machine, result(0, 1), partial(1, "x"), result(1, 2))
    assert written(machine) == []
    machine.take()
    assert written(machine) == [{"type": "event_ack", "last_event_id": 1}]
    assert isinstance(machine.take(), Partial)
    assert written(machine) == []
    machine.take()
    machine.beat()
    assert written(machine) == [
        {"type": "event_ack", "last_event_id": 2},
        {"type": "client_heartbeat", "session_id": "s-1", "last_event_id": 2},
    ]


def test_partials_replace_each_other_while_nobody_takes_them() -> None:
    machine = opened()
    hear(machine, partial(0, "a"), partial(1, "b"), partial(0, "abc"))
    texts = [item.text for item in (machine.take(), machine.take()) if isinstance(item, Partial)]
    assert texts == ["abc", "b"]
    assert machine.take() is None


def test_speech_arrives_as_bytes() -> None:
    machine = opened()
    hear(machine, result(0, 1, tts_audio="c3BlZWNo"), result(1, 2, tts_audio="not base64!"))
    first, second = machine.take(), machine.take()
    assert isinstance(first, Result)
    assert isinstance(second, Result)
    assert (first.tts_audio, second.tts_audio) == (b"speech", b"")


def test_a_result_is_a_result_whatever_else_the_node_said() -> None:
    machine = opened()
    odd = json.loads(encode(result(0, 1))) | {"reason_codes": [1, None], "quality_score": "good", "extra": []}
    machine.hear(json.dumps(odd), NOW)
    item = machine.take()
    assert isinstance(item, Result)
    assert (item.text_translated, item.extra) == ("means 0", None)


def test_too_much_that_nobody_takes_stops_the_hearing() -> None:
    machine = Conversation(SessionInit(), max_held_bytes=6)
    machine.hello()
    hear(machine, ack())
    may_hear = [machine.may_hear]
    hear(machine, result(0, 1, tts_audio="c3BlZWNo"))
    may_hear.append(machine.may_hear)
    machine.take()
    assert [*may_hear, machine.may_hear] == [True, False, True]


# What is missing.


def test_a_refusal_is_told_with_the_utterance_that_it_refused() -> None:
    machine = opened()
    say(machine, "t-a")
    say(machine, "t-b")
    hear(machine, error("RATE_LIMITED", "t-b", after_ms=700), missing(0, 1, "job_failed", "t-a"))
    hear(machine, missing(1, 2, "rate_limited", "t-b"))
    first, second = machine.take(), machine.take()
    assert isinstance(first, Missing)
    assert isinstance(second, Missing)
    assert (first.code, first.retryable, first.retry_after) == ("JOB_FAILED", False, None)
    assert (second.code, second.detail, second.retryable, second.retry_after) == ("RATE_LIMITED", "because", True, 0.7)
    raised = second.error()
    assert (raised.reason, raised.code, raised.retryable, raised.retry_after) == (
        "rate_limited",
        "RATE_LIMITED",
        True,
        0.7,
    )


@pytest.mark.parametrize(
    ("reason", "code", "retryable"),
    [
        ("gap_timeout", "GAP_TIMEOUT", True),
        ("lost", "LOST", True),
        ("forgotten", "FORGOTTEN", True),
        ("no_available_node", "NO_AVAILABLE_NODE", True),
        ("scheduler_dependency_down", "SCHEDULER_DEPENDENCY_DOWN", True),
        ("no_capable_node", "NO_CAPABLE_NODE", False),
        ("job_timeout", "JOB_TIMEOUT", False),
        ("cancelled", "CANCELLED", False),
        ("something_new", "SOMETHING_NEW", False),
    ],
)
def test_a_reason_alone_says_whether_to_try_again(reason: str, code: str, retryable: bool) -> None:
    machine = opened()
    hear(machine, missing(0, 1, reason))
    item = machine.take()
    assert isinstance(item, Missing)
    assert (item.code, item.retryable) == (code, retryable)


def test_a_refusal_by_another_name_is_found() -> None:
    machine = opened()
    full = refuse("ALL_CANDIDATES_FULL_OR_FAILED", Breakdown(pool=3, full=3), pool=3, pair="en:zh")
    hear(machine, error_message(full, "t"), missing(0, 1, "no_available_node"))
    item = machine.take()
    assert isinstance(item, Missing)
    assert (item.code, item.retry_after) == ("NO_AVAILABLE_NODE", 0.25)


def test_what_was_said_twice_and_refused_for_that_was_lost() -> None:
    machine = opened()
    say(machine)
    machine.lost(None)
    hear(machine, ack(), error("INVALID_MESSAGE"), missing(0, 1, "invalid_message"))
    item = machine.take()
    assert isinstance(item, Missing)
    assert (item.reason, item.retryable) == ("lost", True)


def test_what_was_said_once_and_is_wrong_is_wrong() -> None:
    machine = opened()
    say(machine)
    hear(machine, error("INVALID_MESSAGE"), missing(0, 1, "invalid_message"))
    item = machine.take()
    assert isinstance(item, Missing)
    assert (item.reason, item.detail, item.retryable) == ("invalid_message", "because", False)


# Streams.


def said_again(machine: Conversation, heard_seq: int | None) -> list[int]:
    """On a new socket, at a scheduler that has heard up to there: which chunks. They are counted from the first."""
    machine.lost(None)
    if heard_seq is not None and heard_seq >= 0:
        heard_seq += FIRST_SEQ
    hear(machine, msgspec.structs.replace(ack(), heard_seq=heard_seq))
    chunks = [frame for frame in written(machine) if isinstance(frame, AudioFrame | FinalFrame)]
    return [frame.seq - FIRST_SEQ for frame in chunks if not is_beginning(frame)]


def test_audio_is_numbered_behind_the_numbers_of_beginnings() -> None:
    machine = streaming()
    machine.stream(b"ab", NOW)
    machine.cut(NOW)
    audio, cut = answer_pings(machine)
    assert (audio.audio, audio.seq, audio.session_id) == (b"ab", FIRST_SEQ, "s-1")
    assert (type(cut), cut.seq) == (FinalFrame, FIRST_SEQ + 1)


def test_each_socket_at_a_scheduler_that_may_have_heard_anything_has_a_beginning_of_its_own() -> None:
    """So that no audio has the number of the first chunk that was heard, and no beginning is taken for a new one."""
    machine = streaming()
    machine.stream(b"ab", NOW)
    begun = [frame.seq for frame in written(machine) if is_beginning(frame)]
    for heard_seq in (None, -1, FIRST_SEQ, None):
        if heard_seq == FIRST_SEQ:
            machine.stream(b"ab", NOW)
        machine.lost(None)
        hear(machine, msgspec.structs.replace(ack(), heard_seq=heard_seq))
        begun += [frame.seq for frame in written(machine) if is_beginning(frame)]
    assert begun == [FIRST_SEQ - 1, FIRST_SEQ - 2, FIRST_SEQ - 3, FIRST_SEQ - 4]


def test_what_the_scheduler_has_not_is_said_again_whoever_else_heard_it() -> None:
    machine = streaming()
    for _ in range(4):
        machine.stream(b"ab", NOW)
    answer_pings(machine)
    machine.stream(b"ab", NOW)
    assert said_again(machine, 2) == [3, 4]
    assert said_again(machine, 4) == []
    assert said_again(machine, -1) == [0, 1, 2, 3, 4]
    answer_pings(machine)
    machine.stream(b"ab", NOW)
    assert [frame.seq for frame in answer_pings(machine)] == [FIRST_SEQ + 5]


def test_a_scheduler_that_does_not_say_what_it_has_gets_what_had_no_pong() -> None:
    machine = streaming()
    machine.stream(b"ab", NOW)
    answer_pings(machine)
    machine.stream(b"ab", NOW)
    machine.cut(NOW)
    assert said_again(machine, None) == [1, 2]
    assert said_again(machine, None) == [1, 2]


def test_what_was_heard_is_kept_for_a_while_and_not_for_ever() -> None:
    machine = streaming()
    for _ in range(40):
        machine.stream(bytes(PIECE_BYTES), NOW)
        answer_pings(machine)
    again = said_again(machine, -1)
    assert again == list(range(again[0], 40))
    assert MAX_HEARD_BYTES - 2 * PIECE_BYTES < len(again) * PIECE_BYTES <= MAX_HEARD_BYTES
    assert machine.may_send is (len(again) * PIECE_BYTES < MAX_UNSURE_BYTES)


def test_a_stream_that_has_nothing_to_say_again_may_come_back_for_ever() -> None:
    machine = streaming()
    for _ in range(200):
        machine.lost(None)
        hear(machine, ack())
        answer_pings(machine)
    machine.stream(b"ab", NOW)
    assert [frame.audio for frame in answer_pings(machine)] == [b"ab"]


def test_a_large_chunk_travels_in_pieces() -> None:
    machine = streaming()
    machine.stream(bytes(PIECE_BYTES + 2), NOW)
    assert [len(frame.audio) for frame in answer_pings(machine)] == [PIECE_BYTES, 2]


def test_too_much_that_nobody_confirms_stops_the_sending() -> None:
    machine = streaming()
    machine.stream(bytes(MAX_UNSURE_BYTES), NOW)
    assert not machine.may_send
    answer_pings(machine)
    assert machine.may_send


def test_a_heartbeat_asks_again_for_what_is_not_confirmed() -> None:
    machine = streaming()
    machine.stream(b"ab", NOW)
    written(machine)
    machine.beat()
    _, ping = written(machine)
    machine.hear(encode_frame(PongFrame(ping.payload)), NOW)
    machine.beat()
    assert len(written(machine)) == 1


def test_the_end_comes_after_all_audio_also_on_another_socket() -> None:
    machine = streaming()
    machine.stream(b"ab", NOW)
    machine.close()
    machine.close()
    *_, last = written(machine)
    assert last["type"] == "session_close"
    machine.lost(None)
    hear(machine, ack())
    _, audio, ping, goodbye = written(machine)
    assert (audio.audio, type(ping), goodbye["type"]) == (b"ab", PingFrame, "session_close")
    hear(machine, SessionCloseAck(session_id="s-1"))
    assert machine.is_over
    machine.lost(CloseCode.DONE)
    assert machine.failure is None


def test_whoever_closes_without_a_stream_says_so_on_every_socket() -> None:
    machine = opened()
    machine.close()
    assert [one["type"] for one in written(machine)] == ["session_close"]
    machine.lost(None)
    hear(machine, ack())
    assert [one["type"] for one in written(machine)] == ["session_close"]


# The rest.


@pytest.mark.parametrize(("said", "until"), [(700, NOW + 700), (None, NOW + 1_000)])
def test_backpressure_says_until_when_to_be_slow(said: int | None, until: int) -> None:
    machine = opened()
    hear(machine, Backpressure(action="SLOW_DOWN", resume_after_ms=said))
    hear(machine, Backpressure(action="BUSY", resume_after_ms=1))
    assert machine.slow_until_ms == until


@pytest.mark.parametrize("data", ["{", "{}", '{"type": "something_new"}', b"", b"\x7f", '{"type": "asr_partial"}'])
def test_what_nobody_understands_is_ignored(data: str | bytes) -> None:
    machine = opened()
    machine.hear(data, NOW)
    assert not machine.is_done
    assert machine.take() is None


def test_a_ping_has_its_pong() -> None:
    machine = opened()
    machine.hear(encode_frame(PingFrame(b"x")), NOW)
    assert written(machine) == [PongFrame(b"x")]
