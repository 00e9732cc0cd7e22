"""Who asks other cells for a node, and who tells them how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from lingua_scheduler.core.records import Event
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.route import route
from lingua_scheduler.front.directory import Directory
from lingua_scheduler.front.guests import Guests, tell_other_cell
from lingua_scheduler.front.routes import RouteBook
from lingua_scheduler.views.cell import read_cell
from tests.support.guests import THERE, check, join_in, mail, strand
from tests.support.logs import told
from tests.support.stage import A, calls, place
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.records import JobRecord
    from tests.support.world import World


#: As instances of a fleet of several cells obey them.
HOPES = msgspec.msgpack.encode(Rules(elsewhere_ms=200))


class Fleet:
    """Two cells that serve one pair, and whoever looks for guests among them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.directory = Directory(world.engine, CELL)
        self.guests = Guests(self.directory, RouteBook(self.directory))
        self.news: list[str] = []
        self.guests.has_news = self.news.append

    async def open(self) -> None:
        await join_in(self.world, THERE, "far")
        for cell in (CELL, THERE):
            await route(self.world.engine, cell, ["en:zh"])
        self.directory.know_home("far", THERE)

    async def job(self) -> JobRecord:
        return (await check(self.world))[CELL].jobs[A]

    async def carry(self) -> None:
        """Everything is told, twice, as a relayer may do."""
        for cell in (CELL, THERE):
            for event in await mail(self.world, cell) * 2:
                if event.kind in {"let_go", "guest_lost"}:
                    await tell_other_cell(self.world.engine, event)


@pytest.fixture
def fleet(world: World) -> Fleet:
    return Fleet(world)


async def test_a_job_that_lost_its_node_gets_one_of_another_cell(fleet: Fleet) -> None:
    await fleet.open()
    await strand(fleet.world)
    await fleet.guests.look()
    job = await fleet.job()
    assert (job.state, job.attempt, job.node, job.cell) == ("RESERVED", 2, "far", THERE)
    assert fleet.news == [A]


async def test_whoever_hears_that_it_lost_its_node_asks_at_once(fleet: Fleet) -> None:
    await fleet.open()
    fleet.world.engine.obey(HOPES)
    await join_in(fleet.world, CELL, "near")
    await place(fleet.world, A)
    await fail(fleet.world.engine, A, 1, "near", reason="broken")
    (stranded,) = [event for event in await mail(fleet.world, CELL) if event.kind == "stranded"]
    for _ in range(2):
        await fleet.guests.seek(stranded)
        job = await fleet.job()
        assert (job.state, job.attempt, job.node, job.cell) == ("RESERVED", 2, "far", THERE)


async def test_a_third_cell_is_asked_before_it_goes_back(fleet: Fleet) -> None:
    """The second one has room for its pair, but not for this job."""
    await fleet.open()
    await join_in(fleet.world, "c2", "third")
    await route(fleet.world.engine, "c2", ["en:zh"])
    await fleet.directory.read()
    fleet.world.engine.obey(HOPES)
    await join_in(fleet.world, CELL, "near")
    await place(fleet.world, A, wanted=Wanted(exclude_node_ids=["far"]))
    await fail(fleet.world.engine, A, 1, "near", reason="broken")
    (stranded,) = [event for event in await mail(fleet.world, CELL) if event.kind == "stranded"]
    await fleet.guests.seek(stranded)
    job = (await read_cell(fleet.world.engine, CELL)).jobs[A]  # type: ignore[union-attr] # it is named
    assert (job.state, job.node, job.cell) == ("RESERVED", "third", "c2")


async def test_a_fleet_of_one_cell_asks_nobody(fleet: Fleet) -> None:
    await strand(fleet.world)
    before = await calls(fleet.world)
    for _ in range(10):
        await fleet.guests.look()
    assert await calls(fleet.world) == before


async def test_nobody_is_asked_who_has_no_room(fleet: Fleet) -> None:
    await fleet.open()
    await drain(fleet.world.engine, THERE, "far")
    await strand(fleet.world)
    await fleet.guests.look()
    job = await fleet.job()
    assert (job.state, job.asked) == ("RETRYING", 0)


async def test_who_is_turned_away_is_not_asked_for_again_at_once(fleet: Fleet) -> None:
    """There is room for its pair, but not for this job."""
    await fleet.open()
    await strand(fleet.world, wanted=Wanted(exclude_node_ids=["far"]))
    for _ in range(5):
        await fleet.guests.look()
        job = await fleet.job()
        assert (job.state, job.cell, job.asked) == ("RETRYING", "", 2)


async def test_each_time_it_is_asked_for_later(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    await fleet.open()
    await strand(fleet.world, wanted=Wanted(exclude_node_ids=["far"]))
    now = 1_000.0
    monkeypatch.setattr("lingua_scheduler.front.guests.monotonic", lambda: now)
    monkeypatch.setattr("lingua_scheduler.front.routes.monotonic", lambda: now)
    for number, wait_s in enumerate((0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0), start=2):
        await fleet.guests.look()
        assert (await fleet.job()).asked == number
        now += wait_s - 0.01
        await fleet.guests.look()
        assert (await fleet.job()).asked == number
        now += 0.02
    # Whoever was not asked for in a while is forgotten.
    now += 100
    await fleet.guests.look()
    assert len(fleet.guests._asked) == 1


async def test_the_end_of_its_attempt_is_told_where_its_node_is(fleet: Fleet) -> None:
    await fleet.open()
    await strand(fleet.world)
    await fleet.guests.look()
    await cancel(fleet.world.engine, A)
    await fleet.carry()
    assert list((await check(fleet.world))[THERE].limbo) == [f"far:{A}:2"]


async def test_the_loss_of_its_node_is_told_at_home(fleet: Fleet) -> None:
    await fleet.open()
    await strand(fleet.world)
    await fleet.guests.look()
    await leave(fleet.world.engine, THERE, "far")
    await fleet.carry()
    assert (await fleet.job()).state == "RETRYING"


async def test_what_nobody_can_be_told_is_logged_and_not_told_for_ever(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    await tell_other_cell(fleet.world.engine, Event("let_go", A, 2, "", "", "c1 sideways 0", 0))
    assert [(one["kind"], one["detail"]) for one in told(caplog, "guests")] == [("let_go", "nobody can be told")]
