"""A submit that waits looks for itself, seldom and lightly, for the case that nobody tells it what happened."""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Event
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.relay import Taken, relay
from lingua_scheduler.front.ask import Ask, Submitted
from lingua_scheduler.front.placing import _Ear, _pause_ms
from lingua_scheduler.front.submit import Submitter
from lingua_scheduler.views.whereabouts import Waits
from tests.support.meddling import meddled
from tests.support.pasts import give
from tests.support.stage import T0, join, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.meddling import Meddle, Run
    from tests.support.world import World

    Task = asyncio.Task[Submitted | Refusal]

ASK = Ask("s1", "en", "zh", body="hello", wanted=Wanted(wait_ms=2_000))
AWAY = DependencyDown("UNREACHABLE", "it is away")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[Waits]:
    """What each pause was made of; none of them is long."""
    found: list[Waits] = []

    def note(waits: Waits) -> int:
        found.append(waits)
        return 1

    monkeypatch.setattr("lingua_scheduler.front.placing._pause_ms", note)
    monkeypatch.setattr("lingua_scheduler.front.placing._STROKE_S", 0.001)
    return found


@pytest.fixture
def must_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lingua_scheduler.front.placing._pause_ms", lambda _: 3_600_000)


async def busy(world: World) -> str:
    """n1 has one slot, and this job has it."""
    await join(world, "n1", max_concurrent_jobs=1)
    return await give(world, "n1")


@asynccontextmanager
async def submitting(engine: Any, ask: Ask = ASK, **named: Any) -> AsyncIterator[tuple[Submitter, Task]]:
    """A caller; what never comes is a failure, and no hanging test."""
    submitter = Submitter(engine, CELL)
    task = asyncio.create_task(submitter.submit(ask, **named))
    try:
        async with asyncio.timeout(10):
            yield submitter, task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def states(world: World) -> list[str]:
    """Of all jobs but the one that keeps n1 busy."""
    return [job.state for job_id, job in (await world.cell()).jobs.items() if ".for-" not in job_id]


async def events(world: World) -> list[Event]:
    taken = await relay(world.engine, CELL)
    assert isinstance(taken, Taken)
    return taken.events


@pytest.mark.parametrize(
    ("waited_ms", "left_ms", "pause_ms"),
    [
        (0, 2_000, 100),
        (100, 1_900, 100),
        (200, 1_800, 200),
        (400, 1_600, 400),
        (800, 1_200, 800),
        (1_600, 60_000, 1_000),
        # Soon after its end, however short its time is.
        (0, 20, 100),
        (59_000, 899, 999),
        (59_000, 150, 250),
        (59_999, 1, 101),
        # Whoever sweeps is late: it counts anew.
        (60_000, 0, 100),
        (60_100, -100, 100),
        (60_400, -400, 400),
        (70_000, -10_000, 1_000),
        # The engine's clock was set back.
        (-5_000, 7_000, 100),
    ],
)
def test_the_longer_it_waits_the_more_seldom_it_looks_until_its_time_is_over(
    waited_ms: int, left_ms: int, pause_ms: int
) -> None:
    assert _pause_ms(Waits(waited_ms, left_ms)) == pause_ms


async def test_it_goes_by_the_engine_s_clock(world: World, pauses: list[Waits]) -> None:
    await busy(world)
    engine = meddled(world.engine)
    async with submitting(engine) as (_, task):
        await engine.until("dispatch")
        for at_ms in (700, 1_900, 2_050):
            world.now_ms = T0 + at_ms
            await engine.until("whereabouts", engine.ran.count("whereabouts") + 2)
            assert Waits(at_ms, 2_000 - at_ms) in pauses
        assert pauses[0] == Waits(0, 2_000)
        await sweep(world)
        answer = await task
        assert isinstance(answer, Refusal)
        assert answer.waited_ms == 2_000


async def test_a_wait_is_no_longer_than_the_job_s_own_time(world: World, pauses: list[Waits]) -> None:
    await busy(world)
    ask = Ask("s1", "en", "zh", limits=Limits(timeout_ms=500), wanted=ASK.wanted)
    async with submitting(world.engine, ask) as (_, task):
        while not pauses:  # noqa: ASYNC110 - the submitter rings no bell
            await asyncio.sleep(0)
        assert pauses[0] == Waits(0, 500)
        world.now_ms += 500
        await sweep(world)
        answer = await task
        assert isinstance(answer, Refusal)
        assert answer.waited_ms == 500


