"""Deeper, with the figures: `LINGUA_EXHAUSTIVE_DEPTH=5 ./dev test -s tests/property/test_exhaustive.py`."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

import pytest

from tests.property.exhaustive import Scope, Search
from tests.property.scopes import CASES, DEFAULT_DEPTH, DEPTH, kinds
from tests.property.small_world import Box

if TYPE_CHECKING:
    from tests.support.servers import Server


@pytest.fixture
def search(server: Server) -> Search:
    return Search(server.path, f"small:{secrets.token_hex(4)}")


@pytest.mark.parametrize("name", CASES)
def test_no_order_of_events_breaks_a_promise(name: str, search: Search) -> None:
    case = CASES[name]
    began = time.monotonic()
    tally = search.run(case.scope, DEPTH + case.deeper)
    seconds = time.monotonic() - began
    figures = f"{tally.states} states, {tally.transitions} transitions to depth {DEPTH + case.deeper} {tally.layers}"
    print(f"\n{name}: {figures} in {seconds:.1f} s\n  {tally.kinds}\n  {tally.answers}")  # noqa: T201 - with -s
    if DEPTH >= DEFAULT_DEPTH:
        assert tally.states >= case.states
        assert tally.transitions >= case.transitions
        assert tally.kinds.keys() >= case.scope.only


def test_a_limbo_that_a_returning_node_confirms_is_looked_at_again(search: Search) -> None:
    opening = ("dispatch c0.1", "send", "cancel c0.1", "time +3")
    search.run(Scope((Box("B", 2),), kinds("rejoin"), opening), 1)


def test_a_count_of_jobs_frees_no_slot_of_one_that_runs(search: Search) -> None:
    opening = ("dispatch c0.1", "send", "cancel c0.1", "tick", "dispatch c0.2", "cancel c0.2", "beat B")
    search.run(Scope((Box("B", 2, legacy=True),), kinds("late-send"), opening), 1)
