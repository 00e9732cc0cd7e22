"""docs/invariants.md names, for each invariant, a test that would fail: those tests exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "invariants.md").read_text("utf-8"))))


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_test_that_the_page_names_exists(file: str, name: str) -> None:
    assert f"def {name}(" in (ROOT / file).read_text("utf-8")
