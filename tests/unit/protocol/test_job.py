from __future__ import annotations

import json
from typing import Any

import msgspec

from lingua_scheduler.core.records import JobRecord, Past, PastAttempt, Ticket
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.job import JobAnswer, job_answer, job_summary

TICKET = Ticket("c0.1", "s1", 7, "en:zh", "", 1, 2, 3, 2, 0, "t1", 0, 0, 0, [])
FIRST = PastAttempt(1, "n1", "ack_timeout", 130, "RETRYING", 2, 110)
JOB = JobRecord("RUNNING", 2, "n2", "e2", 1, 900, 2, 0, 100, 140, 150, 160, 170, 0, Past(attempts=[FIRST]), 0)


def shown(job: JobRecord, result: str = "", *, internals: bool = True) -> Any:
    return json.loads(encode(job_answer(job, TICKET, result, internals=internals)))


def test_everything_known_of_a_job_is_told() -> None:
    assert shown(JOB) == {
        "job_id": "c0.1",
        "session_id": "s1",
        "utterance_index": 7,
        "src_lang": "en",
        "tgt_lang": "zh",
        "state": "RUNNING",
        "attempt_id": 2,
        "node_id": "n2",
        "attempts": [
            {"attempt_id": 1, "node_id": "n1", "reserved_at_ms": 110, "end": "ack_timeout", "ended_at_ms": 130},
            {"attempt_id": 2, "node_id": "n2", "reserved_at_ms": 140, "end": ""},
        ],
        "timings": {
            "created_at_ms": 100,
            "deadline_at_ms": 900,
            "reserved_at_ms": 140,
            "dispatched_at_ms": 150,
            "accepted_at_ms": 160,
            "started_at_ms": 170,
        },
        "result": None,
        "trace_id": "t1",
    }


def test_a_session_does_not_learn_on_which_nodes_its_job_was() -> None:
    told = shown(JOB, internals=False)
    assert "node_id" not in told
    assert [set(attempt) & {"node_id"} for attempt in told["attempts"]] == [set(), set()]
    assert (told["state"], told["attempt_id"], len(told["attempts"])) == ("RUNNING", 2, 2)


def test_a_result_is_told_as_it_was_given() -> None:
    done = msgspec.structs.replace(JOB, state="FINISHED", ended_at_ms=200)
    told = shown(done, '{"text_translated":"早上好"}')
    assert told["result"] == {"text_translated": "早上好"}
    assert (told["timings"]["ended_at_ms"], told["attempts"][1]["end"]) == (200, "FINISHED")
    assert "error" not in told


def test_a_bad_end_has_its_code_and_its_reason() -> None:
    past = Past(attempts=[FIRST], reason="no audio", released_at_ms=250)
    failed = shown(msgspec.structs.replace(JOB, state="FAILED", past=past))
    assert (failed["error"], failed["reason"], failed["timings"]["released_at_ms"]) == ("JOB_FAILED", "no audio", 250)
    assert shown(msgspec.structs.replace(JOB, state="EXPIRED"))["error"] == "JOB_TIMEOUT"
    assert "error" not in shown(msgspec.structs.replace(JOB, state="CANCELLED"))


def test_a_job_that_waits_has_no_node() -> None:
    waiting = msgspec.structs.replace(JOB, state="WAITING", attempt=0, node="", past=Past())
    assert "node_id" not in shown(waiting)
    assert shown(waiting)["attempts"] == []


def test_the_other_end_can_read_it() -> None:
    answer = msgspec.json.decode(encode(job_answer(JOB, TICKET, '{"x":1}')), type=JobAnswer)
    assert (answer.result, answer.attempts[0].end) == ({"x": 1}, "ack_timeout")


def test_an_operator_learns_in_which_cell_it_was_a_guest_and_nobody_else() -> None:
    past = Past(attempts=[msgspec.structs.replace(FIRST, cell="c1")])
    job = msgspec.structs.replace(JOB, past=past, cell="c2")
    assert [attempt["guest_in"] for attempt in shown(job)["attempts"]] == ["c1", "c2"]
    assert not any("guest_in" in attempt for attempt in shown(job, internals=False)["attempts"])


def test_a_job_at_a_glance_says_why_its_last_attempt_ended_and_at_last_why_it_did() -> None:
    told = json.loads(encode(job_summary(JOB, TICKET)))
    assert told == {
        "job_id": "c0.1",
        "session_id": "s1",
        "utterance_index": 7,
        "src_lang": "en",
        "tgt_lang": "zh",
        "state": "RUNNING",
        "attempts": 2,
        "created_at_ms": 100,
        "node_id": "n2",
        "reason": "ack_timeout",
    }
    second = PastAttempt(2, "n2", "failed", 190, "FAILED", 2, 140)
    over = Past(attempts=[FIRST, second], reason="BROKEN")
    failed = job_summary(msgspec.structs.replace(JOB, state="FAILED", ended_at_ms=190, past=over), TICKET)
    assert (failed.attempts, failed.error, failed.reason, failed.ended_at_ms) == (2, "JOB_FAILED", "BROKEN", 190)
    done = job_summary(msgspec.structs.replace(JOB, state="FINISHED", ended_at_ms=200), TICKET)
    assert (done.attempts, done.error, done.reason) == (2, None, None)
