from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from lingua_scheduler.core.catalog import read_catalog
from lingua_scheduler.core.records import Mark, NodeRecord, Profile, Standing
from lingua_scheduler.protocol.codec import Undecodable, encode
from lingua_scheduler.protocol.fleet import (
    FleetHealth,
    IntentAnswer,
    JobNumbers,
    NodesAnswer,
    PairingAnswer,
    Percentiles,
    PoolAnswer,
    PoolNumbers,
    PoolsAnswer,
    SlotNumbers,
    StatsAnswer,
    node_answer,
    node_summary,
    read_max,
)

NODE = NodeRecord(
    1, 4, 99, 0, 0, 0, 1, 3, Standing.available, "e1", "ready", "active", 0, 0, 0, 0, 1, 1, 4, 0, 0, 0, 4, 0, ""
)
PROFILE = Profile(
    *("secret", "p1", "conn", 50, ["en"], ["en"], ["*:zh", "en:fr"], False, [("asr", True)], [("region", "eu")], True),
    *([("gpu", 0.5)], '{"version":"1"}', "", [Mark("asr-1", "asr", 60, 120)], 0, 1, False, 49),
)
GLANCE = {
    "node_id": "n1",
    "standing": "available",
    "reported": "ready",
    "intent": "active",
    "health": 95,
    "used": 1,
    "max": 4,
    "free": 3,
    "limbo": 1,
    "seen_at_ms": 99,
    "failures": 0,
    "rest_until_ms": 0,
    "suspect": False,
}


def wire(message: Any) -> Any:
    return json.loads(encode(message))


def test_a_node_at_a_glance() -> None:
    assert wire(node_summary("n1", NODE)) == GLANCE
    crowded = msgspec.structs.replace(NODE, used=6, ceiling=6)
    assert node_summary("n1", crowded).free == 0
    assert node_summary("n1", msgspec.structs.replace(NODE, recent=0b10101)).suspect
    assert wire(NodesAnswer(nodes=[node_summary("n1", NODE)], cursor="7")) == {"nodes": [GLANCE], "cursor": "7"}
    assert wire(NodesAnswer(nodes=[])) == {"nodes": []}


def test_everything_known_of_a_node_but_its_secrets() -> None:
    leases = [("n1:c0.1:2", 0), ("n1:c0.2:1", 70)]
    told = wire(node_answer("n1", NODE, PROFILE, ["en:zh"], leases, None))
    assert told == GLANCE | {
        "max_override": None,
        "instance_id": None,
        "epoch": "e1",
        "registered_at_ms": 50,
        "pools": ["en:zh"],
        "leases": [
            {"job_id": "c0.1", "attempt_id": 2},
            {"job_id": "c0.2", "attempt_id": 1, "fenced_at_ms": 70},
        ],
        "semantic_langs": ["en"],
        "asr_langs": ["en"],
        "nmt_pairs": [["*", "zh"], ["en", "fr"]],
        "tts_langs": None,
        "services": {"asr": True},
        "labels": {"region": "eu"},
        "accept_public_jobs": True,
        "current_load": {"gpu": 0.5},
        "marks": [{"service": "asr-1", "type": "asr", "until_ms": 120}],
        "installed": [],
        "about": {"version": "1"},
    }
    assert "secret" not in json.dumps(told)


def test_what_a_node_has_installed_is_compared_with_the_catalog() -> None:
    said = {"installed_services": [{"service_id": "asr-1", "version": "1.2"}, {"service_id": "tts-1"}, {"type": "nmt"}]}
    profile = msgspec.structs.replace(PROFILE, about=json.dumps(said))
    catalog = read_catalog(b'{"services": [{"service_id": "asr-1", "version": "1.10"}]}')
    told = wire(node_answer("n1", NODE, profile, [], [], catalog))
    assert told["installed"] == [
        {"service_id": "asr-1", "status": "outdated", "version": "1.2", "latest": "1.10"},
        {"service_id": "tts-1", "status": "unknown"},
    ]
    told = wire(node_answer("n1", NODE, profile, [], [], None))
    assert [one["status"] for one in told["installed"]] == ["unknown", "unknown"]


