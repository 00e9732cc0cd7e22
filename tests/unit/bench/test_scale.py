"""What a very large fleet would take follows from the costs, and from nothing else."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from bench.scale.costs import Costs
from bench.scale.model import World, compute
from lingua_scheduler.config import load

#: One of each, so that what is counted can be seen.
COSTS = Costs(**{field.name: 1.0 for field in fields(Costs)})


def figures(world: World | None = None, **flags: Any) -> dict[str, Any]:
    settings = load(env={}, flags={name.replace("__", "."): value for name, value in flags.items()}).settings
    return compute(world or World(), COSTS, settings)


def test_a_hundred_thousand_nodes_and_a_million_sessions() -> None:
    found = figures()
    assert (found["cells"], found["utterances_per_s"], found["heartbeats_per_s"]) == (100, 33_333, 16_667)
    assert found["calls_per_s"]["states of sessions"] == round(1_000_000 / 30 + 4 * 1_000_000 * 2 / 60)
    assert found["calls_per_s"]["instances looking at cells"] == found["instances"] * 100 * 55
    assert found["slots_busy"] == 50_000
    assert found["keys"] > 3_000_000


def test_twice_as_much_takes_twice_as_much() -> None:
    once, twice = figures(), figures(World(nodes=200_000, sessions=2_000_000))
    for name in ("jobs", "audio", "heartbeats", "states of sessions"):
        assert abs(twice["engine_cores"][name] - 2 * once["engine_cores"][name]) <= 0.02
    assert twice["engine_gb"]["audio"] == 2 * once["engine_gb"]["audio"]
    # But for those who look: more of them look at more cells.
    looks = [found["calls_per_s"]["instances looking at cells"] for found in (once, twice)]
    assert looks[1] > 3.9 * looks[0]


def test_a_setting_that_is_turned_changes_what_it_should() -> None:
    slower = figures(loops__relay_interval_ms=200, cell__cell_capacity=5_000)
    assert slower["cells"] == 20
    assert slower["calls_per_s"]["instances looking at cells"] == slower["instances"] * 20 * 10
    assert slower["calls_per_s"]["jobs"] == figures()["calls_per_s"]["jobs"]
