"""The alerts: each fires for what it is for, has a runbook, and asks only for metrics that there are."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lingua_scheduler.front.metrics import METRICS

ROOT: Final = Path(__file__).parents[2]
PROMETHEUS: Final = ROOT / "deploy" / "prometheus"
_UNPACKED: Final = ROOT / ".debian" / "usr" / "bin" / "promtool"


def promtool(*words: str) -> str:
    """What it says when it is content."""
    found = str(_UNPACKED) if _UNPACKED.exists() else shutil.which("promtool")
    if found is None:
        pytest.fail(
            "these tests need promtool of Debian's prometheus: `./dev test` unpacks it into .debian, with apt-get",
            pytrace=False,
        )
    done = subprocess.run([found, *words], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alerts() -> list[dict[str, Any]]:
    said = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text(encoding="utf-8"))
    return [rule for group in said["groups"] for rule in group["rules"]]


def test_the_rules_are_rules_and_every_alert_fires_for_what_it_is_for() -> None:
    assert "is valid prometheus config" in promtool("check", "config", "prometheus.yaml")
    assert "SUCCESS" in promtool("test", "rules", "alerts.test.yaml")


def test_every_alert_is_tested_both_ways() -> None:
    tests = yaml.safe_load((PROMETHEUS / "alerts.test.yaml").read_text(encoding="utf-8"))["tests"]
    tried = [(one["alertname"], bool(one.get("exp_alerts"))) for test in tests for one in test["alert_rule_test"]]
    for alert in alerts():
        assert {(alert["alert"], True), (alert["alert"], False)} <= set(tried)


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    runbooks = re.findall(r"^## (\w+)$", (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(runbooks) == sorted(alert["alert"] for alert in alerts())
    for alert in alerts():
        assert alert["annotations"]["runbook"] == f"docs/runbooks.md#{alert['alert'].lower()}"


def test_only_metrics_that_there_are_are_asked_for() -> None:
    declared = {metric.name for metric in METRICS}
    declared |= {f"{metric.name}_{part}" for metric in METRICS for part in ("bucket", "count", "sum")}
    for file in ("rules.yaml", "alerts.yaml", "alerts.test.yaml"):
        text = (PROMETHEUS / file).read_text(encoding="utf-8")
        asked = set(re.findall(r"\blingua_[a-z_]+", text))
        assert asked <= declared, file
