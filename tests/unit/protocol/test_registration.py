from __future__ import annotations

import inspect
from typing import Any

import pytest

from lingua_scheduler.core.capability import SERVICES, capability
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.register import register
from lingua_scheduler.protocol.fields import RunningAttempt
from lingua_scheduler.protocol.http import HeartbeatRequest, RegisterRequest, beating
from lingua_scheduler.protocol.registration import Beating, Declaration, Registering, Services, registering


@pytest.mark.parametrize(("words", "flow"), [(Registering, register), (Beating, heartbeat)])
def test_the_words_are_keywords_of_their_flow(words: Any, flow: Any) -> None:
    """What is not among them, the door itself knows."""
    known = set(inspect.signature(flow).parameters)
    assert set(words.__annotations__) <= known
    assert known - set(words.__annotations__) <= {
        "engine",
        "cell",
        "node_id",
        "epoch",
        "connection",
        "credential",
        "nonce",
        "renewed_by",
        "opened_ms",
        "said_ms",
        "stamp",
    }


def test_the_services_are_those_of_the_core() -> None:
    assert set(Services.__struct_fields__) == set(SERVICES)
    assert Services(asr=True, tts=False).said() == {"asr": True, "tts": False}
    assert Services().said() == {}


def test_what_a_node_does_not_say_has_its_default() -> None:
    assert registering(RegisterRequest(semantic_langs=["en"])) == {
        "semantic_langs": ["en"],
        "asr_langs": None,
        "nmt_pairs": None,
        "tts_langs": None,
        "services": None,
        "labels": None,
        "accept_public_jobs": None,
        "running": None,
        "lenient": False,
        "max_concurrent_jobs": 4,
        "health": "ready",
        "epoch": "",
        "process_id": "",
        "acks": True,
        "tells": True,
        "about": "",
    }
    assert registering(RegisterRequest(), slots=9)["max_concurrent_jobs"] == 9


def test_what_a_node_says_is_told() -> None:
    said = registering(
        Declaration(
            semantic_langs=["en", "zh"],
            asr_langs=["en"],
            nmt_pairs=[("en", "zh"), ("*", "en")],
            tts_langs=[],
            services=Services(asr=True),
            labels={"region": "eu"},
            accept_public_jobs=False,
            running=[RunningAttempt(job_id="c0.1", attempt_id=2)],
            max_concurrent_jobs=2,
            health="draining",
            epoch="e1",
            process_id="p1",
        )
    )
    assert (said["max_concurrent_jobs"], said["health"], said["epoch"], said["process_id"]) == (
        2,
        "draining",
        "e1",
        "p1",
    )
    assert said["running"] == [("c0.1", 2)]
    word, warnings = capability(
        **{name: said[name] for name in inspect.signature(capability).parameters}  # type: ignore[literal-required]
    )
    assert word == {
        "semantic": ["en", "zh"],
        "legacy": False,
        "asr": ["en"],
        "nmt": ["*:en", "en:zh"],
        "tts": [],
        "services": [("asr", True)],
        "labels": [("region", "eu")],
        "public": False,
    }
    assert warnings == []


def test_a_heartbeat_that_says_nothing_changes_nothing() -> None:
    words: dict[str, Any] = {**beating(HeartbeatRequest(node_id="n"))}
    assert words.pop("lenient") is False
    assert set(words.values()) == {None}
