from __future__ import annotations

import json
from typing import Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.wanted import USUAL_WANTED
from lingua_scheduler.protocol.codec import Reader, Undecodable, encode
from lingua_scheduler.protocol.failures import failing
from lingua_scheduler.protocol.fields import RunningAttempt
from lingua_scheduler.protocol.http import (
    AudioAnswer,
    DispatchAnswer,
    FailAnswer,
    HeartbeatAnswer,
    OkAnswer,
    PollAnswer,
    RegisterAnswer,
    StateAnswer,
    beating,
    read_attempt,
    read_cancel,
    read_dispatch,
    read_done,
    read_fail,
    read_heartbeat,
    read_offline,
    read_poll,
    read_register,
)
from lingua_scheduler.protocol.options import limits_of, services_of, wanted_of
from lingua_scheduler.protocol.registration import registering

REGISTER = """
{"node_id": "node-123", "health": "ready", "semantic_langs": ["en","zh"], "asr_langs": ["en","zh"],
 "nmt_pairs": [["en","zh"],["zh","en"]], "tts_langs": ["en","zh"], "max_concurrent_jobs": 2,
 "services": {"asr": true, "nmt": true, "tts": true, "semantic": true, "tone": false},
 "labels": {"region": "eu"}, "epoch": null, "process_id": null, "running": []}
"""
DISPATCH = """
{"session_id": "room-888", "src_lang": "en", "tgt_lang": "zh", "audio_ref": "blob://…", "utterance_index": null,
 "request_id": "optional", "payload": {"anything": "handed to the node as it is"},
 "options": {"require_tts": false, "preferred_node_id": null, "strict": false, "exclude_node_ids": [], "labels": {},
             "policy": null, "bind_key": null, "wait_ms": 0, "timeout_ms": 60000}}
"""
ATTEMPT = {"job_id": "c0.1", "attempt_id": 1, "node_id": "n1"}


def wire(message: Any) -> Any:
    return json.loads(encode(message))


def detail(reader: Reader[Any], said: dict[str, Any]) -> str:
    with pytest.raises(Undecodable) as refused:
        reader(json.dumps(said))
    assert refused.value.refusal.code == "INVALID_MESSAGE"
    return refused.value.refusal.detail


# Nodes.


def test_a_node_registers() -> None:
    request = read_register(REGISTER.encode())
    assert request.node_id == "node-123"
    assert registering(request) == {
        "semantic_langs": ["en", "zh"],
        "asr_langs": ["en", "zh"],
        "nmt_pairs": [("en", "zh"), ("zh", "en")],
        "tts_langs": ["en", "zh"],
        "services": {"asr": True, "nmt": True, "tts": True, "semantic": True, "tone": False},
        "labels": {"region": "eu"},
        "accept_public_jobs": None,
        "running": [],
        "lenient": False,
        "max_concurrent_jobs": 2,
        "health": "ready",
        "epoch": "",
        "process_id": "",
        "acks": True,
        "tells": True,
        "about": "",
    }


def test_a_node_may_register_with_no_name_and_any_pair() -> None:
    request = read_register('{"semantic_langs": ["en"], "nmt_pairs": "any"}')
    assert (request.node_id, request.nmt_pairs) == (None, "any")


def test_too_many_languages_are_for_the_core_to_refuse_with_its_own_code() -> None:
    assert len(read_register(json.dumps({"semantic_langs": ["en"] * 65})).semantic_langs or ()) == 65
    assert len(read_register(json.dumps({"nmt_pairs": [["en", "zh"]] * 1025})).nmt_pairs or ()) == 1025
    assert read_register("{}").semantic_langs is None


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("node_id", "a b", "node_id: expected 1 to 128 of"),
        ("max_concurrent_jobs", 0, "max_concurrent_jobs: expected an integer >= 1"),
        ("max_concurrent_jobs", 1025, "max_concurrent_jobs: expected an integer <= 1024"),
        ("health", "well", "health: 'well' is none of the values"),
        ("nmt_pairs", "all", "nmt_pairs: 'all' is none of the values"),
        ("nmt_pairs", [["en"]], "nmt_pairs[0]: expected a list of length 2"),
        ("semantic_langs", "en", "semantic_langs: expected a list, got a string"),
        ("semantic_langs", [1], "semantic_langs[0]: expected a string, got an integer"),
        ("services", {"asr": "yes"}, "services.asr: expected true or false, got a string"),
        ("labels", {"a": 1}, "labels[...]: expected a string, got an integer"),
        ("epoch", "e" * 65, "epoch: expected a string of length <= 64"),
        ("process_id", "p" * 129, "process_id: expected a string of length <= 128"),
        ("running", [{"job_id": "c0.1", "attempt_id": 0}], "running[0].attempt_id: expected an integer >= 1"),
    ],
)
def test_a_registration_that_does_not_fit_is_told_where(field: str, value: object, said: str) -> None:
    assert detail(read_register, {field: value}).startswith(said)


