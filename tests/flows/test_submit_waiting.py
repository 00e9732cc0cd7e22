"""A submit that may wait is answered when its job has a node, or has waited long enough; whoever hears of it first."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.ids import name_of
from lingua_scheduler.core.records import Claim, Event
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.core.walk import Walk
from lingua_scheduler.core.wanted import Hints, Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.relay import Taken, relay
from lingua_scheduler.flows.seal import seal
from lingua_scheduler.front.ask import Ask, Submitted
from lingua_scheduler.front.submit import Submitter
from lingua_scheduler.loops.relayer import Relayer
from lingua_scheduler.store.keys import cell_key, request_tag
from lingua_scheduler.views.memory import recall
from tests.support.meddling import meddled
from tests.support.pasts import give
from tests.support.stage import code_of, join, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from lingua_scheduler.store.scripts import Script
    from tests.support.world import World

    Answer = asyncio.Task[Submitted | Refusal]

WAITS = Wanted(wait_ms=2_000)
ASK = Ask("s1", "en", "zh", body="hello", wanted=WAITS)

#: How often a submit looks for itself, in ms: so often that it is quick, or so seldom that it must hear.
OFTEN, NEVER = 1, 3_600_000


@pytest.fixture(params=["by its own look", "by what it hears"])
def hears(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether somebody in this process hands it what happened; otherwise it must look."""
    must_hear = bool(request.param == "by what it hears")
    look_every(NEVER if must_hear else OFTEN, monkeypatch)
    return must_hear


