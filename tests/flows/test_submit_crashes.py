"""One request, callers that wait, and may die or go away at any point between the scripts: one job, and none astray.

There is room when they come, or later, or their time is over before. A third caller, who lives, comes last. Then the
job is played to its end: carried by whoever was told that it is his, or by the outbox.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.relay import Taken, relay
from lingua_scheduler.front.ask import Ask, Submitted
from lingua_scheduler.front.submit import Submitter
from tests.support.meddling import meddled
from tests.support.pasts import give
from tests.support.stage import join, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingua_scheduler.core.records import Event, JobRecord
    from tests.support.meddling import Meddle, Run
    from tests.support.world import World

WAIT_MS: Final = 2_000
ACK_MS: Final = 5_000
#: What a submit of a numbered utterance calls, in this order.
SCRIPTS: Final = ("claim", "memory", "dispatch", "whereabouts", "remember", "seal", "disclaim")


class Died(Exception):
    """The process is gone."""


class Fate(NamedTuple):
    """At which script it ends, whether that was still executed, and whether the process dies or the caller goes."""

    script: str
    executed: bool
    dies: bool


FATES: Final = [Fate(*fate) for fate in itertools.product(SCRIPTS, (False, True), (False, True))]
#: Of the second caller: it lives, or it ends where that matters most.
SECOND: Final = (None, Fate("dispatch", True, True), Fate("whereabouts", True, False))


class Caller:
    """One that submits, in a process of its own, and meets its fate."""

    def __init__(self, world: World, fate: Fate | None, ask: Ask, request_id: str) -> None:
        self._fate = fate
        meddlers: dict[str, Meddle] = {fate.script: self._meet} if fate else {}
        self._engine = meddled(world.engine, **meddlers)
        self._submitter = Submitter(self._engine, CELL)
        self._task = asyncio.create_task(self._submitter.submit(ask, request_id=request_id))

    async def _meet(self, run: Run) -> bytes:
        fate = self._fate
        assert fate
        if fate.executed:
            await run()
        raise Died if fate.dies else asyncio.CancelledError

    async def has_come(self) -> None:
        """Until it waits, or is over."""
        waits = asyncio.create_task(self._engine.until("whereabouts"))
        await asyncio.wait([waits, self._task], return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()

    async def answer(self) -> Submitted | Refusal | None:
        """What it was told; None if it was told nothing."""
        async with asyncio.timeout(10):
            await asyncio.wait([self._task])
        assert self._submitter._placer._ears == {}
        if self._task.cancelled() or isinstance(self._task.exception(), Died):
            return None
        return self._task.result()


class Case:
    """Callers with one request, a node with one slot, and the job that has it when they come."""

    def __init__(self, world: World, number: int, *fates: Fate | None, name: str | None = None) -> None:
        self.world = world
        self.fates = fates
        self.node, self.other = f"n{number}", f"m{number}"
        self.ask = Ask(f"room-{number}", "en", "zh", str(number), utterance_index=7, wanted=Wanted(wait_ms=WAIT_MS))
        self.name = f"r{number}" if name is None else name

    def caller(self, fate: Fate | None) -> Caller:
        return Caller(self.world, fate, self.ask, self.name)

    async def play(self, room: str, *, at_once: bool) -> list[Submitted | Refusal | None]:
        """What the callers were told. There is room `now`, `later`, or only `after` their time."""
        world = self.world
        await join(world, self.node, max_concurrent_jobs=1)
        first = await give(world, self.node) if room != "now" else ""
        callers: list[Caller] = []
        for fate in self.fates:
            callers.append(self.caller(fate))
            if not at_once:
                await callers[-1].has_come()
        await asyncio.gather(*(caller.has_come() for caller in callers))
        if room == "later":
            await done(world.engine, first, 1, self.node)
        if room == "after":
            world.now_ms += WAIT_MS
            await sweep(world)
        answers = [await caller.answer() for caller in callers]
        if room == "after":
            await done(world.engine, first, 1, self.node)
        return answers

    async def jobs(self) -> dict[str, JobRecord]:
        """All jobs of this case."""
        cell = await self.world.cell()
        return {job_id: job for job_id, job in cell.jobs.items() if cell.tickets[job_id].session == self.ask.session_id}

    async def carry(self, answers: list[Submitted | Refusal | None]) -> str:
        """Play the job to its end. Who has carried it to a node: a caller, the outbox, or the outbox in the end."""
        [(job_id, job)] = (await self.jobs()).items()
        told = [answer for answer in answers if isinstance(answer, Submitted) and answer.is_new]
        by = "caller" if told else "outbox"
        reserved = await self.reserved()
        if not told and not reserved:
            # Whoever made it died with the answer. Its node never hears of it, and it goes to another.
            by = "in the end"
            await join(self.world, self.other)
            self.world.now_ms += ACK_MS
            await sweep(self.world)
            reserved = await self.reserved()
        attempts = {(answer.placed.attempt_id, answer.placed.node_id) for answer in told}
        attempts |= {(event.attempt, event.node) for event in reserved}
        [(attempt, node_id)] = attempts
        assert attempt == 1 + (by == "in the end"), job
        for step in (deliver, ack, done):
            assert not isinstance(await step(self.world.engine, job_id, attempt, node_id), Refusal)
        assert (await self.jobs())[job_id].state == "FINISHED"
        return by

    async def reserved(self) -> list[Event]:
        taken = await relay(self.world.engine, CELL, limit=1_000)
        assert isinstance(taken, Taken)
        await relay(self.world.engine, CELL, taken.events, 0)
        return [event for event in taken.events if event.kind == "reserved"]

    async def clean(self) -> None:
        """Nothing is left that has no end. (In the cell, the fixture `world` looks.)"""
        for node_id in (self.node, self.other):
            await leave(self.world.engine, CELL, node_id)
        for tag in (f"req:anyone:{self.name}", f"sess:{self.ask.session_id}"):
            for name in ("claim", "memory"):
                # -2: there is no such key.
                left_ms = await self.world.engine.command("PTTL", f"{self.world.engine.prefix}:{{{tag}}}:{name}")
                assert left_ms == -2 or left_ms > 0, (tag, name)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lingua_scheduler.front.placing._pause_ms", lambda _: 1)
    monkeypatch.setattr("lingua_scheduler.front.placing._STROKE_S", 0.001)


def cases(world: World) -> Iterator[Case]:
    for number, (one, two) in enumerate(itertools.product((None, *FATES), SECOND)):
        yield Case(world, number, one, two)


AT_ONCE = pytest.mark.parametrize("at_once", [False, True], ids=["one after the other", "at once"])


@AT_ONCE
@pytest.mark.parametrize(("room", "carriers"), [("now", {"caller", "in the end"}), ("later", {"outbox"})])
async def test_whoever_ends_wherever_it_is_one_job_and_somebody_carries_it(
    world: World, room: str, carriers: set[str], at_once: bool
) -> None:
    carried = set()
    for case in cases(world):
        answers = await case.play(room, at_once=at_once)
        answers.append(await case.caller(None).answer())
        assert isinstance(answers[-1], Submitted), (case.fates, answers)
        assert not any(isinstance(answer, Refusal) for answer in answers), (case.fates, answers)
        told = {answer.job_id for answer in answers if isinstance(answer, Submitted)}
        assert told == (await case.jobs()).keys(), (case.fates, answers)
        carried.add(await case.carry(answers))
        await case.clean()
    assert (await world.cell()).queue == []
    # One that waited is carried by the outbox, whoever is left. One that did not, and whose caller is gone, goes on.
    assert carried == carriers


@pytest.mark.parametrize("room", ["now", "later", "after"])
async def test_without_a_request_id_no_job_runs_that_nobody_can_fetch(world: World, room: str) -> None:
    """Except that of a caller whose process died: it ends by its deadline, and holds nothing then."""
    orphans = set()
    for number, fate in enumerate(fate for fate in FATES if fate.script not in {"claim", "seal", "disclaim"}):
        case = Case(world, number, fate, name="")
        [answer] = await case.play(room, at_once=False)
        states = [job.state for job in (await case.jobs()).values()]
        if isinstance(answer, Submitted):
            assert states == ["RESERVED"], fate
        elif fate.dies and set(states) & {"RESERVED", "WAITING"}:
            orphans.add((fate.script, fate.executed))
        else:
            assert states in ([], ["CANCELLED"]), fate
        world.now_ms += 60_000
        await sweep(world)
        assert all(job.state in ENDS for job in (await case.jobs()).values()), fate
        await case.clean()
    made = {("dispatch", True), ("remember", False), ("remember", True)}
    waited = {("whereabouts", False), ("whereabouts", True)}
    assert orphans == {"now": made, "later": made | waited, "after": set()}[room]
    assert (await world.cell()).queue == []


@AT_ONCE
async def test_who_waited_in_vain_is_refused_and_whoever_comes_later_gets_one_job(world: World, at_once: bool) -> None:
    for case in cases(world):
        answers = await case.play("after", at_once=at_once)
        for answer in answers:
            assert answer is None or isinstance(answer, Refusal), (case.fates, answers)
            assert answer is None or (answer.code, answer.waited_ms) == ("ALL_CANDIDATES_FULL_OR_FAILED", WAIT_MS)
        assert await case.jobs() == {}, case.fates
        third, fourth = await case.caller(None).answer(), await case.caller(None).answer()
        assert isinstance(third, Submitted), case.fates
        assert isinstance(fourth, Submitted), case.fates
        assert (fourth.job_id, third.is_new, fourth.is_new) == (third.job_id, True, False), case.fates
        assert await case.carry([third, fourth]) == "caller"
        await case.clean()
