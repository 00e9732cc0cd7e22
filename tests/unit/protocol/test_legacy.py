from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core.capability import capability, why_no_pool
from lingua_scheduler.core.ids import check_int
from lingua_scheduler.core.node import MAX_ABOUT, MAX_RUNNING, check_about, check_load
from lingua_scheduler.protocol.legacy import Abilities, abilities_of, about_of, beating_node, registering_node
from lingua_scheduler.protocol.node import NodeHeartbeat, NodeRegister, read_from_node

#: As a field node sends it: some of it is in no contract.
REGISTER: dict[str, Any] = {
    "type": "node_register",
    "node_id": None,
    "version": "2.0.0",
    "capability_schema_version": "2.0",
    "platform": "windows",
    "hardware": {"cpu_cores": 16, "memory_gb": 31.8, "gpus": [{"name": "RTX 4060", "memory_gb": 8}]},
    "installed_models": [{"model_id": "m2m100", "kind": "nmt", "src_lang": None, "enabled": True}],
    "installed_services": [
        {"service_id": "asr-1", "type": "asr", "device": "gpu", "status": "running", "version": "1", "mem_mb": 900},
        {"service_id": "vad-1", "type": "vad", "device": "cpu", "status": "stopped", "warmup_ms": 4},
    ],
    "capability_by_type": [
        {"type": "asr", "ready": True, "ready_impl_ids": ["asr-1"]},
        {"type": "nmt", "ready": True},
        {"type": "tts", "ready": False, "reason": "no_running_impl"},
        {"type": "semantic", "ready": True, "reason": None},
        {"type": "vad", "ready": True},
    ],
    "features_supported": {"emotion_detection": False, "persona_adaptation": None},
    "accept_public_jobs": True,
    "language_capabilities": {
        "asr_languages": ["zh", "en"],
        "semantic_languages": ["zh", "en"],
        "tts_languages": ["zh", "en"],
        "semantic_core_ready": True,
        "supported_language_pairs": [{"src": "zh", "tgt": "en"}],
    },
}
HEARTBEAT: dict[str, Any] = {
    "type": "node_heartbeat",
    "node_id": "node-8671C61D",
    "timestamp": 1_700_000_000_000,
    "resource_usage": {
        "cpu_percent": 12.5,
        "gpu_percent": 150,
        "gpu_mem_percent": None,
        "mem_percent": 40,
        "running_jobs": 1,
        "gpu_queue_length": 3,
    },
    "installed_services": REGISTER["installed_services"],
    "capability_by_type": REGISTER["capability_by_type"],
    "processing_metrics": {"serviceEfficiencies": {"asr-1": 3.2}},
    "rerun_metrics": {"totalReruns": 0},
}


def registration(**changed: Any) -> NodeRegister:
    message = read_from_node(json.dumps(REGISTER | changed))
    assert isinstance(message, NodeRegister)
    return message


def heartbeat(**changed: Any) -> NodeHeartbeat:
    message = read_from_node(json.dumps(HEARTBEAT | changed))
    assert isinstance(message, NodeHeartbeat)
    return message


def usage(**said: Any) -> NodeHeartbeat:
    return heartbeat(resource_usage=said)


def test_a_field_node_registers() -> None:
    message = registration()
    words: dict[str, Any] = {**registering_node(message)}
    assert json.loads(words.pop("about"))["hardware"]["gpus"] == [{"name": "RTX 4060", "memory_gb": 8}]
    assert words == {
        "semantic_langs": ["zh", "en"],
        "asr_langs": ["zh", "en"],
        "nmt_pairs": None,
        "tts_langs": ["zh", "en"],
        "services": {"asr": True, "nmt": True, "tts": False, "semantic": True},
        "labels": None,
        "accept_public_jobs": True,
        "running": None,
        "lenient": True,
        "max_concurrent_jobs": 4,
        "health": "registering",
        "epoch": "",
        "process_id": "",
        "acks": False,
        "tells": False,
    }
    assert registering_node(message, slots=7)["max_concurrent_jobs"] == 7


