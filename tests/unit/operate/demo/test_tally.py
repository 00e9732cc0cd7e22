"""The numbers of a demo: when they add up, and when they do not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from lingua_scheduler.operate.demo.tally import Tally, discrepancies, report
from lingua_scheduler.protocol.session import ServiceTimings
from lingua_scheduler.sdk import Result
from lingua_scheduler.views.counts import Counts

TALLY = Tally(submitted=14, done=8, failed_by=Counter(JOB_FAILED=2, JOB_TIMEOUT=1, NO_AVAILABLE_NODE=3))
COUNTS = Counts(
    accepted=11,
    ended={"FINISHED": 8, "FAILED": 2, "CANCELLED": 0, "EXPIRED": 1},
    refused={},
    pool_empty=0,
    waited_in_vain=0,
    tries=20,
    reserved=17,
    waited=0,
    waited_again=0,
    attempts={},
    retries={},
    retried=6,
)


def counted(accepted: int = 11, **ended: int) -> Counts:
    return msgspec.structs.replace(COUNTS, accepted=accepted, ended=COUNTS.ended | ended)


def test_what_adds_up() -> None:
    assert discrepancies(TALLY, COUNTS) == []
    said = report(TALLY, COUNTS)
    assert said["submitted"] == said["ended"] == said["done"] + said["failed"] == 14
    assert said["refused"] == 3
    assert said["others"] == 0
    assert said["server"] == {
        "accepted": 11,
        "finished": 8,
        "failed": 2,
        "cancelled": 0,
        "expired": 1,
        "dispatched": 17,
        "retried": 6,
    }


def test_jobs_of_others_are_told_and_do_no_harm() -> None:
    others = counted(accepted=13, FINISHED=9, FAILED=3)
    assert discrepancies(TALLY, others) == []
    assert report(TALLY, others)["others"] == 2
    # One of them is not done yet.
    assert discrepancies(TALLY, counted(accepted=12)) == []


@pytest.mark.parametrize(
    ("tally", "counts", "said"),
    [
        ({"submitted": 15}, {}, "15 were submitted, and 14 have ended"),
        ({}, {"FINISHED": 7}, "the callers heard of 8 that are FINISHED, the server counts 7"),
        ({}, {"FAILED": 3}, "the callers heard of 2 that are FAILED, the server counts 3"),
        ({}, {"CANCELLED": 1}, "the callers heard of 0 that are CANCELLED, the server counts 1"),
        ({}, {"accepted": 10}, "the server accepted 10, and -1 of them have not ended"),
        ({}, {"EXPIRED": 0}, "the server accepted 11, and 1 of them have not ended"),
    ],
)
def test_what_does_not_add_up_is_said(tally: dict[str, Any], counts: dict[str, Any], said: str) -> None:
    changed = Tally(submitted=tally.get("submitted", 14), done=8, failed_by=TALLY.failed_by)
    assert said in discrepancies(changed, counted(**counts))


def test_times_by_stage() -> None:
    tally = Tally(submitted=100)
    for number in range(100):
        timed = ServiceTimings(asr_ms=number, nmt_ms=10, tts_ms=20)
        tally.hear("en", "zh", Result(0, "hello", "你好", b"", "", "c0.a", "t", timed), 200)
    assert tally.stages()["asr"] == {"p50": 50, "p95": 95}
    assert tally.stages()["nmt"] == {"p50": 10, "p95": 10}
    assert tally.stages()["rest"] == {"p50": 121, "p95": 166}
    assert tally.stages()["answer"] == {"p50": 200, "p95": 200}
    assert tally.open == 0
    assert tally.latest[-1].translated == "你好"


def test_without_any_time_there_is_none() -> None:
    assert Tally().stages()["answer"] == {"p50": 0, "p95": 0}
