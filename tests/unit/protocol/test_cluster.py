"""Instances and dead letters on the wire."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lingua_scheduler.protocol import cluster
from lingua_scheduler.protocol.codec import encode

INSTANCE = {
    "instance_id": "i",
    "started_at_ms": 1,
    "seen_at_ms": 2,
    "version": "1",
    "draining": False,
    "nodes": 0,
    "sessions": 0,
    "host": "h",
    "pid": 7,
    "url": "http://127.0.0.1:5010",
}
GONE = {"instance_id": "g", "alive": False, "seen_at_ms": 2, "inbox": {"letters": 3, "pending": 1}}
NUMBERS = {
    "instance_id": "i",
    "alive": True,
    "seen_at_ms": 2,
    "inbox": {"letters": 0, "pending": 0},
    "version": "1",
    "draining": False,
    "uptime_ms": 5,
    "nodes": 1,
    "sessions": 2,
}
LETTER = {
    "id": "1-0.i",
    "instance_id": "i",
    "reason": "why",
    "deliveries": 10,
    "buried_at_ms": 3,
    "kind": "news",
    "job_id": "c0.a",
    "attempt_id": 1,
    "node_id": "n1",
    "session_id": "s1",
    "detail": "",
    "trace_id": "t",
}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (cluster.InstancesAnswer, {"instances": [INSTANCE]}),
        (cluster.InstancesAnswer, {"instances": [], "cursor": "i"}),
        (cluster.ClusterAnswer, {"generated_at_ms": 1, "instances": [GONE, NUMBERS], "dead_letters": 4}),
        (cluster.DeadLettersAnswer, {"letters": [LETTER], "total": 1}),
        (cluster.ReplayAnswer, {"ok": True, "id": "1-0.i", "instance_id": "i"}),
        (cluster.DeletedAnswer, {"ok": True, "id": "1-0.i"}),
    ],
)
def test_what_is_told_of_instances_and_dead_letters(kind: type[msgspec.Struct], said: dict[str, Any]) -> None:
    assert msgspec.json.decode(encode(msgspec.convert(said, kind))) == said