@pytest.mark.usefixtures("pauses")
async def test_a_look_asks_where_the_job_is_and_nothing_else(world: World) -> None:
    job_id = await busy(world)
    engine = meddled(world.engine)
    async with submitting(engine) as (_, task):
        await engine.until("whereabouts", 3)
        await done(world.engine, job_id, 1, "n1")
        assert isinstance(await task, Submitted)
        assert set(engine.ran) == {"dispatch", "routes", "whereabouts"}
        assert engine.ran.count("routes") == 1


async def test_looks_of_a_stroke_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the engine's client folds them."""
    monkeypatch.setattr("lingua_scheduler.front.placing._STROKE_S", 0.2)
    now = asyncio.get_running_loop().time()
    to_stroke_ms = round((math.ceil(now / 0.2) * 0.2 - now) * 1000)
    pauses = [to_stroke_ms + more_ms for more_ms in (20, 70, 120)]
    tasks = [asyncio.create_task(_Ear().listen(pause_ms)) for pause_ms in pauses]
    _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert not pending


@pytest.mark.usefixtures("must_hear")
async def test_what_is_heard_during_a_look_makes_it_look_again(world: World) -> None:
    """The look saw it wait; what happened then must not be missed until the next one."""
    executed, goes_on = asyncio.Event(), asyncio.Event()

    async def hold_back(run: Run) -> object:
        answer = await run()
        executed.set()
        await goes_on.wait()
        return answer

    job_id = await busy(world)
    engine = meddled(world.engine, whereabouts=hold_back)
    async with submitting(engine) as (submitter, task):
        await engine.until("dispatch")
        while not submitter._placer._ears:  # noqa: ASYNC110 - the submitter rings no bell
            await asyncio.sleep(0)
        [waits] = submitter._placer._ears
        submitter.hear(Event("fenced", f"{CELL}.{waits}", 0, "", "", "", world.now_ms))
        await executed.wait()
        await done(world.engine, job_id, 1, "n1")
        for event in await events(world):
            submitter.hear(event)
        goes_on.set()
        answer = await task
        assert isinstance(answer, Submitted)
        assert answer.placed.node_id == "n1"


@pytest.mark.usefixtures("must_hear")
async def test_a_refusal_that_is_heard_during_the_look_says_why(world: World) -> None:
    async def refuse_meanwhile(run: Run) -> object:
        world.now_ms += 2_000
        await sweep(world)
        answer = await run()
        for event in await events(world):
            submitter.hear(event)
        return answer

    await busy(world)
    engine = meddled(world.engine, whereabouts=refuse_meanwhile)
    async with submitting(engine) as (submitter, task):
        await engine.until("dispatch")
        while not submitter._placer._ears:  # noqa: ASYNC110 - the submitter rings no bell
            await asyncio.sleep(0)
        [waits] = submitter._placer._ears
        submitter.hear(Event("fenced", f"{CELL}.{waits}", 0, "", "", "", world.now_ms))
        answer = await task
    assert isinstance(answer, Refusal)
    assert answer.breakdown == Breakdown(pool=1, full=1)


