from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core import errors as broken
from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown, ScriptFailed
from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.refusal import CODES, Breakdown, Refusal, refuse
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import (
    CLOSES,
    END_CODES,
    RESULT_CODES,
    CloseCode,
    error_message,
    farewell,
    missing_reason,
    refusal_body,
    refusal_of,
    retry_after,
)

if TYPE_CHECKING:
    import msgspec

FULL = Refusal(
    "ALL_CANDIDATES_FULL_OR_FAILED", "3 nodes can serve en:zh; none has a free slot.", Breakdown(3, full=2, not_ready=1)
)


def wire(message: msgspec.Struct) -> Any:
    return json.loads(encode(message))


def test_a_refusal_has_the_shape_of_the_contract() -> None:
    assert wire(refusal_body(FULL, "t1")) == {
        "error": "ALL_CANDIDATES_FULL_OR_FAILED",
        "detail": "3 nodes can serve en:zh; none has a free slot.",
        "retryable": True,
        "retry_after_ms": 250,
        "trace_id": "t1",
        "breakdown": {
            "pool": 3,
            "full": 2,
            "stale": 0,
            "not_ready": 1,
            "draining": 0,
            "resting": 0,
            "marked": 0,
            "excluded": 0,
            "no_service": 0,
            "not_permitted": 0,
        },
    }


def test_a_refusal_that_is_final_says_only_that() -> None:
    assert wire(refusal_body(refuse("UNKNOWN_JOB", job_id="c0.1"))) == {
        "error": "UNKNOWN_JOB",
        "detail": "There is no job c0.1, or its record has expired.",
        "retryable": False,
    }


def test_on_a_socket_the_same_is_said_with_the_legacy_names_too() -> None:
    said, body = wire(error_message(FULL, "t1")), wire(refusal_body(FULL, "t1"))
    assert said == body | {
        "type": "error",
        "error": "NO_AVAILABLE_NODE",
        "code": "NO_AVAILABLE_NODE",
        "message": body["detail"],
        "details": body["breakdown"],
    }


@pytest.mark.parametrize("code", sorted(set(CODES) - {"ALL_CANDIDATES_FULL_OR_FAILED"}))
def test_every_other_code_is_the_same_on_a_socket(code: str) -> None:
    said = wire(error_message(Refusal(code, "why")))
    assert (said["error"], said["code"], said["message"], said["retryable"]) == (
        code,
        code,
        "why",
        CODES[code].retryable,
    )
    assert "details" not in said
    assert "trace_id" not in said


def test_who_knows_better_when_to_come_again_says_so() -> None:
    limited = refuse("RATE_LIMITED")
    assert retry_after(refusal_body(limited)) == "1"
    assert retry_after(refusal_body(limited, retry_after_ms=1001)) == "2"
    assert error_message(limited, retry_after_ms=40).retry_after_ms == 40
    assert refusal_body(limited, retry_after_ms=0).retry_after_ms == 0
    assert retry_after(refusal_body(refuse("FORBIDDEN"))) is None


def test_an_unknown_outcome_comes_with_the_id_to_ask_again() -> None:
    refusal = refusal_of(OutcomeUnknown("the reply was lost", "r1"))
    assert wire(refusal_body(refusal, request_id="r1"))["request_id"] == "r1"
    assert wire(error_message(refusal, request_id="r1"))["request_id"] == "r1"
    assert "request_id" in refusal.detail
    # Of what nobody can name there is none, and nobody is told of one.
    assert "request_id" not in refusal_of(OutcomeUnknown("the reply was lost")).detail


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (DependencyDown("OOM", "secret-host:6379 is full"), "SCHEDULER_DEPENDENCY_DOWN", 503),
        (OutcomeUnknown("secret-host"), "OUTCOME_UNKNOWN", 503),
        (ScriptFailed("secret-host"), "INTERNAL", 500),
        (LinguaError("secret-host"), "INTERNAL", 500),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_broke_is_a_code_that_tells_no_secrets(error: LinguaError, code: str, status: int) -> None:
    refusal = refusal_of(error)
    assert (refusal.code, refusal.status, refusal.retryable) == (code, status, error.retryable)
    assert "secret" not in refusal.detail


def test_every_exception_has_a_code() -> None:
    kinds = [kind for kind in vars(broken).values() if isinstance(kind, type) and issubclass(kind, LinguaError)]
    assert {kind.code for kind in kinds} <= set(CODES)


def test_an_end_without_a_result_has_its_code_and_its_reason() -> None:
    assert set(END_CODES) == set(ENDS) - {"FINISHED", "CANCELLED"}
    assert set(END_CODES.values()) <= set(RESULT_CODES)
    assert [missing_reason(end) for end in ("FAILED", "EXPIRED", "CANCELLED")] == [
        "job_failed",
        "job_timeout",
        "cancelled",
    ]


def test_a_refused_utterance_has_a_reason_too() -> None:
    assert missing_reason("ALL_CANDIDATES_FULL_OR_FAILED") == missing_reason("PREFERRED_NODE_UNAVAILABLE")
    assert missing_reason("ALL_CANDIDATES_FULL_OR_FAILED") == "no_available_node"
    assert missing_reason("NO_CAPABLE_NODE") == missing_reason("PREFERRED_NODE_NOT_CAPABLE") == "no_capable_node"
    assert missing_reason("RATE_LIMITED") == "rate_limited"


def test_the_close_codes_are_those_of_the_contract() -> None:
    assert sorted(CloseCode) == [
        *(1000, 1001, 1007, 1008, 1009, 1011, 1012, 1013),
        *(4400, 4401, 4403, 4404, 4408, 4409, 4429, 4503),
    ]
    assert set(CLOSES) == set(CloseCode)


def test_an_error_goes_out_before_every_close_but_a_peaceful_one() -> None:
    quiet = {code for code in CloseCode if farewell(code) is None}
    assert quiet == {CloseCode.DONE, CloseCode.GOING_AWAY}
    for code in set(CloseCode) - quiet:
        said = farewell(code, trace_id="t1")
        assert said is not None
        assert (said.code, said.detail, said.trace_id) == (CLOSES[code].error, CODES[CLOSES[code].error].detail, "t1")


def test_a_farewell_may_say_more() -> None:
    said = farewell(CloseCode.TIMEOUT, "No node_register came within 10 s.")
    assert said is not None
    assert said.message == "No node_register came within 10 s."


def test_a_farewell_says_when_to_come_again() -> None:
    usual, known = farewell(CloseCode.RATE_LIMITED), farewell(CloseCode.RATE_LIMITED, after_ms=7)
    assert usual is not None
    assert known is not None
    assert (usual.retry_after_ms, known.retry_after_ms) == (1_000, 7)