def test_a_field_node_without_languages_registers_all_the_same() -> None:
    for languages in (None, {}, {"semantic_languages": None}):
        words = registering_node(registration(language_capabilities=languages))
        assert (words["semantic_langs"], words["asr_langs"], words["tts_langs"]) == (None, None, None)
        assert words["lenient"]


def test_what_a_field_node_declares_as_empty_is_empty() -> None:
    words = registering_node(registration(language_capabilities={"semantic_languages": [], "asr_languages": []}))
    assert (words["semantic_langs"], words["asr_langs"], words["tts_langs"]) == ([], [], None)


def test_an_unknown_language_of_a_field_node_is_dropped_with_a_warning() -> None:
    words = registering_node(registration(language_capabilities={"semantic_languages": ["zh", "klingon", ""]}))
    word, warnings = capability(semantic_langs=words["semantic_langs"], lenient=words["lenient"])
    assert word == {"semantic": ["zh"], "legacy": True}
    assert len(warnings) == 2


def test_a_field_node_whose_semantic_repair_is_not_ready_has_no_pools_until_it_is() -> None:
    for changed in (
        {"capability_by_type": [{"type": "semantic", "ready": False}]},
        {
            "capability_by_type": [],
            "language_capabilities": {"semantic_languages": ["zh"], "semantic_core_ready": False},
        },
    ):
        words = registering_node(registration(**changed))
        assert words["services"] == {"semantic": False}
        word, _ = capability(semantic_langs=words["semantic_langs"], services=words["services"], lenient=True)
        assert why_no_pool(word) == "no pool: the service semantic is not ready"


def test_what_is_said_of_the_service_counts_more_than_of_the_core() -> None:
    by_type, core = [{"type": "SEMANTIC", "ready": True}], {"semantic_core_ready": False}
    assert registering_node(registration(capability_by_type=by_type, language_capabilities=core))["services"] == {
        "semantic": True
    }


@pytest.mark.parametrize("by_type", [None, [], [{"type": "vad", "ready": True}], [{"type": "asr", "ready": None}]])
def test_who_says_nothing_of_services_has_said_nothing(by_type: object) -> None:
    assert beating_node(heartbeat(capability_by_type=by_type))["services"] is None


def test_a_service_is_ready_if_one_who_can_do_it_is() -> None:
    for states in ([True, False], [False, True]):
        by_type = [{"type": "asr", "ready": ready} for ready in states]
        assert beating_node(heartbeat(capability_by_type=by_type))["services"] == {"asr": True}


def test_our_own_fields_count_more_than_the_legacy_ones() -> None:
    ours: dict[str, Any] = {
        "semantic_langs": ["fr"],
        "asr_langs": [],
        "tts_langs": ["de"],
        "nmt_pairs": [["fr", "de"]],
        "services": {"asr": False},
        "labels": {"group": "a"},
        "max_concurrent_jobs": 9,
        "health": "ready",
        "epoch": "e1",
        "process_id": "p1",
        "running": [{"job_id": "c0.1", "attempt_id": 1}],
    }
    words: dict[str, Any] = {**registering_node(registration(**ours))}
    assert {name: words[name] for name in ours} == ours | {"running": [("c0.1", 1)], "nmt_pairs": [("fr", "de")]}
    assert words["lenient"] is False


def test_what_a_node_lists_it_can_do() -> None:
    assert abilities_of(registration()) == Abilities(False, False, False, False, False)
    listed = ["job_ack", "job_started", "job_stopped", "audio_ref", "binary_audio", "tea"]
    message = registration(advanced_features=listed)
    assert abilities_of(message) == Abilities(True, True, True, True, True)
    assert (registering_node(message)["acks"], registering_node(message)["tells"]) == (True, True)
    one = abilities_of(registration(advanced_features=["job_stopped"]))
    assert one == Abilities(acks=False, starts=False, tells=True, audio_ref=False, binary_audio=False)


