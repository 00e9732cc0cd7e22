"""Every cell has somebody who sweeps it and carries its news, also one that was opened a moment ago."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lingua_scheduler.core.ids import in_cell
from lingua_scheduler.core.records import Event
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.register import register
from lingua_scheduler.loops.tender import Tender
from tests.support.stage import PLAIN, A
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.world import World

NEVER_MS = 3_600_000


class Ears:
    """What was carried."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(self, event: Event) -> None:
        await self.heard.put(event.job)


async def finish(world: World, cell: str) -> str:
    """A job of this cell ends."""
    job_id = in_cell(A, cell)
    await register(world.engine, cell, "n1", **PLAIN)
    assert isinstance(await dispatch(world.engine, job_id, "s1", "en", "zh"), Placed)
    await done(world.engine, job_id, 1, "n1")
    return job_id


async def test_a_cell_that_is_new_is_looked_after_when_somebody_says_so(world: World) -> None:
    cells, ears = [CELL], Ears()

    async def look() -> Sequence[str]:
        return cells

    tender = Tender(world.engine, look, NEVER_MS, sweep_ms=1, relay_ms=1, hand_over=ears.hear)
    async with tender, asyncio.timeout(5):
        assert await finish(world, CELL) == await ears.heard.get()
        cells.append("c1")
        there = await finish(world, "c1")
        tender.wake()
        assert there == await ears.heard.get()


async def test_news_of_a_job_wake_the_relayer_of_its_cell(world: World) -> None:
    ears = Ears()

    async def look() -> Sequence[str]:
        return [CELL, "c1"]

    tender = Tender(world.engine, look, NEVER_MS, sweep_ms=NEVER_MS, relay_ms=NEVER_MS, hand_over=ears.hear)
    async with tender, asyncio.timeout(5):
        await tender.turn()
        there = await finish(world, "c1")
        tender.has_news(there)
        assert there == await ears.heard.get()
        # Of a cell that nobody here knows yet there is nobody to wake.
        tender.has_news("c9.x")


async def test_what_somebody_took_himself_goes_to_the_relayer_of_its_cell(world: World) -> None:
    ears = Ears()

    async def look() -> Sequence[str]:
        return [CELL, "c1"]

    tender = Tender(world.engine, look, NEVER_MS, sweep_ms=NEVER_MS, relay_ms=NEVER_MS, hand_over=ears.hear)
    async with tender, asyncio.timeout(5):
        await tender.turn()
        taken, told = (Event("ended", f"c1.{name}", 1, "n1", "", "", 0) for name in ("taken", "told"))
        tender.take(taken)
        tender.confirm(told)
        assert await ears.heard.get() == taken.job
        assert ears.heard.empty()
        # Of a cell that nobody here knows yet it comes back when its time is over.
        for entrust in (tender.take, tender.confirm):
            entrust(Event("ended", "c9.x", 1, "n1", "", "", 0))
        assert ears.heard.empty()


async def test_of_many_cells_each_is_looked_at_less_often(world: World) -> None:
    cells = [f"c{number}" for number in range(8)]

    async def look() -> Sequence[str]:
        return cells

    tender = Tender(world.engine, look, NEVER_MS, sweep_ms=200_000, relay_ms=20_000, hand_over=Ears().hear)
    async with tender:
        await tender.turn()
        assert {round(loop._interval_s) for loop in tender._reapers.values()} == {400}
        assert {round(loop._interval_s) for loop in tender._relayers.values()} == {40}
        cells += [f"c{number}" for number in range(8, 100)]
        await tender.turn()
        assert {round(loop._interval_s) for loop in tender._relayers.values()} == {200}
