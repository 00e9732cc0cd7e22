from __future__ import annotations

from typing import Any

import pytest

from lingua_scheduler.protocol.failures import Failing, failing, missing_service, service_types
from lingua_scheduler.protocol.node import InstalledService, JobError, JobNack, JobResult, NodeError


def nack(reason: str | None = None, **more: Any) -> JobNack:
    return JobNack(job_id="c0.1", attempt_id=1, reason=reason, **more)


def result(error: JobError | None) -> JobResult:
    return JobResult(job_id="c0.1", attempt_id=1, success=False, error=error)


@pytest.mark.parametrize(
    ("message", "reason", "overloaded"),
    [
        (nack("NODE_OVERLOADED"), "NODE_OVERLOADED", True),
        (nack("NODE_OVERLOADED: 3 in the queue"), "NODE_OVERLOADED: 3 in the queue", True),
        (nack("NODE_OVERLOADED_NOT"), "NODE_OVERLOADED_NOT", False),
        (nack("not NODE_OVERLOADED"), "not NODE_OVERLOADED", False),
        (nack("busy"), "busy", False),
        (nack(), "the node did not say why", False),
        (nack(""), "the node did not say why", False),
        (result(None), "the node did not say why", False),
        (result(JobError()), "the node did not say why", False),
        (result(JobError(code="NODE_OVERLOADED")), "NODE_OVERLOADED", True),
        (result(JobError(code="NODE_OVERLOADED", message="busy")), "NODE_OVERLOADED: busy", True),
        (result(JobError(message="no audio")), "no audio", False),
        (result(JobError(code="x", message="y")), "x: y", False),
    ],
)
def test_a_no_is_told_as_the_flow_takes_it(message: JobNack | JobResult, reason: str, overloaded: bool) -> None:
    assert failing(message) == Failing(reason=reason, overloaded=overloaded, retry_after_ms=0)


def test_a_long_reason_is_cut_and_a_long_rest_bounded() -> None:
    told = failing(nack("x" * 10_000, retry_after_ms=10**12))
    assert (len(told["reason"]), told["retry_after_ms"]) == (512, 86_400_000)
    assert failing(nack("x", retry_after_ms=300))["retry_after_ms"] == 300


def test_a_node_says_of_which_type_its_services_are() -> None:
    installed = [
        InstalledService(service_id="asr-1", type="ASR"),
        InstalledService(service_id="vad-1", type="vad"),
        InstalledService(service_id="odd"),
        InstalledService(type="nmt"),
    ]
    assert service_types(installed) == {"asr-1": "asr"}
    assert service_types(None) == {}


@pytest.mark.parametrize(
    ("details", "service"),
    [
        (None, ("", "")),
        ({}, ("", "")),
        ({"service_id": "asr-1"}, ("asr-1", "asr")),
        ({"service_id": "asr-1", "service_type": "nmt"}, ("asr-1", "asr")),
        ({"service_id": "new", "service_type": "NMT"}, ("new", "nmt")),
        ({"service_id": "new"}, ("new", "")),
        ({"service_type": "tts"}, ("", "tts")),
        ({"service_type": "vad"}, ("", "")),
        ({"service_id": 7, "service_type": []}, ("", "")),
        ("asr-1 is gone", ("", "")),
        (["service_id"], ("", "")),
        (7, ("", "")),
        ({"service_id": "x" * 500, "service_type": "asr"}, ("x" * 127 + "…", "asr")),
    ],
)
def test_a_missing_model_is_told_to_the_marker(details: Any, service: tuple[str, str]) -> None:
    types = {"asr-1": "asr"}
    code = "MODEL_NOT_AVAILABLE"
    for message in (
        result(JobError(code=code, details=details)),
        nack(f"{code}: gone", details=details),
        NodeError(code=code, details=details),
    ):
        assert missing_service(message, types) == service


@pytest.mark.parametrize(
    "message", [nack("NODE_OVERLOADED"), nack(), result(None), result(JobError(code="X")), NodeError(code="X")]
)
def test_anything_else_is_nothing_to_the_marker(message: JobNack | JobResult | NodeError) -> None:
    assert missing_service(message) is None
