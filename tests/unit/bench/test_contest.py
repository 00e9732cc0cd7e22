from __future__ import annotations

from typing import Any

from bench.contest import OURS, PEERS, figures


def _ours(http: float, session: float, latency_ms: float) -> dict[str, Any]:
    spent = {"scheduler": 500.0, "client": 50.0, "engine": 200.0}
    ways = {name: {"jobs_per_s": speed, "cpu_us": spent} for name, speed in (("http", http), ("session", session))}
    return ways | {"latencies_ms": [latency_ms] * 10}


def _peer(speed: float, latency_ms: float) -> dict[str, Any]:
    spent = {"worker": 100.0, "client": 100.0, "engine": 100.0}
    return {"jobs_per_s": speed, "latencies_ms": [latency_ms] * 10, "cpu_us": spent, "version": "1.0"}


def _contest() -> dict[str, list[dict[str, Any] | None]]:
    found: dict[str, list[dict[str, Any] | None]] = {
        name: [_peer(100 + place, 5), _peer(100 + place, 5)] for place, name in enumerate(PEERS)
    }
    return found | {OURS: [_ours(900, 450, 1), _ours(1100, 450, 9)], "nats": [_peer(10_000, 0.5), None]}


def test_the_better_way_is_held_against_everybody() -> None:
    told = figures(_contest())
    assert (told["jobs_per_s"], told["jobs_per_s_by_way"]) == (1000, {"http": 1000, "session": 450})
    assert told["jobs_per_scheduler_cpu_s"] == 2000
    assert told["vs_arq_ratio"] == 10.0
    assert told["vs_best_peer_ratio"] == round((900 / 105 + 1100 / 105) / 2, 2)
    assert told["vs_nats_ratio"] == 0.09  # of the one round in which both came through
    assert told["latency_ms"] == {"p50": 5, "p90": 5, "p99": 5}
    assert told["latency_rounds_won"] == 1
    assert list(told["peers"]) == list(PEERS)
    assert {"jobs_per_s", "p50_ms", "p90_ms", "p99_ms", "version"} <= set(told["peers"]["huey"])


def test_a_peer_that_is_not_here_leaves_no_ratio_that_could_be_wrong() -> None:
    found = _contest()
    del found["arq"], found["nats"]
    told = figures(found)
    assert "arq" not in told["peers"]
    assert told["nats"] is None
    names = ("vs_arq_ratio", "vs_best_peer_ratio", "vs_nats_ratio", "latency_rounds_won")
    assert [told[name] for name in names] == [None] * 4
    assert told["jobs_per_s"] == 1000


def test_nothing_is_said_of_us_if_we_never_came_through() -> None:
    found = _contest()
    del found[OURS]
    told = figures(found)
    names = ("jobs_per_s", "jobs_per_scheduler_cpu_s", "vs_arq_ratio", "vs_best_peer_ratio", "vs_nats_ratio")
    assert [told[name] for name in names] == [None] * 5
    assert told["latency_ms"] == {"p50": None, "p90": None, "p99": None}
    assert told["latency_rounds_won"] is None