def test_what_the_operator_lets_a_node_have_is_shown_beside_what_it_has() -> None:
    limited = msgspec.structs.replace(NODE, max=2, limit=2)
    told = wire(node_answer("n1", limited, PROFILE, [], [], None))
    assert (told["max"], told["free"], told["max_override"]) == (2, 1, 2)


@pytest.mark.parametrize(("nmt", "told"), [(True, "any"), (False, None), ([], [])])
def test_pairs_are_shown_as_they_were_declared(nmt: list[str] | bool, told: object) -> None:
    profile = msgspec.structs.replace(PROFILE, nmt=nmt, about="")
    answer = wire(node_answer("n1", NODE, profile, [], [], None))
    assert (answer["nmt_pairs"], answer["about"]) == (told, None)


def test_the_numbers_of_the_fleet_are_those_of_the_contract() -> None:
    stats = StatsAnswer(
        generated_at_ms=1,
        age_ms=2,
        health=FleetHealth(ok=True, problems=[]),
        nodes={"available": 1},
        slots=SlotNumbers(total=4, used=1, free=3),
        pools=[PoolNumbers(pair="en:zh", nodes=1, living=1, slots=4, free=3, waiting=0)],
        jobs=JobNumbers(in_flight=1, waiting=0, finished_total=9, failed_total=0),
        sessions=1,
        instances=2,
        dispatch_ms=Percentiles(p50=0.5, p95=None, p99=None),
    )
    assert wire(stats) == {
        "generated_at_ms": 1,
        "age_ms": 2,
        "health": {"ok": True, "problems": []},
        "nodes": {"available": 1},
        "slots": {"total": 4, "used": 1, "free": 3},
        "pools": [{"pair": "en:zh", "nodes": 1, "living": 1, "slots": 4, "free": 3, "waiting": 0}],
        "jobs": {"in_flight": 1, "waiting": 0, "finished_total": 9, "failed_total": 0},
        "sessions": 1,
        "instances": 2,
        "dispatch_ms": {"p50": 0.5, "p95": None, "p99": None},
    }


def test_pools_and_what_the_operator_did() -> None:
    pool = {"pair": "en:zh", "nodes": 2, "living": 2, "standing": {"full": 2}}
    assert wire(PoolsAnswer(pools=[msgspec.convert(pool, PoolAnswer)])) == {"pools": [pool]}
    intent = {"ok": True, "node_id": "n1", "intent": "draining"}
    assert wire(msgspec.convert(intent, IntentAnswer)) == intent
    pairing = {"node_id": "n1", "pairing_code": "012345", "expires_in_ms": 300_000}
    assert wire(msgspec.convert(pairing, PairingAnswer)) == pairing


def test_an_override_has_the_bounds_of_a_registration_and_is_taken_away_only_in_so_many_words() -> None:
    assert read_max('{"max_concurrent_jobs": 7}').max_concurrent_jobs == 7
    assert read_max('{"max_concurrent_jobs": null}').max_concurrent_jobs is None
    for wrong in ("{}", '{"max_concurrent_jobs": 0}', '{"max_concurrent_jobs": 1025}', '{"max_concurrent_jobs": "7"}'):
        with pytest.raises(Undecodable, match=r"^max_concurrent_jobs: "):
            read_max(wrong)


def test_a_lease_of_a_job_of_another_cell_is_a_guest() -> None:
    leases = [("n1:c0.a:1", 0), ("n1:c1.b:2", 0)]
    told = wire(node_answer("n1", NODE, PROFILE, [], leases, None, ["n1:c1.b:2"]))
    assert told["leases"] == [
        {"job_id": "c0.a", "attempt_id": 1},
        {"job_id": "c1.b", "attempt_id": 2, "guest": True},
    ]