@pytest.fixture
def must_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for himself."""
    look_every(NEVER, monkeypatch)


def look_every(pause_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lingua_scheduler.front.placing._pause_ms", lambda _: pause_ms)
    monkeypatch.setattr("lingua_scheduler.front.placing._STROKE_S", 0.001)


def stroll(work: Coroutine[Any, None, object]) -> Walk:
    """As a request is worked on, which is no task."""
    walk = Walk(work, lambda _: None)
    asyncio.get_running_loop().call_soon(walk.begin)
    return walk


async def busy(world: World) -> str:
    """n1 has one slot, and this job has it."""
    await join(world, "n1", max_concurrent_jobs=1)
    return await give(world, "n1")


@asynccontextmanager
async def submitting(world: World, submitter: Submitter, *asks: Ask, **named: Any) -> AsyncIterator[list[Answer]]:
    """Submits that wait, all of them, when this begins."""
    async with asyncio.timeout(5):
        tasks = [asyncio.create_task(submitter.submit(ask, **named)) for ask in asks]
        while len(await waiting(world)) < len(asks):  # noqa: ASYNC110 - the engine rings no bell
            await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def waiting(world: World) -> list[str]:
    return sorted(job_id for job_id, job in (await world.cell()).jobs.items() if job.state == "WAITING")


async def tell(world: World, submitter: Submitter) -> None:
    """Hand over what is in the outbox, as a relayer does."""
    taken = await relay(world.engine, CELL)
    assert isinstance(taken, Taken)
    for event in taken.events:
        submitter.hear(event)


async def test_it_is_answered_when_a_slot_is_free(world: World, hears: bool) -> None:
    job_id = await busy(world)
    submitter = Submitter(world.engine, CELL)
    async with submitting(world, submitter, ASK) as [task]:
        (waits,) = await waiting(world)
        await done(world.engine, job_id, 1, "n1")
        if hears:
            await tell(world, submitter)
        answer = await task
    assert isinstance(answer, Submitted)
    assert answer.job_id == waits
    assert (answer.placed.state, answer.placed.node_id, answer.placed.attempt_id) == ("RESERVED", "n1", 1)
    assert answer.placed.epoch == (await world.cell()).nodes["n1"].epoch
    # The outbox carries it to its node.
    assert not answer.is_new


async def test_where_a_job_went_that_waited_is_remembered(world: World, hears: bool) -> None:
    job_id = await busy(world)
    submitter = Submitter(world.engine, CELL)
    async with submitting(world, submitter, Ask("s1", "en", "zh", "", 7, wanted=WAITS, bind_key="t1")) as [task]:
        assert await recall(world.engine, "s1", bind_key="t1", utterance_index=7) == Hints()
        await done(world.engine, job_id, 1, "n1")
        if hears:
            await tell(world, submitter)
        await task
    assert await recall(world.engine, "s1", bind_key="t1", utterance_index=7) == Hints("n1", "n1", "", ("n1",))


async def test_each_hears_of_its_own_job(world: World, hears: bool) -> None:
    """Two wait, and one slot becomes free: the other waits on."""
    job_id = await busy(world)
    submitter = Submitter(world.engine, CELL)
    async with submitting(world, submitter, ASK, ASK) as tasks:
        first, second = await waiting(world)
        await done(world.engine, job_id, 1, "n1")
        if hears:
            await tell(world, submitter)
        finished, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        (answer,) = [task.result() for task in finished]
        assert isinstance(answer, Submitted)
        assert answer.job_id == first
        assert await waiting(world) == [second]
        await done(world.engine, first, 1, "n1")
        if hears:
            await tell(world, submitter)
        (later,) = await asyncio.gather(*pending)
    assert isinstance(later, Submitted)
    assert later.job_id == second


async def test_one_that_waited_in_vain_is_refused(world: World, hears: bool) -> None:
    await busy(world)
    submitter = Submitter(world.engine, CELL)
    async with submitting(world, submitter, ASK) as [task]:
        world.now_ms += 2_000
        await sweep(world)
        if hears:
            await tell(world, submitter)
        answer = await task
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.waited_ms) == ("ALL_CANDIDATES_FULL_OR_FAILED", 2_000)
    assert await waiting(world) == []


@pytest.mark.usefixtures("must_hear")
async def test_who_hears_of_the_refusal_can_say_how_long_it_waited_and_why(world: World) -> None:
    await busy(world)
    await join(world, "n2")
    await drain(world.engine, CELL, "n2")
    submitter = Submitter(world.engine, CELL)
    async with submitting(world, submitter, ASK) as [task]:
        world.now_ms += 2_345
        await sweep(world)
        await tell(world, submitter)
        answer = await task
    assert isinstance(answer, Refusal)
    assert (answer.waited_ms, answer.breakdown) == (2_345, Breakdown(pool=2, full=1, draining=1))
    assert answer.detail.startswith("It waited 2345 ms.")
    assert (answer.status, answer.retryable) == (503, True)


async def test_a_refusal_after_a_wait_frees_the_request_id(world: World, hears: bool) -> None:
    """For another body, too."""
    job_id = await busy(world)
    submitter = Submitter(world.engine, CELL)
    async with submitting(world, submitter, ASK, request_id="r1") as [task]:
        world.now_ms += 2_000
        await sweep(world)
        if hears:
            await tell(world, submitter)
        assert code_of(await task) == "ALL_CANDIDATES_FULL_OR_FAILED"
    await done(world.engine, job_id, 1, "n1")
    other = Ask("s1", "en", "zh", body="other")
    assert isinstance(await submitter.submit(other, request_id="r1"), Submitted)
    assert code_of(await submitter.submit(ASK, request_id="r1")) == "IDEMPOTENCY_CONFLICT"


async def test_the_same_request_twice_in_one_process_waits_for_the_same_job(world: World, hears: bool) -> None:
    job_id = await busy(world)
    submitter = Submitter(world.engine, CELL)
    async with submitting(world, submitter, ASK, request_id="r1") as [task]:
        again = asyncio.create_task(submitter.submit(ASK, request_id="r1"))
        while len((await claimed(world)).claimants) < 2:  # noqa: ASYNC110 - the engine rings no bell
            await asyncio.sleep(0)
        await waiting(world)
        await done(world.engine, job_id, 1, "n1")
        if hears:
            await tell(world, submitter)
        answers = await asyncio.gather(task, again)
    assert isinstance(answers[0], Submitted)
    assert isinstance(answers[1], Submitted)
    assert answers[0].job_id == answers[1].job_id


async def claimed(world: World) -> Claim:
    packed = await world.engine.command("GET", cell_key(world.engine.prefix, request_tag("anyone", "r1"), "claim"))
    return msgspec.msgpack.decode(packed, type=Claim)


async def test_the_same_request_at_another_instance_waits_for_the_same_job(world: World, hears: bool) -> None:
    job_id = await busy(world)
    one, other = Submitter(world.engine, CELL), Submitter(world.engine, CELL)
    async with submitting(world, one, ASK, request_id="r1") as [task]:
        again = asyncio.create_task(other.submit(ASK, request_id="r1"))
        while not other._placer._ears:  # noqa: ASYNC110 - the submitter rings no bell
            await asyncio.sleep(0)
        assert len(await waiting(world)) == 1
        await done(world.engine, job_id, 1, "n1")
        if hears:
            taken = await relay(world.engine, CELL)
            assert isinstance(taken, Taken)
            for event in taken.events:
                one.hear(event)
                other.hear(event)
        answers = await asyncio.gather(task, again)
    assert answers[0] == answers[1]
    assert isinstance(answers[0], Submitted)


async def test_whoever_finds_the_request_sealed_and_its_job_waiting_waits_too(world: World, hears: bool) -> None:
    job_id = await busy(world)
    submitter = Submitter(world.engine, CELL)
    async with submitting(world, submitter, ASK, request_id="r1") as [task]:
        [found] = await waiting(world)
        await seal(world.engine, "anyone", "r1", ASK.digest(), found, 60_000)
        again = asyncio.create_task(submitter.submit(ASK, request_id="r1"))
        while len(submitter._placer._ears[name_of(found)]) < 2:  # noqa: ASYNC110 - the submitter rings no bell
            await asyncio.sleep(0)
        await done(world.engine, job_id, 1, "n1")
        if hears:
            await tell(world, submitter)
        answers = await asyncio.gather(task, again)
    assert answers[0] == answers[1]
    assert isinstance(answers[0], Submitted)
    assert answers[0].job_id == found


@pytest.mark.usefixtures("must_hear")
async def test_a_relayer_brings_it_what_happened(world: World) -> None:
    job_id = await busy(world)
    submitter = Submitter(world.engine, CELL)

    async def hand_over(event: Any) -> None:
        submitter.hear(event)

    async with Relayer(world.engine, CELL, 1, hand_over), submitting(world, submitter, ASK) as [task]:
        await done(world.engine, job_id, 1, "n1")
        assert isinstance(await task, Submitted)


async def test_one_that_is_cancelled_meanwhile_says_so(world: World, hears: bool) -> None:
    await busy(world)
    submitter = Submitter(world.engine, CELL)
    async with submitting(world, submitter, ASK) as [task]:
        (job_id,) = await waiting(world)
        await cancel(world.engine, job_id)
        if hears:
            await tell(world, submitter)
        answer = await task
    assert isinstance(answer, Submitted)
    assert (answer.placed.state, answer.placed.node_id) == ("CANCELLED", "")


@pytest.mark.parametrize("wait_ms", [0, 2_000])
async def test_where_there_is_room_nobody_waits(world: World, wait_ms: int) -> None:
    await join(world)
    answer = await Submitter(world.engine, CELL).submit(Ask("s1", "en", "zh", wanted=Wanted(wait_ms=wait_ms)))
    assert isinstance(answer, Submitted)
    assert answer.placed.node_id == "n1"


async def test_who_does_not_want_to_wait_is_refused_at_once(world: World) -> None:
    await busy(world)
    answer = await Submitter(world.engine, CELL).submit(Ask("s1", "en", "zh"))
    assert isinstance(answer, Refusal)
    assert (answer.waited_ms, answer.breakdown) == (0, Breakdown(pool=1, full=1))


async def test_nobody_waits_for_what_can_never_be(world: World) -> None:
    await join(world)
    answer = await Submitter(world.engine, CELL).submit(Ask("s1", "zh", "en", wanted=WAITS))
    assert code_of(answer) == "NO_CAPABLE_NODE"


async def test_a_caller_that_goes_away_leaves_nothing_behind(world: World) -> None:
    """Nobody could ever ask for its job, so that takes nobody's slot."""
    await busy(world)
    submitter = Submitter(world.engine, CELL)
    async with submitting(world, submitter, ASK) as [task]:
        assert len(submitter._placer._ears) == 1
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    assert submitter._placer._ears == {}
    assert await waiting(world) == []