class TestWhileTheEngineIsAway:
    """A job that waits in it goes on waiting."""

    @pytest.mark.usefixtures("pauses")
    async def test_it_counts_from_the_last_look(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its time has passed here, but not in the engine."""
        began, times = asyncio.get_running_loop().time(), 0

        async def fail_late(run: Run) -> object:
            nonlocal times
            if asyncio.get_running_loop().time() > began + 0.6:
                times += 1
                if times == 1:
                    raise AWAY
            return await run()

        monkeypatch.setattr("lingua_scheduler.front.placing._SELDOM_MS", 10)
        job_id = await busy(world)
        ask = Ask("s1", "en", "zh", wanted=Wanted(wait_ms=300))
        engine = meddled(world.engine, whereabouts=fail_late)
        async with submitting(engine, ask) as (_, task):
            while times < 2 and not task.done():  # noqa: ASYNC110 - it rings no bell when it fails
                await asyncio.sleep(0)
            await done(world.engine, job_id, 1, "n1")
            assert isinstance(await task, Submitted)

    @pytest.mark.usefixtures("pauses")
    @pytest.mark.parametrize("error", [AWAY, OutcomeUnknown("no reply came")])
    async def test_a_caller_waits_on(self, world: World, error: Exception) -> None:
        times = 0

        async def fail_thrice(run: Run) -> object:
            nonlocal times
            times += 1
            if times in {2, 3, 4}:
                raise error
            return await run()

        job_id = await busy(world)
        engine = meddled(world.engine, whereabouts=fail_thrice)
        async with submitting(engine) as (_, task):
            await engine.until("whereabouts", 3)
            assert times > 5
            await done(world.engine, job_id, 1, "n1")
            assert isinstance(await task, Submitted)

    @pytest.mark.usefixtures("must_hear")
    async def test_what_was_heard_before_is_not_forgotten(self, world: World) -> None:
        failed = asyncio.Event()

        async def fail_once(run: Run) -> object:
            if failed.is_set():
                return await run()
            failed.set()
            raise AWAY

        await busy(world)
        async with submitting(meddled(world.engine, whereabouts=fail_once)) as (submitter, task):
            while not submitter._placer._ears:  # noqa: ASYNC110 - the submitter rings no bell
                await asyncio.sleep(0)
            [[ear]] = submitter._placer._ears.values()
            world.now_ms += 2_000
            await sweep(world)
            for event in await events(world):
                submitter.hear(event)
            await failed.wait()
            ear._bell.set()
            answer = await task
        assert isinstance(answer, Refusal)
        assert answer.breakdown == Breakdown(pool=1, full=1)

    async def _fails(self, world: World, monkeypatch: pytest.MonkeyPatch, **named: Any) -> None:
        async def fail(_: Run) -> object:
            raise AWAY

        monkeypatch.setattr("lingua_scheduler.front.placing._SELDOM_MS", 10)
        await busy(world)
        ask = Ask("s1", "en", "zh", wanted=Wanted(wait_ms=20))
        async with submitting(meddled(world.engine, whereabouts=fail), ask, **named) as (submitter, task):
            with pytest.raises(OutcomeUnknown, match=r"waited, and the engine went away: .* it is away"):
                await task
            assert submitter._placer._ears == {}

    @pytest.mark.usefixtures("pauses")
    async def test_until_the_end_of_its_wait_and_then_its_job_is_left_to_whoever_chose_its_id(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await self._fails(world, monkeypatch, new_id=f"{CELL}.chosen")
        assert await states(world) == ["WAITING"]

    @pytest.mark.usefixtures("pauses")
    @pytest.mark.parametrize("request_id", ["r1", ""])
    async def test_under_a_request_id_the_job_is_there_for_whoever_comes_again(
        self, world: World, monkeypatch: pytest.MonkeyPatch, request_id: str
    ) -> None:
        """Also under one that he was only given with the error."""
        await self._fails(world, monkeypatch, request_id=request_id)
        assert await states(world) == ["WAITING"]


class TestACallerWithoutARequestIdWhoDoesNotHear:
    """Nobody else could ever ask for his job, so it does not run, unless he can ask again."""

    @pytest.mark.parametrize("name", ["dispatch", "remember"])
    async def test_he_went_away_when_it_was_placed(self, world: World, name: str) -> None:
        executed = asyncio.Event()

        async def hold_back(run: Run) -> object:
            await run()
            executed.set()
            return await asyncio.Future()

        await join(world, "n1")
        async with submitting(meddled(world.engine, **{name: hold_back}), Ask("s1", "en", "zh", utterance_index=7)) as (
            _,
            task,
        ):
            await executed.wait()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert await states(world) == ["CANCELLED"]
            assert [(event.kind, event.attempt) for event in await events(world)] == [("ended", 1), ("fenced", 1)]

    async def test_he_went_away_and_chose_its_id_himself(self, world: World) -> None:
        """Another may know it too: what becomes of it is for them to say."""
        executed = asyncio.Event()

        async def hold_back(run: Run) -> object:
            await run()
            executed.set()
            return await asyncio.Future()

        await join(world, "n1")
        async with submitting(meddled(world.engine, dispatch=hold_back), new_id=f"{CELL}.chosen") as (_, task):
            await executed.wait()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert await states(world) == ["RESERVED"]

    async def test_the_answer_was_lost_to_whoever_chose_its_id_himself(self, world: World) -> None:
        async def lose(run: Run) -> object:
            await run()
            raise OutcomeUnknown("no reply came")

        await join(world, "n1")
        async with submitting(meddled(world.engine, dispatch=lose), new_id=f"{CELL}.chosen") as (_, task):
            with pytest.raises(OutcomeUnknown, match="no reply came"):
                await task
            assert await states(world) == ["RESERVED"]

    async def test_the_answer_was_lost_and_he_asks_again(self, world: World) -> None:
        async def lose(run: Run) -> object:
            await run()
            raise OutcomeUnknown("no reply came")

        await join(world, "n1")
        async with submitting(meddled(world.engine, dispatch=lose)) as (_, task):
            with pytest.raises(OutcomeUnknown) as unknown:
                await task
        (job_id,) = (await world.cell()).jobs
        submitter, again = Submitter(world.engine, CELL), unknown.value.request_id
        for _ in range(2):
            answer = await submitter.submit(ASK, request_id=again)
            assert isinstance(answer, Submitted)
            assert (answer.job_id, answer.is_new) == (job_id, False)
        for other, principal in ((Ask("s1", "en", "fr"), ""), (ASK, "somebody")):
            refused = await submitter.submit(other, principal=principal, request_id=again)
            assert isinstance(refused, Refusal)
            assert refused.code == "IDEMPOTENCY_CONFLICT"

    async def test_if_the_engine_stays_away_he_is_told_the_first_error(self, world: World) -> None:
        async def lose(run: Run) -> object:
            await run()
            raise OutcomeUnknown("no reply came")

        async def fail(_: Run) -> object:
            raise AWAY

        await join(world, "n1")
        async with submitting(meddled(world.engine, dispatch=lose, cancel=fail)) as (_, task):
            with pytest.raises(OutcomeUnknown, match="no reply came"):
                await task
            assert await states(world) == ["RESERVED"]


async def test_a_refusal_is_told_even_if_the_request_id_cannot_be_given_back(world: World) -> None:
    async def fail(_: Run) -> object:
        raise AWAY

    await busy(world)
    async with submitting(meddled(world.engine, disclaim=fail), Ask("s1", "en", "zh"), request_id="r1") as (_, task):
        answer = await task
        assert isinstance(answer, Refusal)
        assert answer.code == "ALL_CANDIDATES_FULL_OR_FAILED"


@pytest.mark.parametrize("other", [Ask("s1", "en", "zh"), Ask("s1", "en", "zh", body="other")])
async def test_who_sleeps_through_his_claim_gets_the_job_of_whoever_came_after_him(world: World, other: Ask) -> None:
    """Or a conflict. The job that he made himself does not run."""
    answers = []

    def sleeps() -> Meddle:
        async def sleep(run: Run) -> object:
            # The lease is over, and another comes with the same id.
            await world.engine.command("UNLINK", f"{world.engine.prefix}:{{req:anyone:r1}}:claim")
            answers.append(await Submitter(world.engine, CELL).submit(other, request_id="r1"))
            engine._meddlers.clear()
            return await run()

        return sleep

    await join(world, "n1")
    engine = meddled(world.engine, seal=sleeps())
    async with submitting(engine, Ask("s1", "en", "zh"), request_id="r1") as (_, task):
        late = await task
        [answer] = answers
        assert isinstance(answer, Submitted)
        if other == Ask("s1", "en", "zh"):
            assert isinstance(late, Submitted)
            assert (late.job_id, late.is_new) == (answer.job_id, False)
        else:
            assert isinstance(late, Refusal)
            assert late.code == "IDEMPOTENCY_CONFLICT"
        jobs = (await world.cell()).jobs
        assert jobs.pop(answer.job_id).state == "RESERVED"
        assert [job.state for job in jobs.values()] == ["CANCELLED"]
