"""The scripts against the model: thousands of random lives of a cell, every answer and every key compared.

The run is the same each time. To search further, name a seed and how many times as long it may take; a failure prints
its calls, shrunk to what is needed, and comes back with the same seed:

    LINGUA_PROPERTY_TIMES=20 ./dev test tests/property/test_state_machine.py --hypothesis-seed=7

What the machine does is in `machine` and `moves`, what it says in `messages`, what must come of it in `model`, and what
must hold from step to step in `steps`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from lingua_scheduler.core.rules import Rules
from tests.property.machine import Arena, CellMachine, CrowdMachine
from tests.property.outcomes import Outcomes, everything

if TYPE_CHECKING:
    from tests.support.servers import Server

_TIMES: Final = int(os.environ.get("LINGUA_PROPERTY_TIMES", "1"))

#: Everything is near: three nodes are a full cell, and every deadline is less than a second or two away.
SMALL: Final = Rules(
    limbo_ttl_ms=300,
    stale_ms=350,
    offline_ms=450,
    node_record_ttl_ms=2_000,
    result_ttl_ms=400,
    job_record_ttl_ms=900,
    released_ttl_ms=300,
    reconnect_grace_ms=50,
    handover_grace_ms=200,
    ping_interval_ms=260,
    intent_ttl_ms=1_500,
    confirm_after_ms=20,
    rest_ms=100,
    max_rest_ms=600,
    probe_ms=80,
    flap_window_ms=1_000,
    mass_silence_nodes=2,
    mass_silence_ms=1_500,
    mark_ttl_ms=400,
    mark_debounce_ms=60,
    mark_window_ms=200,
    max_marked=1,
    max_undelivered=1,
    max_overloaded=1,
    max_lost=2,
    cell_capacity=3,
    max_groups=2,
    relay_lease_ms=50,
)

_SETTINGS: Final = settings(
    # After its tenth example Hypothesis mostly varies what it has; this needs breadth, so there are many short rounds.
    max_examples=9,
    phases=(Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
    database=None,
    suppress_health_check=list(HealthCheck),
)

_outcomes: Final = Outcomes()
_played: Final[set[str]] = set()


Play = Callable[[type[CellMachine], Rules, int, int], None]


@pytest.fixture
def play(server: Server, pytestconfig: pytest.Config) -> Iterator[Play]:
    """Plays so many rounds of lives of so many steps, all in one arena."""
    named = pytestconfig.getoption("--hypothesis-seed")
    first = 0 if named is None else 1_000_003 * int(named)
    with asyncio.Runner() as runner:
        arena = Arena()

        def play(kind: type[CellMachine], rules: Rules, rounds: int, steps: int) -> None:
            runner.run(arena.open(server.url, rules))
            runner.run(arena.warm_up())
            for number in range(rounds * _TIMES):
                maker = hypothesis.seed(first + number)(lambda: kind(runner, arena, _outcomes))
                how = settings(_SETTINGS, stateful_step_count=steps)
                run_state_machine_as_test(maker, settings=how)  # type: ignore[arg-type]  # any maker will do

        yield play
        runner.run(arena.close())


def test_a_small_cell_does_what_the_model_says(play: Play) -> None:
    play(CellMachine, SMALL, 30, 50)
    _played.add("small")


def test_a_cell_with_the_product_s_own_rules_does_what_the_model_says(play: Play) -> None:
    play(CellMachine, Rules(), 15, 50)
    _played.add("own")


def test_a_crowded_cell_does_what_the_model_says(play: Play) -> None:
    play(CrowdMachine, Rules(), 1, 15)
    _played.add("crowded")


def test_every_answer_cause_state_and_move_was_seen() -> None:
    if _played != {"small", "own", "crowded"}:
        pytest.skip("only a whole run is expected to see everything")
    unseen = sorted(everything() - {outcome for outcome, number in _outcomes.seen.items() if number})
    assert not unseen, f"never seen: {unseen}"