def test_a_node_beats_with_any_field_of_register_and_more() -> None:
    request = read_heartbeat(
        json.dumps(
            json.loads(REGISTER)
            | {"current_load": {"gpu": 0.5, "cpu": 1, "mem": None}, "running": [{"job_id": "c0.1", "attempt_id": 3}]}
        )
    )
    words = beating(request)
    assert words["current_load"] == {"gpu": 0.5, "cpu": 1.0}
    assert (words["running"], words["running_jobs"]) == ([("c0.1", 3)], None)
    assert (words["max_concurrent_jobs"], words["health"], words["tts_langs"]) == (2, "ready", ["en", "zh"])


def test_what_a_node_works_on_has_two_names() -> None:
    running = [{"job_id": "c0.1", "attempt_id": 3}]
    assert beating(read_heartbeat(json.dumps({"node_id": "n", "running_jobs": running})))["running"] == [("c0.1", 3)]
    number = beating(read_heartbeat('{"node_id": "n", "running_jobs": 2}'))
    assert (number["running"], number["running_jobs"]) == (None, 2)
    others: tuple[object, ...] = (2, [])
    for other in others:
        both = beating(read_heartbeat(json.dumps({"node_id": "n", "running": running, "running_jobs": other})))
        assert (both["running"], both["running_jobs"]) == ([("c0.1", 3)], None)
    nothing = beating(read_heartbeat('{"node_id": "n", "running": null, "running_jobs": []}'))
    assert (nothing["running"], nothing["running_jobs"]) == ([], None)


def test_a_heartbeat_names_its_node() -> None:
    assert detail(read_heartbeat, {}) == "node_id: missing"
    assert detail(read_heartbeat, {"node_id": None}) == "node_id: expected a string, got null"
    assert detail(read_heartbeat, {"node_id": "n", "current_load": {"gpu": 50}}).startswith(
        "current_load.gpu: expected"
    )
    assert detail(read_heartbeat, {"node_id": "n", "running_jobs": -1}) == "running_jobs: expected an integer >= 0"


def test_a_node_polls_and_leaves() -> None:
    assert read_poll('{"node_id": "n1", "wait_ms": 25000}').wait_ms == 25_000
    assert read_poll('{"node_id": "n1"}').wait_ms is None
    leaves = {"node_id": "n1", "node_secret": "x"}
    assert wire(read_offline(json.dumps(leaves))) == leaves
    assert detail(read_poll, {"node_id": "n1", "wait_ms": 60_001}) == "wait_ms: expected an integer <= 60000"


def test_what_a_node_is_answered() -> None:
    answer = RegisterAnswer(
        ok=True,
        node_id="n1",
        epoch="1-x",
        cell="c0",
        health="ready",
        heartbeat_interval_ms=15_000,
        node_secret=None,
        pools=["en:zh"],
        warnings=[],
    )
    assert wire(answer) == {
        "ok": True,
        "node_id": "n1",
        "epoch": "1-x",
        "cell": "c0",
        "health": "ready",
        "heartbeat_interval_ms": 15_000,
        "node_secret": None,
        "pools": ["en:zh"],
        "warnings": [],
    }
    beat = HeartbeatAnswer(ok=True, epoch="1-x", cancel=[RunningAttempt(job_id="c0.1", attempt_id=2)])
    assert wire(beat) == {"ok": True, "epoch": "1-x", "cancel": [{"job_id": "c0.1", "attempt_id": 2}]}
    assert wire(PollAnswer(jobs=[])) == {"jobs": []}
    assert wire(OkAnswer(ok=True)) == {"ok": True}


# Jobs.


def test_a_job_comes_in() -> None:
    request = read_dispatch(DISPATCH.encode())
    assert (request.session_id, request.src_lang, request.tgt_lang) == ("room-888", "en", "zh")
    assert (request.audio_ref, request.utterance_index, request.request_id) == ("blob://…", None, "optional")
    assert request.payload == {"anything": "handed to the node as it is"}
    services = services_of(None, request.options)
    assert wanted_of(request.options, services) is USUAL_WANTED
    assert limits_of(request.options, Limits()) == Limits()


