"""A client speaks: what is cut, what is wished, what is too much. On virtual time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.cutting import CutLimits
from lingua_scheduler.core.refusal import Invalid, refuse
from lingua_scheduler.front.sessions.effects import Announce, Close, Effect, Number, Pong, Save, Submit
from lingua_scheduler.front.sessions.manners import read_message
from lingua_scheduler.front.sessions.rules import SessionRules
from lingua_scheduler.protocol.errors import CloseCode, ErrorMessage
from lingua_scheduler.protocol.frames import AudioFrame, FinalFrame, PingFrame
from lingua_scheduler.protocol.options import Options, Pipeline
from lingua_scheduler.protocol.session import (
    Backpressure,
    ClientHeartbeat,
    ServerHeartbeat,
    SessionClose,
    SessionInitAck,
    TtsPlayEnded,
    TtsStarted,
    UiEvent,
)
from tests.support.logs import told
from tests.unit.front.sessions.talking import (
    SESSION,
    START_MS,
    TENTH,
    TOKEN,
    chunk,
    events,
    init,
    messages,
    of,
    only,
    place,
    said_and_placed,
    say,
    talk,
    utterance,
)

if TYPE_CHECKING:
    from lingua_scheduler.front.sessions.talk import Talk


def unreadable(machine: Talk, message: dict[str, object]) -> list[Effect]:
    """What comes of a message that does not fit its schema."""
    data = json.dumps(message)
    with pytest.raises(Invalid) as raised:
        read_message(data)
    return machine.unreadable(data, raised.value, START_MS)


def shown(effects: list[Effect]) -> list[tuple[str, int]]:
    return [(one.event, one.utterance_index) for one in messages(effects, UiEvent)]


def test_the_ack_says_what_was_agreed_and_goes_out_after_the_save() -> None:
    effects = talk(platform="web", supports_binary_frame=True).welcome(TOKEN)
    assert isinstance(effects[0], Save)
    (ack,) = messages(effects, SessionInitAck)
    assert (ack.session_id, ack.resume_token, ack.assigned_node_id) == (SESSION, TOKEN, None)
    assert (ack.negotiated_codec, ack.use_binary_frame) == ("opus", True)
    assert (ack.limits.pause_ms, ack.limits.max_duration_ms) == (3_000, 10_000)


def test_a_stream_is_numbered_from_zero_and_cut_by_the_client() -> None:
    machine = talk()
    started = machine.hear(chunk(0, TENTH), START_MS)
    assert shown(started) == [("INPUT_STARTED", 0)]
    ended = machine.hear(chunk(1, is_final=True), START_MS + 10)
    assert shown(ended) == [("INPUT_ENDED", 0)]
    assert only(Number, ended) == Number(None, 0)
    submit = only(Submit, machine.numbered(0, "c0.a", START_MS + 11))
    said = submit.said
    assert (submit.index, submit.job_id, said.audio) == (0, "c0.a", TENTH)
    assert (said.is_manual_cut, said.is_timeout_triggered, said.is_max_duration_triggered) == (True, False, False)
    assert (said.audio_format, said.sample_rate, said.bind_key) == ("pcm16", 16_000, "")


def test_a_pause_cuts_when_its_time_comes() -> None:
    machine = talk()
    machine.hear(chunk(0, TENTH), START_MS)
    only(Save, machine.tick(START_MS + 1_000))
    assert machine.due_ms == START_MS + 3_000
    assert not of(Number, machine.tick(START_MS + 2_999))
    assert of(Number, machine.tick(START_MS + 3_000))


def test_pieces_of_a_turn_are_bound_and_a_turn_of_one_piece_is_not() -> None:
    machine = talk()
    effects = machine.hear(chunk(0, TENTH * 101), START_MS)
    only(Number, effects)
    first = only(Submit, machine.numbered(0, "c0.a", START_MS)).said
    only(Number, machine.hear(chunk(1, is_final=True), START_MS))
    last = only(Submit, machine.numbered(1, "c0.b", START_MS)).said
    assert first.bind_key == first.turn_id == last.turn_id == last.bind_key
    assert (first.is_max_duration_triggered, last.is_manual_cut) == (True, True)


def test_binary_frames_are_heard_and_their_way_is_measured() -> None:
    machine = talk()
    machine.hear(AudioFrame(SESSION, 0, (START_MS - 30) % 2**32, is_final=False, audio=TENTH), START_MS)
    machine.hear(FinalFrame(SESSION, 1, 0), START_MS)
    assert only(Submit, machine.numbered(0, "c0.a", START_MS)).said.web_ms == 30
    assert machine.hear(PingFrame(b"?"), START_MS) == [Pong(b"?")]


@pytest.mark.parametrize(("timestamp", "web_ms"), [(START_MS - 20, 20), (START_MS + 5, None), (0, None)])
def test_a_way_that_cannot_be_measured_is_not_told(timestamp: int, web_ms: int | None) -> None:
    whole = utterance(0, client_timestamp_ms=timestamp)
    for said in (whole, chunk(0, TENTH, is_final=True, client_timestamp_ms=timestamp)):
        machine = talk()
        machine.hear(said, START_MS)
        assert only(Submit, machine.numbered(0, "c0.a", START_MS)).said.web_ms == web_ms


def test_an_utterance_says_its_own_word_and_leaves_the_rest_to_its_session() -> None:
    machine = talk(
        dialect="london",
        options=Options(wait_ms=5, policy="spread"),
        pipeline=Pipeline(use_tone=True, use_nmt=False),
        trace_id="t-session",
    )
    said = say(machine, 0, tgt_lang="fr", options=Options(wait_ms=9), pipeline=Pipeline(use_tts=True)).said
    assert said.direction is not None
    assert (str(said.direction.pair.src), said.direction.pair.tgt, said.dialect) == ("en", "fr", "london")
    assert said.options == Options(wait_ms=9, policy="spread")
    assert set(said.services) == {"asr", "semantic", "tone", "tts"}
    assert said.trace_id == "t-session"


def test_speech_is_not_asked_for_unless_somebody_asks() -> None:
    assert "tts" not in say(talk(), 0).said.services
    assert "tts" in say(talk(options=Options(require_tts=True)), 0).said.services


def test_both_ways_are_told_with_their_candidates() -> None:
    said = say(talk(src_lang="auto", mode="two_way_auto", lang_a="en", lang_b="zh-Hans"), 0).said
    assert said.direction is not None
    assert (said.direction.two_way, said.direction.src_lang, said.direction.candidates) == (True, "auto", ["en", "zh"])


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"audio": b""}, "INVALID_MESSAGE"),
        ({"tgt_lang": "klingon-x"}, "INVALID_MESSAGE"),
        ({"audio": bytes(2 * 1024 * 1024 + 2)}, "PAYLOAD_TOO_LARGE"),
    ],
)
def test_a_refused_utterance_is_told_at_once_and_missing_in_its_turn(wrong: dict[str, object], code: str) -> None:
    machine = talk()
    said_and_placed(machine, 0)
    effects = machine.hear(utterance(1, **wrong), START_MS)  # type: ignore[arg-type]
    assert [error.code for error in messages(effects, ErrorMessage)] == [code]
    assert not of(Announce, effects)
    assert events(machine.ended(0, "FINISHED", START_MS)) == [(1, 0, "c0.j0"), (2, 1, code.lower())]


def test_an_index_that_is_in_use_is_told_and_makes_no_second_utterance() -> None:
    machine = talk()
    said_and_placed(machine, 3)
    machine.hear(utterance(3), START_MS)
    effects = machine.numbered(3, "c0.other", START_MS)
    assert not of(Submit, effects)
    assert "already in use" in messages(effects, ErrorMessage)[0].detail
    assert events(machine.ended(3, "FINISHED", START_MS)) == [(1, 3, "c0.j3")]


@pytest.mark.parametrize(
    "wrong", [{"audio_format": "mp3"}, {"options": {"bind_key": "a:b"}}, {"audio": 7}, {"audio": None}, {"trace_id": 7}]
)
def test_an_utterance_that_cannot_be_read_but_for_its_number_is_missing_in_its_turn(wrong: dict[str, object]) -> None:
    machine = talk()
    said_and_placed(machine, 0)
    for index in range(1, 6):
        message = {"type": "utterance", "audio": "AAAA", "utterance_index": index, "session_id": SESSION, **wrong}
        effects = unreadable(machine, message)
        (error,) = messages(effects, ErrorMessage)
        assert (error.code, error.trace_id) == ("INVALID_MESSAGE", "t-session")
        assert not of(Close, effects), "it has its end, like any other"
    ends = events(machine.ended(0, "FINISHED", START_MS))
    assert [(index, end) for _, index, end in ends[1:]] == [(index, "invalid_message") for index in range(1, 6)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"utterance_index": -1},
        {"utterance_index": "1"},
        {"utterance_index": None},
        {"session_id": "another"},
        {"session_id": ["s-1"]},
        {"type": "audio_chunk", "seq": "x"},
    ],
)
def test_what_has_no_number_of_this_session_is_only_a_bad_message(wrong: dict[str, object]) -> None:
    machine = talk()
    message = {"type": "utterance", "utterance_index": 0, "session_id": SESSION, **wrong}
    assert [len(of(Close, unreadable(machine, message))) for _ in range(3)] == [0, 0, 1]
    assert machine.ledger.is_settled


def test_a_session_that_closes_takes_no_utterance_that_cannot_be_read() -> None:
    machine = talk()
    said_and_placed(machine, 0)
    machine.hear(SessionClose(), START_MS)
    effects = unreadable(machine, {"type": "utterance", "utterance_index": 1})
    assert [error.code for error in messages(effects, ErrorMessage)] == ["SESSION_CLOSED"]


def test_utterances_that_cannot_be_read_are_counted_like_others() -> None:
    machine = talk(SessionRules(rate_per_s=20, burst=1))
    codes = [unreadable(machine, {"type": "utterance", "utterance_index": index}) for index in range(2)]
    assert [messages(effects, ErrorMessage)[0].code for effects in codes] == ["INVALID_MESSAGE", "RATE_LIMITED"]


def test_a_protective_cut_is_logged_by_its_session_and_never_by_what_was_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = talk(SessionRules(cut=CutLimits(max_bytes=4_000)))
    machine.hear(chunk(0, b"hush" * 1_200, is_final=True), START_MS)
    ((event, session_id, size),) = [(one["event"], one["session_id"], one["bytes"]) for one in told(caplog)]
    assert (event, session_id, size) == ("cut", SESSION, 4_000)
    assert "hush" not in caplog.text


def test_a_flood_is_refused_each_is_told_and_all_are_missing_in_order() -> None:
    machine = talk(SessionRules(rate_per_s=20, burst=2))
    for index in range(2):
        said_and_placed(machine, index)
    effects = [effect for index in (2, 3) for effect in machine.hear(utterance(index), START_MS)]
    told = messages(effects, ErrorMessage)
    assert [(error.code, error.retry_after_ms) for error in told] == [("RATE_LIMITED", 50)] * 2
    assert [(one.action, one.resume_after_ms) for one in messages(effects, Backpressure)] == [("SLOW_DOWN", 50)]
    machine.ended(1, "FINISHED", START_MS)
    out = events(machine.ended(0, "FINISHED", START_MS))
    assert out == [(1, 0, "c0.j0"), (2, 1, "c0.j1"), (3, 2, "rate_limited"), (4, 3, "rate_limited")]


def test_too_much_audio_under_way_is_refused_and_there_is_room_again() -> None:
    machine = talk(SessionRules(max_unplaced=2))
    say(machine, 0)
    say(machine, 1)
    effects = machine.hear(utterance(2), START_MS)
    assert [error.code for error in messages(effects, ErrorMessage)] == ["RATE_LIMITED"]
    assert [one.action for one in messages(effects, Backpressure)] == ["PAUSE"]
    place(machine, 0)
    assert of(Number, machine.hear(utterance(3), START_MS))


def test_bytes_under_way_are_bounded_too() -> None:
    machine = talk(SessionRules(max_unplaced_bytes=2 * len(TENTH)))
    say(machine, 0)
    machine.hear(utterance(1), START_MS)
    assert messages(machine.hear(utterance(2), START_MS), ErrorMessage)
    machine.numbered(1, "c0.j1", START_MS)
    machine.refused(1, refuse("SCHEDULER_DEPENDENCY_DOWN"), START_MS)
    assert of(Number, machine.hear(utterance(3), START_MS))


def test_whoever_goes_on_without_answers_is_sent_away_and_not_heard() -> None:
    machine = talk(SessionRules(max_open=3))
    said_and_placed(machine, 0, 1)
    machine.hear(utterance(2), START_MS)
    for index in range(3, 6):
        assert only(Close, machine.hear(utterance(index), START_MS)).code is CloseCode.RATE_LIMITED
    assert machine.ledger.coming_index == 3
    machine.ended(0, "FINISHED", START_MS)
    assert not of(Close, machine.hear(utterance(3), START_MS))


def test_a_saturated_pair_is_told_but_not_again_and_again() -> None:
    machine = talk()
    told = [machine.busy(0, START_MS + after_ms) for after_ms in range(2)]
    assert [len(messages(effects, Backpressure)) for effects in told] == [1, 0]
    assert messages(machine.busy(0, START_MS + 1_000), Backpressure)[0].action == "BUSY"


def test_a_full_pair_is_told_with_the_name_that_clients_know() -> None:
    machine = talk()
    say(machine, 0)
    effects = machine.refused(0, refuse("ALL_CANDIDATES_FULL_OR_FAILED", pool=1, pair="en:zh"), START_MS)
    assert messages(effects, ErrorMessage)[0].code == "NO_AVAILABLE_NODE"
    assert [one.action for one in messages(effects, Backpressure)] == ["BUSY"]
    assert [one.error_code for one in messages(effects, UiEvent)] == ["NO_AVAILABLE_NODE"]
    assert events(effects) == [(1, 0, "no_available_node")]


def test_what_has_no_number_is_refused_under_the_next_one() -> None:
    machine = talk()
    machine.hear(chunk(0, TENTH, is_final=True), START_MS)
    effects = machine.not_numbered(refuse("SCHEDULER_DEPENDENCY_DOWN"), START_MS)
    assert events(effects) == [(1, 0, "scheduler_dependency_down")]
    again = machine.hear(chunk(1, TENTH, is_final=True), START_MS)
    assert only(Number, again) == Number(None, 1)


def test_utterances_are_numbered_one_after_the_other() -> None:
    machine = talk()
    assert of(Number, machine.hear(chunk(0, TENTH, is_final=True), START_MS))
    assert not of(Number, machine.hear(chunk(1, TENTH, is_final=True), START_MS))
    effects = machine.numbered(4, "c0.a", START_MS)
    assert (only(Submit, effects).index, only(Number, effects)) == (4, Number(None, 5))


def test_heartbeats_are_answered_and_confirm() -> None:
    machine = talk()
    effects = machine.hear(ClientHeartbeat(session_id=SESSION), START_MS + 7)
    assert messages(effects, ServerHeartbeat) == [ServerHeartbeat(session_id=SESSION, timestamp=START_MS + 7)]


def test_a_word_for_another_session_is_refused_and_changes_nothing() -> None:
    machine = talk()
    effects = machine.hear(utterance(0, session_id="s-2"), START_MS)
    assert [error.code for error in messages(effects, ErrorMessage)] == ["INVALID_SESSION"]
    assert machine.ledger.is_settled


def test_a_second_session_init_is_a_bad_message() -> None:
    assert messages(talk().hear(init(), START_MS), ErrorMessage)[0].code == "INVALID_MESSAGE"


def test_audio_that_is_none_is_told_and_the_stream_goes_on() -> None:
    machine = talk(platform="web")
    effects = machine.hear(chunk(0, b"\xff\xff" + bytes(10)), START_MS)
    assert "Opus" in messages(effects, ErrorMessage)[0].detail
    assert of(Number, machine.hear(chunk(1, b"\x01\x00x", is_final=True), START_MS))


def test_what_is_played_is_shown_with_its_utterance() -> None:
    machine = talk()
    say(machine, 0, trace_id="t-0")
    say(machine, 1, trace_id="t-1")
    assert shown(machine.hear(TtsStarted(trace_id="t-0"), START_MS)) == [("TTS_PLAY_STARTED", 0)]
    assert shown(machine.hear(TtsPlayEnded(trace_id="?"), START_MS)) == [("TTS_PLAY_ENDED", 1)]


def test_nobody_who_waits_for_an_answer_is_idle() -> None:
    machine = talk(SessionRules(idle_ms=5_000))
    said_and_placed(machine, 0)
    assert not of(Close, machine.tick(START_MS + 6_000))
    machine.ended(0, "FINISHED", START_MS + 6_001)
    assert of(Close, machine.tick(START_MS + 6_002))[0].code is CloseCode.TIMEOUT
    assert not of(Close, machine.tick(START_MS + 6_003))


def test_a_word_keeps_a_session_from_being_idle() -> None:
    machine = talk()
    machine.hear(ClientHeartbeat(), START_MS + 200_000)
    assert not of(Close, machine.tick(START_MS + 499_999))
    assert of(Close, machine.tick(START_MS + 500_000))
