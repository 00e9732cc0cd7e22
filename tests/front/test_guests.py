"""Who asks other cells for a node, and who tells them how it ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.records import Event
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.relay import relay
from lingua_scheduler.flows.route import route
from lingua_scheduler.flows.unroute import unroute
from lingua_scheduler.front.directory import Directory
from lingua_scheduler.front.guests import Guests, tell_other_cell
from lingua_scheduler.front.routes import RouteBook
from lingua_scheduler.views.cell import read_cell
from lingua_scheduler.views.routes import RoutedPairs, read_routed
from tests.support.guests import THERE, check, join_in, mail, strand
from tests.support.logs import told
from tests.support.meddling import meddled
from tests.support.stage import A, B, C, calls, place
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.records import JobRecord
    from tests.support.world import World


#: As instances of a fleet of several cells obey them.
HOPES = msgspec.msgpack.encode(Rules(elsewhere_ms=200))
EN_ZH = Pair("en", "zh")


class Fleet:
    """Two cells that serve one pair, and whoever looks for guests among them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.directory = Directory(world.engine, CELL)
        self.routes = RouteBook(self.directory)
        self.guests = Guests(self.directory, self.routes)
        self.news: list[str] = []
        self.guests.has_news = self.news.append

    async def open(self) -> None:
        await join_in(self.world, THERE, "far")
        for cell in (CELL, THERE):
            await route(self.world.engine, cell, ["en:zh"])
        self.directory.know_home("far", THERE)

    async def job(self) -> JobRecord:
        return (await check(self.world))[CELL].jobs[A]

    async def break_down(self, *jobs: str, **asked: Any) -> None:
        """The only node at home has these jobs, and fails them. Instances know of the other cell."""
        self.world.engine.obey(HOPES)
        await join_in(self.world, CELL, "near", max_concurrent_jobs=4)
        for job_id in jobs:
            await place(self.world, job_id, **asked)
        for job_id in jobs:
            await fail(self.world.engine, job_id, 1, "near", reason="broken")

    async def hear_all(self) -> None:
        """Whatever lost its node is told at once, side by side, as a relayer does."""
        stranded = [event for event in await mail(self.world, CELL) if event.kind == "stranded"]
        await relay(self.world.engine, CELL, stranded, 0)
        await asyncio.gather(*(self.guests.seek(event) for event in stranded))

    async def seen(self) -> int:
        """What the directory was like a moment ago."""
        page = await read_routed(self.world.engine, THERE, "0")
        assert isinstance(page, RoutedPairs)
        return page.seen

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


async def test_where_no_other_cell_serves_its_pair_it_goes_back_at_once(fleet: Fleet) -> None:
    await fleet.open()
    await leave(fleet.world.engine, THERE, "far")
    await unroute(fleet.world.engine, THERE, await fleet.seen(), ["en:zh"])
    await fleet.break_down(A)
    await fleet.hear_all()
    job = await fleet.job()
    assert (job.state, job.attempt, job.node) == ("RESERVED", 2, "near")
    assert fleet.news == [A]


async def test_where_all_others_are_full_it_goes_back_at_once(fleet: Fleet) -> None:
    await fleet.open()
    await place(fleet.world, f"{THERE}.b")
    await fleet.break_down(A)
    await fleet.hear_all()
    job = await fleet.job()
    assert (job.state, job.attempt, job.node) == ("RESERVED", 2, "near")


async def test_where_all_others_refuse_it_it_goes_back_at_once(fleet: Fleet) -> None:
    """There is room for its pair, but not for this job."""
    await fleet.open()
    await fleet.break_down(A, wanted=Wanted(exclude_node_ids=["far"]))
    await fleet.hear_all()
    job = await fleet.job()
    assert (job.state, job.attempt, job.node) == ("RESERVED", 3, "near")


async def test_a_cell_that_was_opened_a_moment_ago_is_asked_before_it_goes_back(fleet: Fleet) -> None:
    await fleet.open()
    await fleet.routes.ways_now(EN_ZH)
    await place(fleet.world, f"{THERE}.b")
    await join_in(fleet.world, "c2", "third")
    await route(fleet.world.engine, "c2", ["en:zh"])
    await fleet.break_down(A)
    await fleet.hear_all()
    job = (await read_cell(fleet.world.engine, CELL)).jobs[A]  # type: ignore[union-attr] # it is named
    assert (job.state, job.node, job.cell) == ("RESERVED", "third", "c2")


async def test_of_many_that_lost_their_nodes_at_once_each_asks(fleet: Fleet) -> None:
    await fleet.open()
    await join_in(fleet.world, THERE, "far", max_concurrent_jobs=3)
    await fleet.break_down(A, B, C)
    await fleet.hear_all()
    jobs = (await check(fleet.world))[CELL].jobs
    assert [(jobs[one].state, jobs[one].node) for one in (A, B, C)] == [("RESERVED", "far")] * 3


async def test_what_one_of_many_is_refused_another_may_have(fleet: Fleet) -> None:
    await fleet.open()
    await fleet.break_down(A, wanted=Wanted(exclude_node_ids=["far"]))
    await fleet.break_down(B)
    await fleet.hear_all()
    jobs = (await check(fleet.world))[CELL].jobs
    assert [jobs[one].node for one in (A, B)] == ["near", "far"]


async def test_what_one_that_waits_is_refused_another_may_have(fleet: Fleet) -> None:
    await fleet.open()
    await join_in(fleet.world, CELL, "near", max_concurrent_jobs=2)
    await place(fleet.world, A, wanted=Wanted(exclude_node_ids=["far"]))
    await place(fleet.world, B)
    await leave(fleet.world.engine, CELL, "near")
    await fleet.guests.look()
    jobs = (await check(fleet.world))[CELL].jobs
    assert [(jobs[one].state, jobs[one].node) for one in (A, B)] == [("RETRYING", "near"), ("RESERVED", "far")]


async def test_whoever_loses_its_node_again_asks_again_at_once(fleet: Fleet) -> None:
    await fleet.open()
    await place(fleet.world, f"{THERE}.b")
    await fleet.break_down(A)
    await fleet.guests.look()
    await fleet.hear_all()
    assert (await fleet.job()).node == "near"
    await done(fleet.world.engine, f"{THERE}.b", 1, "far")
    await fail(fleet.world.engine, A, 2, "near", reason="broken")
    await fleet.hear_all()
    assert (await fleet.job()).node == "far"


async def test_a_cell_that_is_away_costs_a_retry_nothing_but_the_question(fleet: Fleet) -> None:
    await fleet.open()
    await fleet.break_down(A)

    async def is_away(_: object) -> None:
        raise DependencyDown("DISCONNECTED", "nobody answers")

    fleet.guests._engine = meddled(fleet.world.engine, host=is_away)
    await fleet.hear_all()
    job = await fleet.job()
    assert (job.state, job.node, job.cell) == ("RESERVED", "near", "")
    assert fleet.routes.with_room(EN_ZH, but=CELL) is None


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