def test_the_same_body_is_the_same_whatever_is_left_to_its_default() -> None:
    bare = read_dispatch('{"session_id": "s", "src_lang": "en", "tgt_lang": "zh"}')
    full = read_dispatch(
        '{"tgt_lang": "zh", "src_lang": "en", "session_id": "s", "options": {"strict": false, "wait_ms": 0}, "x": 1}'
    )
    assert wanted_of(bare.options, services_of(None, bare.options)) == wanted_of(
        full.options, services_of(None, full.options)
    )


def test_a_payload_is_handed_on_as_it_is() -> None:
    payload = {"z": [1, 2.5, True, None, {"ü": "早"}], "a": 2**70, "é": ""}
    request = read_dispatch(json.dumps({"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "payload": payload}))
    assert request.payload == payload
    assert list(request.payload or ()) == ["z", "a", "é"]
    assert wire(request)["payload"] == payload


def test_a_reference_is_data_and_bounded() -> None:
    said = {"session_id": "s", "src_lang": "en", "tgt_lang": "zh"}
    assert read_dispatch(json.dumps(said | {"audio_ref": "{a}:b c\n"})).audio_ref == "{a}:b c\n"
    assert detail(read_dispatch, said | {"audio_ref": "x" * 2049}) == "audio_ref: expected a string of length <= 2048"
    assert detail(read_dispatch, said | {"request_id": "a/b"}).startswith("request_id: expected 1 to 128 of")
    assert detail(read_dispatch, said | {"utterance_index": -1}) == "utterance_index: expected an integer >= 0"
    assert detail(read_dispatch, said | {"options": {"bind_key": "a:b"}}).startswith("options.bind_key: expected 1 to")
    assert (
        detail(read_dispatch, said | {"options": {"timeout_ms": 0}}) == "options.timeout_ms: expected an integer >= 1"
    )


def test_a_node_speaks_of_its_attempt() -> None:
    request = read_attempt(json.dumps(ATTEMPT))
    assert (request.job_id, request.attempt_id, request.node_id, request.epoch) == ("c0.1", 1, "n1", None)
    for missing in ATTEMPT:
        assert (
            detail(read_attempt, {name: value for name, value in ATTEMPT.items() if name != missing})
            == f"{missing}: missing"
        )


def test_a_job_is_done_unless_the_status_says_otherwise() -> None:
    request = read_done(json.dumps(ATTEMPT | {"status": "ok", "result": {"text_translated": "早"}}))
    assert (request.succeeded, request.result) == (True, {"text_translated": "早"})
    assert read_done(json.dumps(ATTEMPT)).succeeded
    assert read_done(json.dumps(ATTEMPT | {"status": None})).succeeded
    failed = read_done(json.dumps(ATTEMPT | {"status": "error", "reason": "no audio"}))
    assert not failed.succeeded
    assert failing(failed) == {"reason": "no audio", "overloaded": False, "retry_after_ms": 0}


def test_a_job_fails_with_its_reason() -> None:
    request = read_fail(json.dumps(ATTEMPT | {"status": "error", "reason": "NODE_OVERLOADED", "retry_after_ms": 300}))
    assert failing(request) == {"reason": "NODE_OVERLOADED", "overloaded": True, "retry_after_ms": 300}
    assert failing(read_fail(json.dumps(ATTEMPT)))["reason"] == "the node did not say why"


def test_a_job_is_cancelled() -> None:
    assert read_cancel('{"job_id": "c0.1", "reason": "the caller hung up"}').reason == "the caller hung up"
    assert read_cancel('{"job_id": "c0.1"}').reason is None


def test_what_is_answered_about_a_job() -> None:
    placed = DispatchAnswer(job_id="c0.1", node_id="n1", attempt_id=1, trace_id="t")
    assert wire(placed) == {"job_id": "c0.1", "node_id": "n1", "attempt_id": 1, "trace_id": "t"}
    assert wire(StateAnswer(ok=True, state="ACCEPTED")) == {"ok": True, "state": "ACCEPTED"}
    assert wire(FailAnswer(ok=True, state="RETRYING", attempt_id=2)) == {
        "ok": True,
        "state": "RETRYING",
        "attempt_id": 2,
    }
    assert wire(AudioAnswer(audio_ref="a1")) == {"audio_ref": "a1"}
