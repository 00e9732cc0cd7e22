"""What a node has in hand: told twice it is done once, answered once, and said again only when it may be lost."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from lingua_scheduler.protocol.frames import AudioFrame
from lingua_scheduler.protocol.node import (
    JobAck,
    JobAssign,
    JobNack,
    JobResult,
    JobStarted,
    JobStopped,
    NodeAsrPartial,
)
from lingua_scheduler.protocol.options import Pipeline
from lingua_scheduler.sdk.nodes.attempts import Act, Attempts, Begin, Key, Ping, Say, Stop

KEY: Key = ("c0.1", 1)


def assign(job_id: str = "c0.1", attempt_id: int = 1, **said: Any) -> JobAssign:
    usual: dict[str, Any] = {
        "session_id": "room",
        "utterance_index": 7,
        "src_lang": "en",
        "tgt_lang": "zh",
        "dialect": None,
        "pipeline": Pipeline(),
        "audio": base64.b64encode(b"said").decode(),
        "audio_format": "pcm16",
        "sample_rate": 16_000,
        "trace_id": "t",
        "is_manual_cut": True,
        "is_timeout_triggered": False,
        "is_max_duration_triggered": False,
        "deadline_ms": 1,
    }
    return JobAssign(job_id=job_id, attempt_id=attempt_id, **(usual | said))


def result(job_id: str = "c0.1", attempt_id: int = 1) -> JobResult:
    return JobResult(job_id=job_id, attempt_id=attempt_id, success=True, text_asr="heard")


def joined(max_jobs: int = 2, *, takes_frames: bool = False) -> Attempts:
    """Those of a node that is in, and knows what is its own."""
    attempts = Attempts(max_jobs, takes_frames=takes_frames)
    attempts.node_id = "n1"
    rejoin(attempts)
    return attempts


def rejoin(attempts: Attempts, *cancelled: Key) -> list[Act]:
    """In again, and told what is not its own any more; what is said then."""
    (ping,) = attempts.joined()
    acts = [act for key in cancelled for act in attempts.cancelled(key)]
    return acts + attempts.ponged(number(ping))


def number(act: Act) -> int:
    assert isinstance(act, Ping), act
    return act.number


def kinds(acts: list[Act]) -> list[type]:
    return [type(act.message) if isinstance(act, Say) else type(act) for act in acts]


def names(attempts: Attempts) -> list[Key]:
    return [(one.job_id, one.attempt_id) for one in attempts.claimed()]


def test_an_assignment_is_acknowledged_and_begins() -> None:
    attempts = joined()
    acts = attempts.assigned(assign())
    assert kinds(acts) == [JobAck, JobStarted, Begin]
    ack, begin = acts[0], acts[2]
    assert isinstance(ack, Say)
    assert isinstance(begin, Begin)
    assert (begin.message.job_id, begin.audio) == ("c0.1", b"said")
    named = ack.message
    assert isinstance(named, JobAck)
    assert (named.job_id, named.attempt_id, named.node_id, named.session_id, named.trace_id) == (
        "c0.1",
        1,
        "n1",
        "room",
        "t",
    )
    assert [(one.job_id, one.attempt_id) for one in attempts.running()] == [KEY]


def test_told_twice_it_is_acknowledged_twice_and_begins_once() -> None:
    attempts = joined()
    attempts.assigned(assign())
    assert kinds(attempts.assigned(assign())) == [JobAck]


def test_told_again_when_it_is_done_it_says_the_answer_again() -> None:
    attempts = joined()
    attempts.assigned(assign())
    attempts.finished(KEY, result())
    assert kinds(attempts.assigned(assign())) == [JobAck, JobResult, Ping]


def test_told_again_while_it_is_being_stopped_it_says_nothing() -> None:
    attempts = joined()
    attempts.assigned(assign())
    attempts.cancelled(KEY)
    assert attempts.assigned(assign()) == []


def test_an_answer_is_said_once_and_forgotten_with_its_pong() -> None:
    attempts = joined()
    attempts.assigned(assign())
    said = attempts.finished(KEY, result())
    assert kinds(said) == [JobResult, Ping]
    assert (attempts.busy, attempts.is_idle, names(attempts)) == (0, False, [KEY])
    assert attempts.running() == []
    assert attempts.finished(KEY, result()) == []
    assert attempts.ponged(number(said[1])) == []
    assert (attempts.is_idle, names(attempts)) == (True, [])


def test_an_answer_without_a_pong_is_claimed_and_said_again_behind_the_pong_of_the_next_socket() -> None:
    attempts = joined()
    attempts.assigned(assign())
    old = attempts.finished(KEY, result())
    attempts.lost()
    assert names(attempts) == [KEY]
    assert attempts.ponged(number(old[1])) == []
    assert kinds(rejoin(attempts)) == [JobResult, Ping]


def test_an_answer_that_came_while_it_was_away_waits_until_it_is_known_to_be_wanted() -> None:
    attempts = joined()
    attempts.assigned(assign())
    attempts.lost()
    assert attempts.finished(KEY, result()) == []
    (ping,) = attempts.joined()
    assert attempts.finished(KEY, result()) == []
    assert kinds(attempts.ponged(number(ping))) == [JobResult, Ping]


def test_an_answer_that_is_not_wanted_any_more_is_dropped_and_never_said() -> None:
    attempts = joined()
    attempts.assigned(assign())
    attempts.lost()
    attempts.finished(KEY, result())
    assert kinds(rejoin(attempts, KEY)) == [JobStopped]
    assert attempts.is_idle


def test_of_an_answer_that_was_said_on_this_socket_nobody_is_told_that_it_stopped() -> None:
    attempts = joined()
    attempts.assigned(assign())
    attempts.finished(KEY, result())
    assert attempts.cancelled(KEY) == []
    assert attempts.is_idle


def test_a_cancelled_attempt_is_stopped_and_has_its_slot_until_its_handler_has_ended() -> None:
    attempts = joined()
    attempts.assigned(assign())
    assert attempts.cancelled(KEY, "he hung up") == [Stop(KEY, "he hung up")]
    assert attempts.cancelled(KEY) == []
    assert (attempts.busy, names(attempts)) == (1, [KEY])
    assert kinds(attempts.finished(KEY, result())) == [JobStopped]
    assert attempts.is_idle


def test_what_it_does_not_have_it_has_stopped() -> None:
    assert kinds(joined().cancelled(KEY)) == [JobStopped]


def test_away_it_says_nothing_but_works_on() -> None:
    attempts = joined()
    attempts.assigned(assign())
    attempts.lost()
    assert attempts.partial(KEY, "so far", is_final=False) == []
    assert attempts.cancelled(("c0.9", 1)) == []
    assert [(one.job_id, one.attempt_id) for one in attempts.running()] == [KEY]


def test_being_in_already_is_no_news() -> None:
    assert joined().joined() == []


def test_more_than_its_slots_is_refused_without_costing_a_try() -> None:
    attempts = joined(max_jobs=1)
    attempts.assigned(assign())
    (said,) = attempts.assigned(assign("c0.2"))
    assert isinstance(said, Say)
    assert isinstance(said.message, JobNack)
    assert said.message.reason == "NODE_OVERLOADED: all slots are taken (1)"
    attempts.cancelled(KEY)
    assert kinds(attempts.assigned(assign("c0.2"))) == [JobNack]
    attempts.finished(KEY, result())
    assert kinds(attempts.assigned(assign("c0.2"))) == [JobAck, JobStarted, Begin]


def test_about_to_stop_it_takes_nothing_new() -> None:
    attempts = joined()
    attempts.is_draining = True
    (said,) = attempts.assigned(assign())
    assert isinstance(said, Say)
    assert isinstance(said.message, JobNack)
    assert said.message.reason == "NODE_OVERLOADED: the node is about to stop"


def test_a_newer_attempt_stops_the_older_and_waits_for_its_end() -> None:
    """No job runs twice at the same time."""
    attempts = joined(max_jobs=3)
    attempts.assigned(assign())
    acts = attempts.assigned(assign(attempt_id=2))
    assert kinds(acts) == [JobAck, Stop]
    assert attempts.assigned(assign(attempt_id=1)) == []
    assert kinds(attempts.finished(KEY, result())) == [JobStopped, JobStarted, Begin]
    assert names(attempts) == [("c0.1", 2)]


def test_an_older_attempt_than_the_one_it_has_is_no_work() -> None:
    attempts = joined()
    attempts.assigned(assign(attempt_id=2))
    assert attempts.assigned(assign(attempt_id=1)) == []


def test_an_older_attempt_that_is_done_gives_way_at_once() -> None:
    attempts = joined()
    attempts.assigned(assign())
    attempts.finished(KEY, result())
    assert kinds(attempts.assigned(assign(attempt_id=2))) == [JobAck, JobStarted, Begin]
    assert names(attempts) == [("c0.1", 2)]


def test_one_that_waits_for_an_older_is_dropped_when_it_is_cancelled() -> None:
    attempts = joined(max_jobs=3)
    attempts.assigned(assign())
    attempts.assigned(assign(attempt_id=2))
    assert kinds(attempts.cancelled(("c0.1", 2))) == [JobStopped]
    assert kinds(attempts.finished(KEY, result())) == [JobStopped]
    assert attempts.is_idle


def test_audio_that_follows_is_waited_for() -> None:
    attempts = joined(takes_frames=True)
    acts = attempts.assigned(assign(audio="", utterance_index=2**32 + 7))
    assert kinds(acts) == [JobAck, Ping]
    assert attempts.framed(AudioFrame("another", 7, 0, True, b"")) == []
    assert attempts.framed(AudioFrame("room", 8, 0, True, b"")) == []
    begun = attempts.framed(AudioFrame("room", 7, 0, True, b"framed"))
    assert kinds(begun) == [JobStarted, Begin]
    assert isinstance(begun[1], Begin)
    assert begun[1].audio == b"framed"
    assert attempts.framed(AudioFrame("room", 7, 0, True, b"framed")) == []
    assert attempts.ponged(number(acts[1])) == []
    assert names(attempts) == [KEY]


def test_a_pong_without_a_frame_before_it_says_that_there_is_none() -> None:
    attempts = joined(takes_frames=True)
    acts = attempts.assigned(assign(audio=""))
    begun = attempts.ponged(number(acts[1]))
    assert kinds(begun) == [JobStarted, Begin]
    assert isinstance(begun[1], Begin)
    assert begun[1].audio == b""


def test_what_waited_for_a_frame_is_not_claimed_on_the_next_socket() -> None:
    attempts = joined(takes_frames=True)
    attempts.assigned(assign(audio=""))
    attempts.lost()
    assert attempts.is_idle


@pytest.mark.parametrize(
    ("ref", "audio"), [("audio-" + "0" * 32, None), ("c0.1.said", None), ("c0.2.said", b""), ("s3://theirs", b"")]
)
def test_only_audio_of_ours_is_fetched(ref: str, audio: bytes | None) -> None:
    begun = joined(takes_frames=True).assigned(assign(audio="", audio_ref=ref))
    assert kinds(begun) == [JobAck, JobStarted, Begin]
    assert isinstance(begun[2], Begin)
    assert begun[2].audio == audio


def test_audio_that_is_no_base64_is_refused() -> None:
    attempts = joined()
    acts = attempts.assigned(assign(audio="?"))
    assert kinds(acts) == [JobAck, JobNack, Ping]
    assert isinstance(acts[1], Say)
    assert isinstance(acts[1].message, JobNack)
    assert acts[1].message.reason == "INVALID_MESSAGE: audio: expected base64"


def test_a_partial_is_of_an_attempt_that_runs() -> None:
    attempts = joined()
    assert attempts.partial(KEY, "so far", is_final=True) == []
    attempts.assigned(assign())
    (said,) = attempts.partial(KEY, "so far", is_final=True)
    assert isinstance(said, Say)
    assert said.message == NodeAsrPartial(
        job_id="c0.1", text="so far", node_id="n1", session_id="room", utterance_index=7, is_final=True, trace_id="t"
    )
    attempts.finished(KEY, result())
    assert attempts.partial(KEY, "late", is_final=False) == []


def test_what_is_abandoned_goes_elsewhere_and_is_not_answered_again() -> None:
    attempts = joined(max_jobs=3)
    attempts.assigned(assign())
    attempts.assigned(assign("c0.2"))
    attempts.cancelled(("c0.2", 1))
    acts = attempts.abandon("no more time")
    assert kinds(acts) == [Stop, JobNack, Ping]
    assert isinstance(acts[1], Say)
    assert isinstance(acts[1].message, JobNack)
    assert acts[1].message.reason == "NODE_OVERLOADED: no more time"
    assert attempts.finished(KEY, result()) == []
    assert kinds(attempts.finished(("c0.2", 1), result("c0.2"))) == [JobStopped]
    attempts.ponged(number(acts[2]))
    assert attempts.is_idle