def test_a_field_node_beats() -> None:
    assert beating_node(heartbeat()) == {
        "semantic_langs": None,
        "asr_langs": None,
        "nmt_pairs": None,
        "tts_langs": None,
        "services": {"asr": True, "nmt": True, "tts": False, "semantic": True},
        "labels": None,
        "accept_public_jobs": None,
        "running": None,
        "lenient": True,
        "max_concurrent_jobs": None,
        "health": None,
        "current_load": {"cpu": 0.125, "gpu": 1.0, "mem": 0.4},
        "running_jobs": 1,
    }


def test_the_first_heartbeat_makes_a_field_node_ready_unless_it_says_more() -> None:
    assert beating_node(heartbeat(), first=True)["health"] == "ready"
    assert beating_node(heartbeat(health="degraded"), first=True)["health"] == "degraded"


def test_a_change_of_languages_may_come_with_a_heartbeat() -> None:
    words = beating_node(heartbeat(language_capabilities={"semantic_languages": ["zh"], "tts_languages": []}))
    assert (words["semantic_langs"], words["asr_langs"], words["tts_langs"]) == (["zh"], None, [])


@pytest.mark.parametrize(("said", "number"), [(0, 0), (2, 2), (1.5, 2), (-1, None), (None, None), (1e12, MAX_RUNNING)])
def test_how_many_jobs_a_field_node_runs_is_never_guessed_too_low(said: float | None, number: int | None) -> None:
    assert beating_node(usage(running_jobs=said))["running_jobs"] == number


def test_who_lists_his_jobs_need_not_count_them() -> None:
    words = beating_node(heartbeat(running=[]))
    assert (words["running"], words["running_jobs"]) == ([], None)


def test_a_load_is_a_share_whatever_the_node_says() -> None:
    words = beating_node(usage(cpu_percent=-3, gpu_percent=1e9, mem_percent=None))
    assert words["current_load"] == {"cpu": 0.0, "gpu": 1.0}
    assert check_load(words["current_load"]) == [("cpu", 0.0), ("gpu", 1.0)]
    silent = beating_node(heartbeat(resource_usage=None))
    assert (silent["current_load"], silent["running_jobs"]) == (None, None)


numbers = st.none() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)


@given(cpu=numbers, gpu=numbers, mem=numbers, running=numbers)
def test_any_number_of_a_field_node_can_be_told(
    cpu: float | None, gpu: float | None, mem: float | None, running: float | None
) -> None:
    words = beating_node(usage(cpu_percent=cpu, gpu_percent=gpu, mem_percent=mem, running_jobs=running))
    assert len(check_load(words["current_load"])) == 3 - [cpu, gpu, mem].count(None)
    assert words["running_jobs"] is None or check_int("running_jobs", words["running_jobs"], 0, MAX_RUNNING) >= 0


def test_what_is_only_shown_is_kept() -> None:
    about = json.loads(about_of(registration()))
    shown = ("version", "platform", "capability_schema_version", "hardware", "features_supported", "installed_models")
    assert {name: about[name] for name in shown} == {name: REGISTER[name] for name in shown}
    assert [one["service_id"] for one in about["installed_services"]] == ["asr-1", "vad-1"]
    assert about_of(NodeRegister()) == ""


@pytest.mark.parametrize("models", [10, 1_000, 19_000])
def test_too_much_to_show_keeps_no_node_out(models: int) -> None:
    about = about_of(registration(installed_models=[{"model_id": "早" * 40}] * models))
    assert check_about(about) == about
    assert json.loads(about)["version"] == "2.0.0"
    assert ("installed_models" in json.loads(about)) == (models == 10)


def test_what_is_shown_fits_to_the_last_character() -> None:
    room = MAX_ABOUT - len(about_of(NodeRegister(version="", installed_models=[""])))
    fits = NodeRegister(version="", installed_models=["x" * room])
    assert len(about_of(fits)) == MAX_ABOUT
    assert about_of(NodeRegister(version="", installed_models=["x" * (room + 1)])) == '{"version":""}'
