"""What is told of the costs in several places is what docs/performance.md has measured."""

from __future__ import annotations

import re
from pathlib import Path

from bench.scale.model import World

ROOT = Path(__file__).parents[2]
UTTERANCE = "an utterance in a session"


def row_of(page: str, what: str) -> list[str]:
    """The cells of the first row that begins so."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(what)}[^|]*\|(.*)\|$", text, re.MULTILINE)
    assert found, (page, what)
    return [cell.strip() for cell in found[1].split("|")]


def test_an_utterance_costs_the_same_on_every_page() -> None:
    per_second, instance, engine = row_of("docs/performance.md", UTTERANCE)
    assert row_of("README.md", UTTERANCE)[0] == per_second
    assert row_of("docs/operate.md", UTTERANCE) == [instance, engine]
    assert row_of("docs/scale.md", "the CPU time of an instance")[0].split(": ")[1].startswith(f"{instance} for ")
    assert f"{World().instance_us_per_utterance:,.0f} µs".replace(",", " ") == instance


def test_the_doors_cost_the_same_on_both_pages() -> None:
    for what in ("a request that asks nothing", "a heartbeat over HTTP", "a complete job over HTTP", "a job over HTTP"):
        assert row_of("README.md", what)[0] == row_of("docs/performance.md", what)[0]
