"""Spans are made only where they are wanted, and only there is what makes them loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lingua_scheduler.config.traces import Traces
from lingua_scheduler.front.tracing import NotInstalled, Tracing, tracing_of

LOADED = """
import sys
import lingua_scheduler.app, lingua_scheduler.operate.cli, lingua_scheduler.sdk
from lingua_scheduler.config import Settings
from lingua_scheduler.front.tracing import tracing_of
assert not tracing_of(Settings().traces, "a").is_on
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


def test_without_an_endpoint_nothing_is_loaded() -> None:
    ran = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
    assert type(tracing_of(Traces(), "a")) is Tracing


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(NotInstalled, match=r"pip install 'lingua-scheduler\[otel\]'"):
        tracing_of(Traces(endpoint="http://127.0.0.1:4318/v1/traces"), "a")
