"""One request, several callers, each of which may die at any point between the scripts: still one job (S10).

Every way in which two callers can die, one after the other and at once, with room in the fleet and without; and then a
third one that lives. What a dead caller had sent may have been executed or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pytest

from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Hints, Wanted
from lingua_scheduler.flows.claim import claim
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.release import release
from lingua_scheduler.front.ask import Ask, Submitted
from lingua_scheduler.front.submit import Submitter
from lingua_scheduler.views.memory import recall
from tests.support.meddling import meddled
from tests.support.stage import code_of, join, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.store.batch import Read
    from lingua_scheduler.store.engine import Engine
    from lingua_scheduler.store.scripts import Script
    from tests.support.meddling import Run
    from tests.support.world import World

ASK: Final = Ask("s1", "en", "zh", body="hello")
#: A submit is at most so many scripts.
CALLS: Final = 3


class Died(Exception):
    """The process is gone."""


class Death(NamedTuple):
    """At which call, and whether that was still executed."""

    call: int
    executed: bool


#: None: it lives.
DEATHS: Final = (None, *(Death(call, executed) for call in range(CALLS) for executed in (False, True)))


class Mortal:
    """An engine as a process has it that dies at one of its calls."""

    def __init__(self, engine: Engine, death: Death | None) -> None:
        self._engine = engine
        self._death = death
        self._calls = itertools.count()

    async def run(self, script: Script, cell: str, item: tuple[bytes, ...], read: Read) -> object:
        number = next(self._calls)
        if self._death and self._death == (number, False):
            raise Died
        answer = await self._engine.run(script, cell, item, read)
        if self._death and self._death == (number, True):
            raise Died
        return answer

    def reign_of(self, cell: str) -> str:
        return self._engine.reign_of(cell)


def known(first: Submitted) -> Submitted:
    """What whoever comes again is told."""
    return Submitted(first.job_id, msgspec.structs.replace(first.placed, is_new=False, deadline_at_ms=0))


async def submit(
    world: World, death: Death | None = None, ask: Ask = ASK, request_id: str = "r1"
) -> Submitted | Refusal | None:
    """What the caller was told; None if it died first."""
    mortal: Any = Mortal(world.engine, death)
    try:
        return await Submitter(mortal, CELL).submit(ask, request_id=request_id)
    except Died:
        return None


async def submit_twice(
    world: World, one: Death | None, two: Death | None, number: int, *, at_once: bool
) -> list[Submitted | Refusal | None]:
    """Two callers with one request."""
    ask, name = Ask("s1", "en", "zh", body=str(number)), f"r{number}"
    if at_once:
        return list(await asyncio.gather(submit(world, one, ask, name), submit(world, two, ask, name)))
    return [await submit(world, one, ask, name), await submit(world, two, ask, name)]


def told(answers: list[Submitted | Refusal | None]) -> set[str]:
    """The jobs that callers were told of."""
    return {answer.job_id for answer in answers if isinstance(answer, Submitted)}


AT_ONCE = pytest.mark.parametrize("at_once", [False, True], ids=["one after the other", "at once"])


@AT_ONCE
async def test_whoever_dies_wherever_a_request_is_one_job(world: World, at_once: bool) -> None:
    await join(world, max_concurrent_jobs=1_000)
    for number, (one, two) in enumerate(itertools.product(DEATHS, DEATHS)):
        answers = await submit_twice(world, one, two, number, at_once=at_once)
        answers.append(await submit(world, None, Ask("s1", "en", "zh", body=str(number)), f"r{number}"))
        assert len(told(answers)) == 1, (one, two, answers)
        assert not any(isinstance(answer, Refusal) for answer in answers), (one, two, answers)
        assert len((await world.cell()).jobs) == number + 1, (one, two)
    await world.check()


@AT_ONCE
async def test_a_refusal_is_not_remembered_whoever_dies_around_it(world: World, at_once: bool) -> None:
    """The fleet is full for the first two and has room for the third: one job, whatever the dead left behind."""
    await join(world, max_concurrent_jobs=1_000)
    for number, (one, two) in enumerate(itertools.product(DEATHS, DEATHS)):
        await heartbeat(world.engine, CELL, "n1", health="degraded")
        refused = await submit_twice(world, one, two, number, at_once=at_once)
        assert {code_of(answer) for answer in refused if answer} <= {"ALL_CANDIDATES_FULL_OR_FAILED"}
        await heartbeat(world.engine, CELL, "n1", health="ready")
        ask, name = Ask("s1", "en", "zh", body=str(number)), f"r{number}"
        third, fourth = await submit(world, None, ask, name), await submit(world, None, ask, name)
        assert isinstance(third, Submitted), (one, two, third)
        assert fourth == known(third)
        assert len((await world.cell()).jobs) == number + 1, (one, two)


async def test_a_full_fleet_frees_the_id_for_another_body(world: World) -> None:
    await join(world, health="degraded")
    assert code_of(await submit(world)) == "ALL_CANDIDATES_FULL_OR_FAILED"
    await heartbeat(world.engine, CELL, "n1", health="ready")
    other = Ask("s1", "en", "zh", body="other")
    assert isinstance(await submit(world, ask=other), Submitted)
    assert code_of(await submit(world)) == "IDEMPOTENCY_CONFLICT"


async def test_one_of_two_that_is_refused_leaves_the_id_to_the_other(world: World) -> None:
    """The first has claimed and not yet dispatched, the second is refused; the first then gets the very same job."""
    await join(world, health="degraded")
    assert await submit(world, Death(0, executed=True)) is None
    assert code_of(await submit(world)) == "ALL_CANDIDATES_FULL_OR_FAILED"
    await heartbeat(world.engine, CELL, "n1", health="ready")
    assert code_of(await submit(world, ask=Ask("s1", "en", "zh", body="other"))) == "IDEMPOTENCY_CONFLICT"
    assert isinstance(await submit(world), Submitted)


async def test_a_request_that_ended_is_answered_with_its_end_until_its_record_is_gone(world: World) -> None:
    await join(world)
    first = await submit(world)
    assert isinstance(first, Submitted)
    assert first.is_new
    await done(world.engine, first.job_id, 1, "n1")
    again = await submit(world)
    assert isinstance(again, Submitted)
    assert (again.job_id, again.placed.state, again.is_new) == (first.job_id, "FINISHED", False)
    await release(world.engine, first.job_id)
    world.now_ms += 300_000
    await sweep(world)
    await join(world)
    anew = await submit(world)
    assert isinstance(anew, Submitted)
    assert anew.job_id != first.job_id
    assert anew.is_new
    assert await submit(world) == known(anew)
    assert all(job.state not in ENDS for job in (await world.cell()).jobs.values())


async def test_a_claim_whose_caller_died_outlasts_the_job_that_it_may_have_made(world: World) -> None:
    await join(world)
    ask = Ask("s1", "en", "zh", limits=Limits(timeout_ms=600_000))
    assert await submit(world, Death(1, executed=True), ask) is None
    left_ms = await world.engine.command("PTTL", f"{world.engine.prefix}:{{req:anyone:r1}}:claim")
    assert 600_000 + world.rules.claim_lease_ms >= left_ms > 600_000
    assert isinstance(await submit(world, None, ask), Submitted)
    assert len((await world.cell()).jobs) == 1


async def test_without_a_request_id_every_submit_is_a_job_of_its_own(world: World) -> None:
    await join(world)
    one, two = [await Submitter(world.engine, CELL).submit(ASK) for _ in range(2)]
    assert isinstance(one, Submitted)
    assert isinstance(two, Submitted)
    assert one.job_id != two.job_id


async def test_an_ask_that_cannot_be_written_down_is_refused(world: World) -> None:
    answer = await submit(world, ask=Ask("s1", "en", "zh", body="\ud800"))
    assert code_of(answer) == "INVALID_MESSAGE"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"services": ("asr", "tts")}, {"services": ["tts", "asr"]}),
        ({"services": ("asr", "tts")}, {"services": ("asr", "tts", "asr")}),
        ({"exclude_node_ids": ("n2", "n3")}, {"exclude_node_ids": ["n3", "n2", "n3"]}),
        ({"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "2", "a": "1"}}),
    ],
)
async def test_in_which_order_a_set_is_listed_does_not_matter(
    world: World, one: dict[str, Any], other: dict[str, Any]
) -> None:
    await join(world, tts_langs=["zh"], labels={"a": "1", "b": "2"})
    first = await submit(world, ask=Ask("s1", "en", "zh", wanted=Wanted(**one)))
    assert isinstance(first, Submitted)
    assert await submit(world, ask=Ask("s1", "en", "zh", wanted=Wanted(**other))) == known(first)


@pytest.mark.parametrize(
    "other",
    [
        {"services": ("asr", "nmt")},
        {"exclude_node_ids": ("n2",)},
        {"exclude_node_ids": ("n2", "n4")},
        {"labels": {"a": "2", "b": "1"}},
        {"labels": {"a": "1"}},
    ],
)
def test_another_set_is_another_body(other: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"exclude_node_ids": ("n2", "n3"), "labels": {"a": "1", "b": "2"}}
    one, two = (Ask("s1", "en", "zh", wanted=Wanted(**wanted)) for wanted in (usual, usual | other))
    assert one.digest() != two.digest()


@pytest.mark.parametrize("wrong", [{"limits": None}, {"wanted": None}])
async def test_an_ask_of_the_wrong_kind_is_refused(world: World, wrong: dict[str, Any]) -> None:
    await join(world)
    assert code_of(await submit(world, ask=Ask("s1", "en", "zh", **wrong))) == "INVALID_MESSAGE"


@pytest.mark.parametrize("wrong", [{"services": [["asr"]]}, {"exclude_node_ids": 7}, {"labels": {"a": 1, 2: "b"}}])
async def test_a_wish_that_is_none_is_refused(world: World, wrong: dict[str, Any]) -> None:
    await join(world)
    assert code_of(await submit(world, ask=Ask("s1", "en", "zh", wanted=Wanted(**wrong)))) == "INVALID_MESSAGE"


def giving(*numbers: int | Refusal) -> Callable[[str], Awaitable[int | Refusal]]:
    """Whoever lets jobs in, with these numbers, and no more of them."""
    left = list(numbers)

    async def enters(_job_id: str) -> int | Refusal:
        return left.pop(0)

    return enters


class TestNumbers:
    async def index_of(self, world: World, submitted: Submitted | Refusal) -> int:
        assert isinstance(submitted, Submitted), submitted
        return (await world.cell()).tickets[submitted.job_id].utterance

    @pytest.mark.parametrize("request_id", ["", "r1"])
    async def test_a_job_of_an_ask_without_an_index_travels_under_the_given_number(
        self, world: World, request_id: str
    ) -> None:
        await join(world)
        submitter = Submitter(world.engine, CELL)
        submitted = await submitter.submit(ASK, request_id=request_id, enters=giving(7))
        assert await self.index_of(world, submitted) == 7

    @pytest.mark.parametrize(("index", "number", "on_the_wire"), [(None, None, 0), (3, 7, 3), (0, 7, 0), (3, None, 3)])
    async def test_an_index_of_the_ask_s_own_comes_first(
        self, world: World, index: int | None, number: int | None, on_the_wire: int
    ) -> None:
        await join(world)
        ask = msgspec.structs.replace(ASK, utterance_index=index)
        submitted = await Submitter(world.engine, CELL).submit(ask, enters=None if number is None else giving(number))
        assert await self.index_of(world, submitted) == on_the_wire

    async def test_the_same_request_with_another_number_is_the_same_job(self, world: World) -> None:
        await join(world)
        submitter = Submitter(world.engine, CELL)
        first, again = [await submitter.submit(ASK, request_id="r1", enters=giving(number)) for number in (7, 8)]
        assert isinstance(first, Submitted)
        assert again == known(first)
        assert await self.index_of(world, again) == 7

    @pytest.mark.parametrize("dies_at", ["", "dispatch", "seal"])
    async def test_only_a_job_that_is_not_there_has_to_come_in(self, world: World, dies_at: str) -> None:
        await join(world)
        enters, first = giving(7, *([8] if dies_at == "dispatch" else [])), None

        async def die(_run: Run) -> bytes:
            raise Died

        with contextlib.suppress(Died):
            engine = meddled(world.engine, **({dies_at: die} if dies_at else {}))
            first = await Submitter(engine, CELL).submit(ASK, request_id="r1", enters=enters)
        again = await Submitter(world.engine, CELL).submit(ASK, request_id="r1", enters=enters)
        assert await self.index_of(world, again) == (8 if dies_at == "dispatch" else 7)
        if isinstance(first, Submitted):
            assert again == known(first)

    async def test_whoever_is_not_let_in_leaves_no_claim(self, world: World) -> None:
        await join(world)
        submitter = Submitter(world.engine, CELL)
        full = Refusal("RATE_LIMITED", "Too many.")
        assert await submitter.submit(ASK, request_id="r1", enters=giving(full)) == full
        other = msgspec.structs.replace(ASK, body="another")
        assert await self.index_of(world, await submitter.submit(other, request_id="r1", enters=giving(7))) == 7

    async def test_of_the_same_request_twice_at_once_one_that_came_in_is_enough(self, world: World) -> None:
        await join(world)
        submitter, enters = Submitter(world.engine, CELL), giving(7, Refusal("RATE_LIMITED", "Too many."))
        asked = [submitter.submit(ASK, request_id="r1", enters=enters) for _ in range(2)]
        first, second = await asyncio.gather(*asked)
        assert isinstance(first, Submitted)
        assert second == known(first)

    async def test_a_number_is_nothing_to_remember(self, world: World) -> None:
        await join(world)
        await Submitter(world.engine, CELL).submit(ASK, enters=giving(7))
        assert await recall(world.engine, "s1", utterance_index=7) == Hints()

    async def test_a_number_that_cannot_be_is_refused(self, world: World) -> None:
        await join(world)
        assert code_of(await Submitter(world.engine, CELL).submit(ASK, enters=giving(-1))) == "INVALID_MESSAGE"

    async def test_a_job_that_is_made_in_another_s_place_has_its_own_maker_s_number(self, world: World) -> None:
        """The lease of the claim ran out, and whoever came then died when he had claimed the id."""
        theirs = f"{CELL}.theirs"

        async def sleep(run: Run) -> object:
            await world.engine.command("UNLINK", f"{world.engine.prefix}:{{req:anyone:r1}}:claim")
            await claim(world.engine, "anyone", "r1", ASK.digest(), theirs)
            engine._meddlers.clear()
            return await run()

        await join(world)
        engine = meddled(world.engine, seal=sleep)
        submitted = await Submitter(engine, CELL).submit(ASK, request_id="r1", enters=giving(7, 8))
        assert await self.index_of(world, submitted) == 8
        assert isinstance(submitted, Submitted)
        assert submitted.job_id == theirs