@pytest.mark.parametrize("begins", [asyncio.ensure_future, stroll])
async def test_a_caller_that_goes_away_in_the_tick_in_which_its_job_is_asked_for_has_none(
    world: World, begins: Callable[[Any], Walk | Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for in one tick goes out in an order of its own."""
    await join(world, "n1")
    run, over = world.engine.run, asyncio.Event()

    def going(script: Script, *said: Any) -> Any:
        answer = run(script, *said)
        if script.name == "dispatch":
            caller.cancel()
        return answer

    async def submit() -> None:
        try:
            await Submitter(world.engine, CELL).submit(ASK)
        finally:
            over.set()

    monkeypatch.setattr(world.engine, "run", going)
    caller = begins(submit())
    await asyncio.wait_for(over.wait(), 10)
    assert [job.state for job in (await world.cell()).jobs.values()] == ["CANCELLED"]


async def test_a_caller_that_goes_away_may_come_back_for_its_request(world: World) -> None:
    job_id = await busy(world)
    submitter = Submitter(world.engine, CELL)
    async with submitting(world, submitter, ASK, request_id="r1") as [task]:
        task.cancel()
        await asyncio.wait([task])
    [found] = await waiting(world)
    await done(world.engine, job_id, 1, "n1")
    again = await submitter.submit(ASK, request_id="r1")
    assert isinstance(again, Submitted)
    assert (again.job_id, again.placed.node_id, again.is_new) == (found, "n1", False)


@pytest.mark.usefixtures("must_hear")
async def test_an_old_refusal_does_not_refuse_the_next_life_of_the_same_job(world: World) -> None:
    """One waited in vain; another came for the same request before the first gave it up, and its wait began anew."""
    job_id = await busy(world)
    engine = meddled(world.engine)
    submitter = Submitter(engine, CELL)
    async with submitting(world, submitter, ASK, request_id="r1") as [task]:
        [found] = await waiting(world)
        submitter.hear(Event("refused", found, 0, "", "", "2000 1 1 0 0 0 0 0 0 0 0", world.now_ms - 1))
        await engine.until("whereabouts")
        await done(world.engine, job_id, 1, "n1")
        # What was heard once is a reason for one look.
        assert engine.ran.count("whereabouts") == 1
        await tell(world, submitter)
        submitted = await task
    assert isinstance(submitted, Submitted)
    assert (submitted.job_id, submitted.placed.node_id) == (found, "n1")


async def test_what_is_remembered_and_sealed_may_fail_when_the_job_is_placed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await join(world)

    async def fails(*_: object, **__: object) -> None:
        raise DependencyDown("OOM", "no memory")

    for name in ("placing.remember", "submit.seal"):
        monkeypatch.setattr(f"lingua_scheduler.front.{name}", fails)
    ask = Ask("s1", "en", "zh", utterance_index=7)
    submitted = await Submitter(world.engine, CELL).submit(ask, request_id="r1")
    assert isinstance(submitted, Submitted)
    assert submitted.is_new


@pytest.mark.usefixtures("must_hear")
async def test_what_nobody_waits_for_is_heard_without_harm(world: World) -> None:
    """Events of other jobs, and the same event twice."""
    job_id = await busy(world)
    submitter = Submitter(world.engine, CELL)
    async with submitting(world, submitter, ASK) as [task]:
        await done(world.engine, job_id, 1, "n1")
        taken = await relay(world.engine, CELL)
        assert isinstance(taken, Taken)
        for event in [*taken.events, *taken.events]:
            submitter.hear(event)
        assert isinstance(await task, Submitted)
    for event in taken.events:
        submitter.hear(event)
    assert submitter._placer._ears == {}
