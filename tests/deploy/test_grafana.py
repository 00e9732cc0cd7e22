"""The dashboard for Grafana: every query can be read, asks only for metrics that there are, and none is left out."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from lingua_scheduler.front.metrics import METRICS
from tests.deploy.test_prometheus import ROOT, promtool

if TYPE_CHECKING:
    from pathlib import Path

DASHBOARD: Final[dict[str, Any]] = json.loads((ROOT / "deploy" / "grafana" / "lingua.json").read_text(encoding="utf-8"))
PANELS: Final = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES: Final = [target["expr"] for panel in PANELS for target in panel["targets"]]


def test_every_query_can_be_read(tmp_path: Path) -> None:
    """By Prometheus itself, which is told them as rules."""
    rules = [
        {"record": f"query:{number}", "expr": re.sub(r"\$(\w+)", _filled, query)}
        for number, query in enumerate(QUERIES)
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(QUERIES)} rules found" in promtool("check", "rules", str(file))


def _filled(variable: re.Match[str]) -> str:
    return {"__rate_interval": "5m", "job": "lingua", "instance": ".*"}[variable[1]]


def test_only_metrics_that_there_are_are_asked_for() -> None:
    declared = {metric.name for metric in METRICS if metric.kind != "histogram"}
    declared |= {
        f"{metric.name}_{part}"
        for metric in METRICS
        if metric.kind == "histogram"
        for part in ("bucket", "count", "sum")
    }
    assert {name for query in QUERIES for name in re.findall(r"\blingua_[a-z_]+", query)} <= declared


def test_every_metric_is_shown() -> None:
    text = " ".join(QUERIES)
    assert [metric.name for metric in METRICS if not re.search(rf"\b{metric.name}(?:_bucket|_count)?\b", text)] == []


def test_labels_are_those_of_the_metric() -> None:
    """What a legend names is told by the query's metric, or by Prometheus itself."""
    labels = {metric.name: {*metric.labels, "instance"} for metric in METRICS}
    for panel in PANELS:
        for target in panel["targets"]:
            asked = re.findall(r"\b(?:lingua|process)_[a-z_]+", target["expr"])
            known: set[str] = {"instance"}
            for name in asked:
                known |= labels.get(re.sub(r"_(bucket|count|sum)$", "", name), set()) | labels.get(name, set())
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= known, panel["title"]


def test_what_is_of_the_fleet_is_taken_once() -> None:
    """It is the same whichever instance tells it: added up it would be wrong."""
    for query in QUERIES:
        for found in re.finditer(r"lingua_fleet_[a-z_]+", query):
            before = query[: found.start()].replace("rate(", "")
            assert before.endswith("max without (instance, pod) ("), query


def test_panels_lie_beside_each_other_and_have_names_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert all(panel["description"] for panel in PANELS)
