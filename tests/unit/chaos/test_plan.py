"""The plan of faults follows from the seed."""

from __future__ import annotations

import pytest

from chaos.nemesis import Nemesis
from chaos.plan import ENGINES, EngineKind, kinds_of, plan_of
from chaos.scale import FULL, SMALL


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_seed_is_the_same_plan(engine: EngineKind) -> None:
    assert plan_of(7, engine, FULL, 600) == plan_of(7, engine, FULL, 600)
    assert plan_of(7, engine, FULL, 600) != plan_of(8, engine, FULL, 600)


@pytest.mark.parametrize("engine", ENGINES)
def test_ten_minutes_have_faults_of_every_kind(engine: EngineKind) -> None:
    plan = plan_of(1, engine, FULL, 600)
    assert {fault.kind for fault in plan} == set(kinds_of(engine))
    assert [fault.at_s for fault in plan] == sorted(fault.at_s for fault in plan)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_nemesis_knows_how_to_do_each_of_them(engine: EngineKind) -> None:
    assert all(hasattr(Nemesis, f"_{kind}") for kind in kinds_of(engine))


def test_no_node_sleeps_for_longer_than_anybody_waits_for_it() -> None:
    """A legacy node is given the benefit of the doubt after its limbo: then its slots are free, whatever it does."""
    for scale in (FULL, SMALL):
        asleep = [fault for fault in plan_of(3, "embedded", scale, 600) if fault.kind == "node_sleep"]
        assert asleep
        assert all(1000 * fault.lasts_s + scale.run_ms < scale.limbo_ms for fault in asleep)
