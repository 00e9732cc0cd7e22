"""A fleet of several cells: nodes come in and leave, and a job finds the cell that has room, wherever that is."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.ids import cell_of, name_of
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.front.ask import Submitted
from lingua_scheduler.front.nodes.housing import hear_beat, let_go
from lingua_scheduler.front.survey import Survey
from lingua_scheduler.store.keys import DIRECTORY, cell_key
from lingua_scheduler.views.home import HomeView, Nowhere, read_home
from lingua_scheduler.views.routes import read_routes
from tests.support.meddling import meddled
from tests.support.several import ONE_SLOT, Instance, cell_in, cells_of, finish, jobs_in, judge, look_into, several
from tests.support.stage import code_of
from tests.support.world import CELL, EPOCH_MS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flows.conftest import MakeWorld
    from tests.support.meddling import Run
    from tests.support.world import World

LONG_MS = 61_000


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    """Two nodes are a full cell here."""
    return await make_world(Rules(cell_capacity=2, stale_ms=10**9, offline_ms=2 * 10**9))


@pytest.fixture
async def here(world: World) -> AsyncIterator[Instance]:
    async with several(world) as instance:
        yield instance


@pytest.fixture
def there(world: World) -> Instance:
    """Another instance, which knows only what it has asked for."""
    return Instance(world.engine)


async def fill(here: Instance, number: int = 6) -> list[str]:
    return [await here.join(f"n{n}") for n in range(number)]


async def somebody_waits(world: World, number: int = 1) -> None:
    async with asyncio.timeout(5):
        while [*(await jobs_in(world)).values()].count("WAITING") < number:  # noqa: ASYNC110 - the engine rings no bell
            await asyncio.sleep(0)


class TestNodes:
    async def test_cells_are_opened_as_nodes_come(self, here: Instance) -> None:
        assert await fill(here) == ["c0", "c0", "c1", "c1", "c2", "c2"]
        assert here.directory.cells == ("c0", "c1", "c2")

    async def test_however_many_register_at_once_each_is_in_one_cell(
        self, world: World, here: Instance, there: Instance
    ) -> None:
        await asyncio.gather(*(who.join(f"n{n}") for n in range(10) for who in (here, there, here)))
        names = await cells_of(world)
        sizes = [len((await look_into(world, name)).nodes) for name in names]
        assert (sum(sizes), max(sizes)) == (10, 2)

    async def test_a_node_is_found_by_an_instance_that_never_saw_its_cell(
        self, here: Instance, there: Instance
    ) -> None:
        await fill(here)
        assert there.directory.is_one
        assert not isinstance(await hear_beat(there.directory, "n5"), Refusal)
        assert "c2" in there.directory.cells
        assert code_of(await hear_beat(there.directory, "nobody")) == "UNKNOWN_NODE"

    async def test_who_leaves_gives_its_place_back_and_may_come_back_elsewhere(
        self, world: World, here: Instance, there: Instance
    ) -> None:
        await fill(here)
        assert not isinstance(await let_go(there.directory, "n0"), Refusal)
        assert await read_home(world.engine, "n0") == Nowhere()
        assert await here.join("new") == "c0"
        assert await there.join("n0") == "c3"
        # Whoever remembers where it was finds it where it is.
        assert not isinstance(await hear_beat(here.directory, "n0"), Refusal)

    async def test_who_is_drained_and_leaves_is_drained_when_it_comes_back(self, world: World, here: Instance) -> None:
        await fill(here)
        await drain(world.engine, "c0", "n0")
        await let_go(here.directory, "n0")
        assert await read_home(world.engine, "n0") != Nowhere()
        assert await here.join("n0") == "c0"
        assert (await look_into(world, "c0")).nodes["n0"].intent == "draining"

    async def test_who_is_not_let_in_takes_nobodys_place(self, world: World, here: Instance) -> None:
        await here.join("n0", credential="a")
        with pytest.raises(AssertionError, match="INVALID"):
            await here.join("n1", max_concurrent_jobs=0)
        with pytest.raises(AssertionError, match="NODE_ID_CONFLICT"):
            await here.join("n0", credential="b")
        assert dict((await read_routes(world.engine)).cells) == {"c0": 1}

    async def test_the_place_of_one_that_is_gone_is_taken_before_a_cell_is_opened(
        self, world: World, here: Instance
    ) -> None:
        await here.join("n0", connection="x")
        await here.join("n1")
        await disconnect(world.engine, CELL, "n0", "x")
        world.now_ms += LONG_MS
        await reap(world.engine, CELL)
        assert await here.join("n2") == "c0"
        await Survey(here.directory, lambda: world.now_ms).step()
        assert await read_home(world.engine, "n0") == Nowhere()

    async def test_what_a_node_can_do_by_now_is_known_to_all_when_its_beat_is_answered(
        self, here: Instance, there: Instance
    ) -> None:
        await fill(here)
        assert cell_in(await there.submit("en", "de")) == "NO_CAPABLE_NODE"
        await hear_beat(here.directory, "n5", nmt_pairs=[["en", "de"]])
        assert cell_in(await there.submit("en", "de")) == "c2"


class TestOneCell:
    """A small fleet is one cell, and pays nothing for there being such a thing."""

    async def test_a_dispatch_is_one_call_and_so_is_a_heartbeat(self, world: World, here: Instance) -> None:
        await fill(here, 2)
        engine = meddled(world.engine)
        small = Instance(engine)
        assert cell_in(await small.submit()) == CELL
        assert engine.ran == ["dispatch"]
        assert not isinstance(await hear_beat(small.directory, "n1"), Refusal)
        assert engine.ran == ["dispatch", "heartbeat"]

    async def test_a_refusal_reads_the_directory_once_and_so_does_who_begins_to_wait(
        self, world: World, here: Instance
    ) -> None:
        await fill(here, 1)
        await here.submit()
        engine = meddled(world.engine)
        small = Instance(engine)
        assert cell_in(await small.submit()) == "ALL_CANDIDATES_FULL_OR_FAILED"
        assert engine.ran == ["dispatch", "routes"]
        waits = asyncio.create_task(small.submit(wait_ms=30_000))
        await engine.until("whereabouts")
        assert engine.ran[2:5] == ["dispatch", "routes", "whereabouts"]
        waits.cancel()
        await asyncio.wait([waits])

    async def test_in_several_cells_a_dispatch_is_one_call_once_its_pair_is_known(
        self, world: World, here: Instance
    ) -> None:
        for n in range(6):
            await here.join(f"n{n}", max_concurrent_jobs=100)
        engine = meddled(world.engine)
        large = Instance(engine)
        await large.directory.read()
        await large.submit()
        del engine.ran[:]
        for _ in range(20):
            assert isinstance(await large.submit(), Submitted)
        assert engine.ran == ["dispatch"] * 20


class TestJobs:
    async def test_who_meets_a_cell_that_is_away_sends_the_next_ones_elsewhere_until_it_answers(
        self, world: World, here: Instance
    ) -> None:
        away: list[str] = []

        async def fail(run: Run) -> object:
            if away:
                raise DependencyDown("UNREACHABLE", away.pop())
            return await run()

        for n in range(4):
            await here.join(f"n{n}", max_concurrent_jobs=100)
        instance = Instance(meddled(world.engine, dispatch=fail))
        routes = instance.submitter.routes
        await instance.directory.read()
        await instance.submit()
        away.append("this once")
        with pytest.raises(DependencyDown):
            await instance.submit(request_id="r1")
        other = cell_in(await instance.submit(request_id="r1"))
        assert {routes.begin_at("en", "zh") for _ in range(20)} == {other}
        await routes.look()
        assert {routes.begin_at("en", "zh") for _ in range(50)} == {"c0", "c1"}

    async def test_a_job_is_placed_wherever_there_is_room_and_refused_only_by_all(
        self, here: Instance, there: Instance
    ) -> None:
        await fill(here)
        placed = [await who.submit() for who in (here, there) for _ in range(3)]
        assert Counter(map(cell_in, placed)) == {"c0": 2, "c1": 2, "c2": 2}
        for who in (here, there):
            refusal = await who.submit()
            assert isinstance(refusal, Refusal)
            assert refusal.breakdown == Breakdown(pool=6, full=6)
            assert refusal.detail == "6 in the pool of en:zh; none can take a job now."

    async def test_a_slot_in_any_cell_is_found_however_full_the_others_are(
        self, world: World, here: Instance, there: Instance
    ) -> None:
        await fill(here)
        held = [await here.submit() for _ in range(6)]
        for submitted in held:
            assert isinstance(submitted, Submitted)
            await finish(world, submitted)
            again = await there.submit()
            assert cell_in(again) == cell_of(submitted.job_id)

    async def test_a_cell_that_was_opened_a_moment_ago_is_tried_before_a_job_is_refused(
        self, here: Instance, there: Instance
    ) -> None:
        for n in range(2):
            await here.join(f"n{n}")
        for _ in range(2):
            assert cell_in(await there.submit()) == "c0"
        assert cell_in(await there.submit()) == "ALL_CANDIDATES_FULL_OR_FAILED"
        await here.join("n2")
        assert there.directory.is_one
        assert cell_in(await there.submit()) == "c1"

    async def test_a_rare_pair_is_found(self, here: Instance, there: Instance) -> None:
        await fill(here, 5)
        await here.join("rare", semantic_langs=["is", "fo"], nmt_pairs=[["is", "fo"]])
        for who in (here, there):
            answer = await who.submit("is", "fo")
            assert cell_in(answer) in {"c2", "ALL_CANDIDATES_FULL_OR_FAILED"}
        missing = await there.submit("fo", "is")
        assert isinstance(missing, Refusal)
        assert (missing.code, missing.detail) == (
            "NO_CAPABLE_NODE",
            "No registered node can serve fo:is: no node of any cell serves it.",
        )

    async def test_a_node_of_every_target_is_found(self, here: Instance, there: Instance) -> None:
        await fill(here)
        await here.join("any", nmt_pairs="any")
        assert cell_in(await there.submit("en", "fr")) == "c3"

    async def test_a_job_that_insists_on_a_node_goes_to_its_cell_or_nowhere(
        self, here: Instance, there: Instance
    ) -> None:
        await fill(here)
        wanted = Wanted(preferred_node_id="n4", strict=True)
        for who in (here, there):
            answer = await who.submit(wanted=wanted)
            assert cell_in(answer) in {"c2", "PREFERRED_NODE_UNAVAILABLE"}
        nobody = Wanted(preferred_node_id="nobody", strict=True)
        assert cell_in(await there.submit(wanted=nobody)) == "PREFERRED_NODE_NOT_CAPABLE"

    async def test_a_job_that_prefers_a_node_gets_it_or_another_anywhere(self, here: Instance) -> None:
        await fill(here)
        wanted = Wanted(preferred_node_id="n4")
        first = await here.submit(wanted=wanted)
        assert isinstance(first, Submitted)
        assert first.placed.node_id == "n4"
        others = [await here.submit(wanted=wanted) for _ in range(5)]
        assert Counter(map(cell_in, others)) == {"c0": 2, "c1": 2, "c2": 1}
        assert cell_in(await here.submit(wanted=wanted)) == "ALL_CANDIDATES_FULL_OR_FAILED"
        nobody = Wanted(preferred_node_id="nobody")
        assert cell_in(await here.submit(wanted=nobody)) == "PREFERRED_NODE_NOT_CAPABLE"

    async def test_the_pieces_of_a_turn_go_to_one_node(self, here: Instance, there: Instance) -> None:
        for n in range(6):
            await here.join(f"n{n}", max_concurrent_jobs=8)
        placed = [await who.submit(bind_key="turn") for who in (here, there) for _ in range(4)]
        assert len({one.placed.node_id for one in placed if isinstance(one, Submitted)}) == 1
        assert len(placed) == 8

    async def test_jobs_spread_over_the_cells_by_their_room(self, here: Instance) -> None:
        for n in range(6):
            await here.join(f"n{n}", max_concurrent_jobs=100)
        placed = Counter([cell_in(await here.submit()) for _ in range(240)])
        assert placed.keys() == {"c0", "c1", "c2"}
        assert min(placed.values()) > 40

    async def test_a_language_falls_back_only_where_no_cell_has_anybody_alive_for_it(
        self, world: World, here: Instance, there: Instance
    ) -> None:
        await fill(here, 4)
        await here.join("yue", semantic_langs=["yue", "en"], nmt_pairs=[["yue", "en"]], connection="x")
        for n in range(2):
            await here.join(f"zh{n}", semantic_langs=["zh", "en"], nmt_pairs=[["zh", "en"]])
        assert cell_in(await there.submit("yue", "en")) == "c2"
        # It is full, but alive.
        assert cell_in(await there.submit("yue", "en")) == "ALL_CANDIDATES_FULL_OR_FAILED"
        await disconnect(world.engine, "c2", "yue", "x")
        world.now_ms += 1_000
        await reap(world.engine, "c2")
        answer = await there.submit("yue", "en")
        assert isinstance(answer, Submitted)
        assert answer.placed.node_id.startswith("zh")


class TestTheSameRequest:
    async def test_it_is_one_job_wherever_it_went(self, world: World, here: Instance, there: Instance) -> None:
        await fill(here)
        await asyncio.gather(*(here.submit() for _ in range(5)))
        answers = [await who.submit(request_id="r1") for who in (there, here, Instance(world.engine))]
        ids = {one.job_id for one in answers if isinstance(one, Submitted)}
        assert (len(answers), len(ids)) == (3, 1)
        assert len(await jobs_in(world)) == 6

    async def test_many_at_once_are_one_job(self, world: World, here: Instance) -> None:
        await fill(here)
        await asyncio.gather(*(here.submit() for _ in range(5)))
        callers = [Instance(world.engine) for _ in range(8)]
        answers = await asyncio.gather(*(caller.submit(request_id="r1") for caller in callers))
        assert len({one.job_id for one in answers if isinstance(one, Submitted)}) == 1
        assert len([one for one in answers if isinstance(one, Submitted)]) == 8
        assert len(await jobs_in(world)) == 6

    @pytest.mark.parametrize("executed", [False, True])
    @pytest.mark.parametrize("script", ["claim", "dispatch", "withdraw", "routes", "seal"])
    @pytest.mark.parametrize("times", [1, 2, 3])
    async def test_whoever_dies_between_the_steps_leaves_at_most_one(
        self, world: World, here: Instance, script: str, executed: bool, times: int
    ) -> None:
        await fill(here)
        await asyncio.gather(*(here.submit() for _ in range(5)))
        left = times

        async def die(run: object) -> object:
            nonlocal left
            left -= 1
            if left > 0 or executed:
                answer = await run()  # type: ignore[operator] # it runs the script
                if left > 0:
                    return answer
            raise _Died

        mortal = Instance(meddled(world.engine, **{script: die}))
        first: object = None
        with suppress(_Died):
            first = await mortal.submit(request_id="r1")
        second = await Instance(world.engine).submit(request_id="r1")
        assert isinstance(second, Submitted)
        assert not isinstance(first, Submitted) or first.job_id == second.job_id
        jobs = await jobs_in(world)
        assert len(jobs) == 6
        assert [name_of(job_id) for job_id in jobs].count(name_of(second.job_id)) == 1


class _Died(Exception):
    pass


class TestWaiting:
    async def test_a_job_that_waits_goes_to_whichever_cell_has_room_first(self, world: World, here: Instance) -> None:
        await fill(here)
        held = [await here.submit() for _ in range(6)]
        for number, submitted in enumerate(held):
            assert isinstance(submitted, Submitted)
            request = {"request_id": f"r{number}"} if number % 2 else {}
            waits = asyncio.create_task(here.submit(wait_ms=30_000, **request))
            await somebody_waits(world)
            await finish(world, submitted)
            async with asyncio.timeout(5):
                answer = await waits
            assert cell_in(answer) == cell_of(submitted.job_id)
            assert "WAITING" not in (await jobs_in(world)).values()

    async def test_one_that_waited_in_vain_is_refused_by_all_cells_once_more(
        self, world: World, here: Instance
    ) -> None:
        await fill(here)
        held = [await here.submit() for _ in range(6)]
        waits = asyncio.create_task(here.submit(wait_ms=1_000))
        await somebody_waits(world)
        waiting = next(cell_of(job_id) for job_id, state in (await jobs_in(world)).items() if state == "WAITING")
        world.now_ms += 1_000
        other = next(one for one in held if isinstance(one, Submitted) and cell_of(one.job_id) != waiting)
        await finish(world, other)
        for cell in await cells_of(world):
            await reap(world.engine, cell)
        async with asyncio.timeout(5):
            answer = await waits
        assert isinstance(answer, Submitted)
        assert cell_of(answer.job_id) == cell_of(other.job_id)
        # The time that it has waited is part of its own.
        job = (await look_into(world, cell_of(answer.job_id))).jobs[answer.job_id]
        assert job.deadline_at_ms <= EPOCH_MS + Limits().timeout_ms

    async def test_one_that_others_may_know_waits_where_it_can_while_another_cell_is_away(
        self, world: World, here: Instance
    ) -> None:
        """As the utterances of a session do."""
        await fill(here, 4)
        held = [await here.submit() for _ in range(4)]
        engine = meddled(world.engine)
        instance = Instance(engine)
        await instance.directory.read()
        engine.away.add("c1")
        for number, new_id in enumerate(("c0.first", "c0.second")):
            waits = asyncio.create_task(instance.submit(wait_ms=30_000, new_id=new_id))
            await somebody_waits(world)
            mine = [one for one in held if isinstance(one, Submitted) and cell_of(one.job_id) == "c0"]
            await finish(world, mine[number])
            async with asyncio.timeout(5):
                assert cell_in(await waits) == "c0"
        # What nobody may let wait is not refused by all, as long as one could not be asked.
        with pytest.raises(DependencyDown):
            await instance.submit(new_id="c0.third")

    async def test_where_nobody_more_may_wait_it_waits_in_another_cell(self, make_world: MakeWorld) -> None:
        world = await make_world(Rules(cell_capacity=2, max_waiting=1))
        async with several(world) as here:
            await fill(here, 4)
            held = [await here.submit() for _ in range(4)]
            waiting = [asyncio.create_task(here.submit(wait_ms=30_000, new_id=f"c0.{name}")) for name in "ab"]
            await somebody_waits(world, 2)
            assert cell_in(await here.submit(wait_ms=30_000, new_id="c0.c")) == "ALL_CANDIDATES_FULL_OR_FAILED"
            for one in held:
                assert isinstance(one, Submitted)
                await finish(world, one)
            async with asyncio.timeout(5):
                assert {cell_in(await one) for one in waiting} == {"c0", "c1"}

    @pytest.mark.parametrize("ends", ["refused", "away"])
    async def test_an_id_is_not_given_back_while_its_job_may_be_on_its_way_into_another_cell(
        self, world: World, here: Instance, ends: str
    ) -> None:
        await fill(here, 4)
        held = [await here.submit() for _ in range(4)]
        late: list[Run] = []

        async def lose(run: Run) -> object:
            """The second try is lost on its way, and comes when nobody thinks of it any more."""
            if engine.ran.count("dispatch") < 3 or late:
                return await run()
            late.append(run)
            await here.submit()
            if ends == "away":
                engine.away.add(DIRECTORY)
            raise OutcomeUnknown("no reply came")

        engine = meddled(world.engine, dispatch=lose)
        instance = Instance(engine)
        await instance.directory.read()
        first = asyncio.create_task(instance.submit(wait_ms=30_000, request_id="r1"))
        await somebody_waits(world)
        waits_in = next(cell_of(job_id) for job_id, state in (await jobs_in(world)).items() if state == "WAITING")
        other = next(one for one in held if isinstance(one, Submitted) and cell_of(one.job_id) != waits_in)
        await finish(world, other)
        async with asyncio.timeout(5):
            (told,) = await asyncio.gather(first, return_exceptions=True)
        assert late
        for one in held:
            if isinstance(one, Submitted) and one is not other:
                await finish(world, one)
        await late[0]()
        engine.away.clear()
        again = await Instance(world.engine).submit(wait_ms=30_000, request_id="r1")
        assert isinstance(again, Submitted)
        jobs = await jobs_in(world)
        assert len([job_id for job_id in jobs if jobs[job_id] in {"RESERVED", "WAITING"}]) == 2, (told, jobs)

    async def test_who_begins_to_wait_in_the_only_cell_it_knows_finds_the_others(
        self, world: World, here: Instance, there: Instance
    ) -> None:
        await fill(here, 2)
        for _ in range(2):
            await there.submit()
        await here.join("n2")
        assert there.directory.is_one
        async with asyncio.timeout(5):
            assert cell_in(await there.submit(wait_ms=30_000)) == "c1"
        assert "WAITING" not in (await jobs_in(world)).values()


class TestWhatWasLost:
    """The directory's own slot may have lost what it was told, or somebody died before he told it."""

    async def test_a_home_in_which_nobody_ever_came_is_given_up(self, world: World, here: Instance) -> None:
        async def die(_: object) -> object:
            raise _Died

        with pytest.raises(_Died):
            await Instance(meddled(world.engine, register=die)).join("n0")
        survey = Survey(here.directory, lambda: world.now_ms)
        await survey.step()
        assert isinstance(await read_home(world.engine, "n0"), HomeView)
        world.now_ms += LONG_MS
        await survey.step()
        assert await read_home(world.engine, "n0") == Nowhere()

    async def test_pairs_that_it_has_lost_are_found_and_those_that_nobody_serves_are_gone(
        self, world: World, here: Instance
    ) -> None:
        await here.join("n0")
        await asyncio.gather(*here.directory._telling)
        await world.engine.command("DEL", cell_key(world.engine.prefix, DIRECTORY, "routes"), cell=DIRECTORY)
        survey = Survey(here.directory, lambda: world.now_ms)
        await survey.step()
        assert (await read_routes(world.engine, ["en:zh"])).routes == [["c0"]]
        await let_go(here.directory, "n0")
        await survey.step()
        assert (await read_routes(world.engine, ["en:zh"])).routes == [[]]

    async def test_a_directory_that_was_emptied_is_written_again_and_nobody_is_refused_meanwhile(
        self, world: World, here: Instance, there: Instance
    ) -> None:
        await fill(here)
        await there.directory.read()
        keys = [cell_key(world.engine.prefix, DIRECTORY, name) for name in ("directory", "cells", "homes", "routes")]
        await world.engine.command("DEL", *keys, cell=DIRECTORY)
        for _ in range(6):
            assert isinstance(await there.submit(), Submitted)
        # A node that comes back is where it was, and nowhere else.
        assert await here.join("n5") == "c2"
        await Survey(there.directory, lambda: world.now_ms).step()
        assert not there.directory.has_lost
        assert isinstance(await read_home(world.engine, "n0"), HomeView)
        await judge(world)

    async def test_a_pair_that_a_fail_over_of_the_directory_forgot_is_found_at_once(
        self, world: World, here: Instance, there: Instance
    ) -> None:
        """Its version is what it was: somebody else has told it something since."""
        await fill(here, 4)
        await here.join("rare", semantic_langs=["fr", "de"], nmt_pairs=[["fr", "de"]])
        await asyncio.gather(*here.directory._telling)
        await there.directory.read()
        routes, directory = (cell_key(world.engine.prefix, DIRECTORY, name) for name in ("routes", "directory"))
        await world.engine.command("HDEL", routes, "fr:de", cell=DIRECTORY)
        await world.engine.command("HINCRBY", directory, "version", -1, cell=DIRECTORY)
        await here.join("next", semantic_langs=["ja", "ko"], nmt_pairs=[["ja", "ko"]])
        await asyncio.gather(*here.directory._telling)
        there.directory.reign = "the one that died"
        assert isinstance(await there.submit("fr", "de"), Submitted)
        await Survey(there.directory, lambda: world.now_ms).step()
        assert not there.directory.has_lost
        assert (await read_routes(world.engine, ["fr:de"])).routes == [["c2"]]

    async def test_each_cell_hears_how_many_are_silent_in_the_others(self, world: World, here: Instance) -> None:
        await fill(here, 5)
        world.now_ms += 10**9
        assert not isinstance(await hear_beat(here.directory, "n4"), Refusal)
        for cell in ("c0", "c1", "c2"):
            await reap(world.engine, cell)
        await Survey(here.directory, lambda: world.now_ms).tell_of_silence()
        told = [(await look_into(world, cell)).counts for cell in ("c0", "c1", "c2")]
        assert [(counts["others_silent"], counts["others_heard"]) for counts in told] == [(2, 1), (2, 1), (4, 0)]

    async def test_a_node_that_came_to_be_in_two_cells_leaves_the_one_that_is_not_its_home(
        self, world: World, here: Instance
    ) -> None:
        await fill(here)
        await world.engine.command("HDEL", cell_key(world.engine.prefix, DIRECTORY, "homes"), "n0", cell=DIRECTORY)
        await world.engine.command(
            "HINCRBY", cell_key(world.engine.prefix, DIRECTORY, "cells"), "c0", -1, cell=DIRECTORY
        )
        blind = Instance(world.engine)
        await blind.directory.begin("c3")
        blind.directory.cells = ("c3",)
        await blind.join("other1", **ONE_SLOT)
        assert await blind.join("n0") in {"c0", "c3"}
        world.now_ms += LONG_MS
        survey = Survey(here.directory, lambda: world.now_ms)
        for _ in range(8):
            await survey.step()
        homes = [name for name in await cells_of(world) if "n0" in (await look_into(world, name)).nodes]
        assert len(homes) == 1
