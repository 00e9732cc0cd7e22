"""How far away the engine is, and what time it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.clock import wall_ms
from lingua_scheduler.store.address import parse_place
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.finding import Level
from lingua_scheduler.store.vitals import compare_clocks, judge_round_trips

if TYPE_CHECKING:
    from tests.support.servers import Server


@pytest.mark.parametrize(
    ("times", "level"), [([9.0, 1.0, 500.0], Level.OK), ([10.0, 1.0, 500.0], Level.WARNING), ([12.0], Level.WARNING)]
)
def test_one_slow_answer_is_nothing_and_slow_answers_are(times: list[float], level: Level) -> None:
    finding = judge_round_trips(times)
    assert finding.level is level
    assert f"{max(times):.1f} ms" in finding.said
    assert bool(finding.fix) == (level is Level.WARNING)


@pytest.mark.parametrize(
    ("off_ms", "level", "said"),
    [
        (0, Level.OK, "this machine's"),
        (3_600_000, Level.WARNING, "behind this machine's"),
        (-3_600_000, Level.WARNING, "ahead of this machine's"),
    ],
)
async def test_a_clock_that_is_off_is_told(server: Server, off_ms: int, level: Level, said: str) -> None:
    async with await Engine.connect(server.url) as engine:
        found = [one async for one in compare_clocks(engine, parse_place(server.url), lambda: wall_ms() + off_ms)]
    assert found
    assert {finding.level for finding in found} == {level}
    assert all(said in finding.said for finding in found)
