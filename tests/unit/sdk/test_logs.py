"""What a node says while it runs."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from lingua_scheduler.sdk.nodes.logs import JsonLines, Lines

JOB = {
    "job_id": "c0.1",
    "attempt_id": 1,
    "pair": "en:es",
    "audio_bytes": 3_200,
    "took_ms": 12,
    "outcome": "failed",
    "trace_id": "t",
    "error": "X: y",
}


def record(message: str, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("lingua.node", logging.INFO, "", 0, message, (), None)
    made.created, made.msecs = 0.25, 250.0
    made.__dict__.update(fields)
    return made


def test_for_machines_a_line_is_an_object() -> None:
    said = json.loads(JsonLines().format(record("job", **JOB)))
    assert said == {"ts": "1970-01-01T00:00:00.250Z", "level": "info", "event": "job"} | JOB


def test_what_json_does_not_know_is_written_as_text_and_a_traceback_goes_along() -> None:
    broken = record("broken", what=object)
    try:
        int("here")
    except ValueError:
        broken.exc_info = sys.exc_info()
    said = json.loads(JsonLines().format(broken))
    assert said["what"] == "<class 'object'>"
    assert said["traceback"].endswith("with base 10: 'here'")
    assert Lines().format(broken).endswith("with base 10: 'here'")


def test_for_people_a_job_is_one_line() -> None:
    line = Lines().format(record("job", **JOB))
    assert line.split("  ", 1)[1] == "en:es  failed  12 ms  3200 bytes  c0.1 1  X: y"
    assert Lines().format(record("joined", pools=["en:es", "en:fr"])).endswith("joined pools=en:es,en:fr")


def test_nobody_can_forge_a_line() -> None:
    forged = "x\n00:00:00  told to end\r\x1b[2K"
    broken = record("job", **JOB | {"error": forged})
    broken.exc_info = (ValueError, ValueError(forged), None)
    first, *others = Lines().format(broken).splitlines()
    assert first.endswith(r"x\n00:00:00  told to end\r\x1b[2K")
    assert others
    assert all(line.startswith("    ") and line.isprintable() for line in others)
    assert len(JsonLines().format(broken).splitlines()) == 1
