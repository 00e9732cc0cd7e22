"""Each bench runs to its end and says all that it promises; that its figures are good is not asked here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from bench.cluster.__main__ import KEYS

PATIENCE_S = 120


def brief(what: str, *arguments: str) -> dict[str, Any]:
    """The last line of a bench that does very little of each."""
    ran = subprocess.run(
        [sys.executable, "-m", f"bench.{what}", "--json", *arguments],
        env=os.environ | {"BENCH_BRIEF": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    assert "broke off" not in ran.stderr, ran.stderr
    return found


def test_the_state_engine() -> None:
    found = brief("engine")
    for name in ("dispatch_us", "dispatch_ratio", "server_us_per_cycle", "client_vs_redis_py", "bytes_per_node"):
        assert found[name], found
    assert found["bytes_per_job"] > 0
    assert found["retention_keys"]["after_the_fleet_left"] == 1


def test_the_doors() -> None:
    """Those that need nothing that would have to be installed."""
    found = brief("front", "--only", "doors,idle")
    for name in ("livez", "heartbeat", "http_job", "socket_job", "session_job"):
        assert found[name]["per_cpu_second"] > 0, found
    assert found["idle_sockets"] == 50
    assert found["bytes_per_socket"] is not None


@pytest.mark.parametrize("part", ["crossing", "nodes", "instances", "failover", "primaries"])
def test_several_instances(part: str) -> None:
    found = brief("cluster", "--only", part)
    assert set(KEYS) < set(found)
    told = {name for name, value in found.items() if value is not None} - {"seconds"}
    expected = {
        "crossing": {"complete_job_ms", "cross_instance_added_p50_ms"},
        "nodes": {"node_kills", "node_kill_to_new_assignment_ms", "node_kills_over_1_s"},
        "instances": {"instance_kills", "jobs_under_instance_kills", "jobs_lost_by_instance_kills"},
        "failover": {
            *("failovers", "failover_outage_ms", "cluster_node_timeout_ms"),
            *("jobs_confirmed_under_failover", "jobs_lost_by_failover"),
        },
        "primaries": {
            *("engine_cpu_us_per_job_on_busiest_primary", "busiest_primary_times_primaries"),
            "busiest_primary_times_primaries_max",
        },
    }
    assert told == expected[part], found
    assert not found.get("jobs_lost_by_instance_kills")
    assert not found.get("jobs_lost_by_failover")


def test_what_happens_beside_dispatching() -> None:
    found = brief("guard")
    assert found["storm_events"] > 0
    # However long it takes, nothing is written twice for a node and a service.
    assert 0 < found["storm_mark_writes"] <= found["storm_mark_writes_bound"]
    assert set(found["polls_per_s"]) == {"livez", "stats"}
    assert min(found["polls_per_s"].values()) > 0
    for name in ("dispatch_p50_ms", "polled_dispatch_p50_ms", "engine_calls_per_dispatch", "server_us_per_job"):
        assert all(value > 0 for value in found[name].values()), found
    assert found["silent_line_ns"] >= 0


def test_what_a_very_large_fleet_would_take() -> None:
    found = brief("scale")
    assert all(value > 0 for value in found["costs"].values()), found["costs"]
    assert (found["cells"], found["heartbeats_per_s"]) == (100, 16_667)
    assert found["primaries"] > 0
    assert found["breaks_first"] in found["engine_cores"]
