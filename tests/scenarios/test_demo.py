"""The demo as a new user runs it: a process of its own, on an engine of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until

LINGUA = str(Path(sys.executable).parent / "lingua")


def processes_of(directory: Path) -> set[int]:
    """Everything that still runs with this temporary directory in its environment: guardian, engine, demo."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if str(directory).encode() in environment:
                found.add(int(entry.name))
    return found


def start(directory: Path, *args: str) -> subprocess.Popen[str]:
    environment = os.environ | {"TMPDIR": str(directory), "XDG_STATE_HOME": str(directory)}
    return subprocess.Popen(
        [LINGUA, "demo", *args], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def last_line(out: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return report


def adds_up(report: dict[str, Any]) -> bool:
    ends = sum(report[state] for state in ("finished", "failed", "cancelled", "expired"))
    submitted = report["accepted"] + report["refused"]
    return bool(
        report["submitted"] == submitted and report["accepted"] == report["ended"] == report["ended_in_engine"] == ends
    )


def test_the_numbers_of_a_demo_add_up_and_nothing_is_left_running(tmp_path: Path) -> None:
    demo = start(tmp_path, "--duration", "4", "--json", "--seed", "3")
    out, err = demo.communicate(timeout=60)
    assert demo.returncode == 0, err
    report = last_line(out)
    assert report["submitted"] > 20
    assert adds_up(report), report
    assert report["audit_violations"] == report["oversold"] == 0
    wait_until(lambda: not processes_of(tmp_path), what="everything that the demo started is gone")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_ends_early_with_a_verdict(tmp_path: Path, number: signal.Signals) -> None:
    demo = start(tmp_path, "--duration", "600")
    assert demo.stdout is not None
    assert "ready" in demo.stdout.readline()
    demo.send_signal(number)
    out, err = demo.communicate(timeout=60)
    assert demo.returncode == 0, err
    assert "The auditor found nothing." in out
    wait_until(lambda: not processes_of(tmp_path), what="everything that the demo started is gone")


def test_a_wrong_setting_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[nodes]\nstale = 5\n")
    ran = subprocess.run(
        [LINGUA, "config", "show", "--config", str(config)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 2
    assert len(ran.stderr.strip().splitlines()) == 1
    assert "stale" in ran.stderr


def test_config_show_says_where_each_value_came_from(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[nodes]\nrest_ms = 1234\n")
    environment = os.environ | {"LINGUA_JOBS__MAX_RETRY": "1"}
    command = [LINGUA, "config", "show", "--origin", "--json", "--config", str(config)]
    shown = json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert shown["nodes.rest_ms"]["value"] == 1234
    assert "config.toml" in shown["nodes.rest_ms"]["origin"]
    assert shown["jobs.max_retry"] == {"value": 1, "origin": "env LINGUA_JOBS__MAX_RETRY"}
    assert shown["nodes.stale_ms"] == {"value": 35000, "origin": "default"}
