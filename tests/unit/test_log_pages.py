"""What the pages tell an operator to look for in the log is what is written there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tools.log_events import SOURCES, log_events

DOCS: Final = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_the_events_of_an_instance_are_written_with_these_fields() -> None:
    _, _, section = page("instances.md").partition("\n## In the log\n")
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    told = {(event.strip("`"), level, tuple(re.findall(r"`(\w+)`", fields))) for event, level, fields, _ in rows}
    assert told
    assert told <= {(one.event, one.level, one.fields) for one in log_events()}


def test_the_events_that_are_to_be_watched_are_written() -> None:
    (row,) = [line for line in page("operate.md").splitlines() if line.startswith("| the log")]
    told = set(re.findall(r"`(\w+)`", row)) - {"level", "error"}
    assert {"watcher", "bury"} <= told <= {one.event for one in log_events()}


def test_what_the_log_is_said_to_have_is_in_the_code() -> None:
    text = page("operate.md")
    assert not re.findall(r"(?i)the log says", text)
    told = re.findall(r"(?i)the log has `(\w+)` with the `(\w+)` `([^`]+)`", text)
    assert len(told) == len(re.findall(r"(?i)the log has", text)) > 0
    written = [one for one in log_events() if one.event in {event for event, _, _ in told}]
    for event, field, said in told:
        modules = {one.module for one in written if one.event == event and field in one.fields}
        assert any(
            said in (SOURCES / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8") for module in modules
        ), said
