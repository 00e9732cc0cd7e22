"""Whose a session is, which numbers its utterances have, and how many of them may come."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lingua_scheduler.core.records import MAX_FREE, Entry
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.ticket import LAST_INDEX, MAX_INDEX
from lingua_scheduler.flows.enter_session import Entered, enter_session
from lingua_scheduler.flows.return_number import Returned, return_number
from lingua_scheduler.store.keys import cell_key, session_tag
from lingua_scheduler.views.session import Session, read_session
from tests.support.cells import watch
from tests.support.stage import T0, code_of, join

if TYPE_CHECKING:
    from tests.support.world import World

SESSIONS = (f"story-{number}" for number in itertools.count())


def key_of(world: World, session_id: str = "s1") -> str:
    return cell_key(world.engine.prefix, session_tag(session_id), "entry")


async def kept(world: World) -> tuple[Entry, int] | None:
    """What is kept of the session, and how many seconds it will live."""
    packed = await world.engine.command("GET", key_of(world))
    if packed is None:
        return None
    left_ms = await world.engine.command("PTTL", key_of(world))
    return msgspec.msgpack.decode(packed, type=Entry), round(left_ms / 1000)


async def enter(
    world: World, index: int | None = None, *, who: str = "ann", session_id: str = "s1", **how: Any
) -> Entered | Refusal:
    usual = {"rate": 20, "burst": 40, "ttl_ms": 120_000}
    return await enter_session(world.engine, session_id, who, utterance_index=index, **(usual | how))


async def numbers(world: World, *indexes: int | None, burst: int = 40) -> list[int]:
    """The numbers that these utterances get, one after the other."""
    answers = [await enter(world, index, burst=burst) for index in indexes]
    return [answer.utterance_index for answer in answers if isinstance(answer, Entered)]


async def test_whoever_comes_first_has_the_session_and_number_0(world: World) -> None:
    assert await enter(world) == Entered(0)
    assert await kept(world) == (Entry("ann", 1, 39_000, T0, []), 120)
    assert await read_session(world.engine, "s1") == Session("ann", 1, "")


async def test_another_principal_may_not_enter_and_changes_nothing(world: World) -> None:
    await enter(world)
    before = await kept(world)
    for who in ("bob", ""):
        refusal = await enter(world, who=who)
        assert isinstance(refusal, Refusal)
        assert (refusal.code, refusal.status) == ("FORBIDDEN", 403)
    assert await kept(world) == before
    assert await enter(world) == Entered(1)


async def test_another_principal_is_not_told_that_there_is_a_rush(world: World) -> None:
    await enter(world, burst=1)
    assert [code_of(await enter(world, who=who, burst=1)) for who in ("ann", "bob")] == ["RATE_LIMITED", "FORBIDDEN"]


async def test_a_session_of_nobody_in_particular_is_not_somebody_s(world: World) -> None:
    assert [code_of(await enter(world, who=who)) for who in ("", "ann", "")] == ["", "FORBIDDEN", ""]
    assert await read_session(world.engine, "s1") == Session("", 2, "")


async def test_numbers_only_grow(world: World) -> None:
    assert await numbers(world, None, None, 7, None, 9, None) == [0, 1, 7, 8, 9, 10]
    assert await numbers(world, MAX_INDEX, None, None) == [MAX_INDEX, MAX_INDEX + 1, MAX_INDEX + 2]


@pytest.mark.parametrize("index", [0, 4])
async def test_an_index_that_was_given_out_is_gone_and_nothing_changes(world: World, index: int) -> None:
    await numbers(world, None, 4)
    before = await kept(world)
    refusal = await enter(world, index, ttl_ms=600_000)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.status) == ("INVALID_MESSAGE", 400)
    assert refusal.detail == f"utterance_index {index} was given out before; 5 is the next"
    assert await kept(world) == before
    assert code_of(await enter(world, index, who="bob")) == "FORBIDDEN"


async def test_those_that_were_passed_over_can_come_later_each_once(world: World) -> None:
    assert await numbers(world, 6, 3, 0, 5, 3, 1, None, 4, 2, 2, None) == [6, 3, 0, 5, 1, 7, 4, 2, 8]
    found = await kept(world)
    assert found is not None
    assert (found[0].next, found[0].free) == (9, [])


async def test_so_many_stretches_are_remembered(world: World) -> None:
    await numbers(world, *range(1, 2 * MAX_FREE + 2, 2))
    assert await numbers(world, 2 * MAX_FREE + 3, 0, 2, 4) == [2 * MAX_FREE + 3, 4]


class TestSeveralAtOnce:
    """For what somebody is about to say."""

    async def test_they_are_the_next_ones_and_each_costs_a_token(self, world: World) -> None:
        await enter(world)
        assert await enter(world, number=5) == Entered(1, 5)
        assert await kept(world) == (Entry("ann", 6, 34_000, T0, []), 120)
        assert await enter(world) == Entered(6)

    async def test_none_is_below_what_the_caller_knows_to_be_given(self, world: World) -> None:
        assert await enter(world, number=3, at_least=10) == Entered(10, 3)
        assert await numbers(world, None) == [13]

    async def test_who_may_have_fewer_gets_none(self, world: World) -> None:
        await enter(world, burst=5)
        before = await kept(world)
        refusal = await enter(world, number=5, burst=5)
        assert code_of(refusal) == "RATE_LIMITED"
        assert await kept(world) == before
        assert await enter(world, number=4, burst=5) == Entered(1, 4)

    async def test_a_session_with_a_connection_gives_one(self, world: World) -> None:
        await world.engine.command("HSET", cell_key(world.engine.prefix, session_tag("s1"), "session"), "owner", "x")
        assert [await enter(world, number=number) for number in (2, 5)] == [Entered(0, 1, "x"), Entered(1, 1, "x")]
        assert await kept(world) == (Entry("ann", 2, 38_000, T0, []), 120)

    @pytest.mark.parametrize(
        "how", [{"number": 0}, {"number": 1_025}, {"number": 2, "index": 3}, {"number": 2, "owner": "i.x"}]
    )
    async def test_who_numbers_them_himself_or_is_the_session_asks_for_one(
        self, world: World, how: dict[str, Any]
    ) -> None:
        assert code_of(await enter(world, **how)) == "INVALID_MESSAGE"
        assert await kept(world) is None


class TestGivenBack:
    """The utterance was refused."""

    async def test_it_can_be_given_again_once(self, world: World) -> None:
        await numbers(world, None, 1, None)
        for _ in range(2):
            assert isinstance(await return_number(world.engine, "s1", "ann", 1), Returned)
        assert await numbers(world, 1, 1, None) == [1, 3]

    async def test_what_was_never_given_is_no_more_free_than_before(self, world: World) -> None:
        await numbers(world, 3)
        before = await kept(world)
        for index in (2, 4, 9):
            assert isinstance(await return_number(world.engine, "s1", "ann", index), Returned)
        assert await kept(world) == before

    async def test_only_so_many(self, world: World) -> None:
        await numbers(world, *[None] * (MAX_FREE + 1), burst=1_000)
        for index in range(MAX_FREE + 1):
            await return_number(world.engine, "s1", "ann", index)
        assert await numbers(world, *range(MAX_FREE + 1), burst=1_000) == list(range(1, MAX_FREE + 1))

    async def test_nobody_gives_back_for_others(self, world: World) -> None:
        await numbers(world, 0)
        for session_id, who in (("s1", "bob"), ("s2", "ann")):
            assert code_of(await return_number(world.engine, session_id, who, 0)) == "INVALID_SESSION"
        assert code_of(await enter(world, 0)) == "INVALID_MESSAGE"

    async def test_it_does_not_prolong_the_session(self, world: World) -> None:
        await numbers(world, 0)
        await world.engine.command("PEXPIRE", key_of(world), 60_000)
        await return_number(world.engine, "s1", "ann", 0)
        assert await kept(world) == (Entry("ann", 1, 39_000, T0, [(0, 0)]), 60)

    @pytest.mark.parametrize(("session_id", "index"), [("s{1}", 0), ("s1", -1), ("s1", MAX_INDEX + 1)])
    async def test_what_cannot_be_right(self, world: World, session_id: str, index: int) -> None:
        assert code_of(await return_number(world.engine, session_id, "ann", index)) == "INVALID_MESSAGE"


async def test_an_index_that_is_gone_is_gone_also_in_a_rush(world: World) -> None:
    await enter(world, burst=1)
    assert code_of(await enter(world, 0, burst=1)) == "INVALID_MESSAGE"


@pytest.mark.parametrize(("at_least", "index"), [(3, 5), (5, 5), (9, 9), (MAX_INDEX + 1, MAX_INDEX + 1)])
async def test_who_knows_of_more_numbers_gets_none_of_them_again(world: World, at_least: int, index: int) -> None:
    await enter(world, 4)
    assert await enter(world, at_least=at_least) == Entered(index)
    assert await enter(world) == Entered(index + 1)


async def test_an_index_of_the_caller_s_own_is_not_moved(world: World) -> None:
    assert await enter(world, 4, at_least=9) == Entered(4)


async def test_those_of_one_tick_have_a_number_each(world: World) -> None:
    answers = await asyncio.gather(*(enter(world, index) for index in (None, None, 5, None)), enter(world, who="bob"))
    assert answers[:4] == [Entered(0), Entered(1), Entered(5), Entered(6)]
    assert code_of(answers[4]) == "FORBIDDEN"


async def test_sessions_do_not_know_of_each_other(world: World) -> None:
    await enter(world, 7)
    assert await enter(world, who="bob", session_id="s2") == Entered(0)


async def test_too_many_are_told_when_there_is_room_again_and_have_no_number(world: World) -> None:
    answers = await asyncio.gather(*(enter(world, burst=2) for _ in range(4)))
    assert [code_of(answer) for answer in answers] == ["", "", "RATE_LIMITED", "RATE_LIMITED"]
    before = await kept(world)
    refusal = await enter(world, 99, burst=2)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.retry_after_ms) == ("RATE_LIMITED", 50)
    assert await kept(world) == before == (Entry("ann", 2, 0, T0, []), 120)
    world.now_ms += 49
    assert isinstance(await enter(world, burst=2), Refusal)
    world.now_ms += 1
    assert await enter(world, burst=2) == Entered(2)


async def test_what_is_refused_gives_the_session_no_more_time(world: World) -> None:
    await enter(world, burst=1)
    await enter(world, burst=1, ttl_ms=600_000)
    await enter(world, who="bob", ttl_ms=600_000)
    assert await kept(world) == (Entry("ann", 1, 0, T0, []), 120)


@pytest.mark.parametrize(("ttl_ms", "left_s"), [(60_000, 120), (300_000, 300)])
async def test_each_utterance_gives_the_session_its_time_anew_and_never_less(
    world: World, ttl_ms: int, left_s: int
) -> None:
    await enter(world)
    await enter(world, ttl_ms=ttl_ms)
    assert await kept(world) == (Entry("ann", 2, 38_000, T0, []), left_s)
    await world.engine.command("PEXPIRE", key_of(world), 5_000)
    await enter(world)
    assert await kept(world) == (Entry("ann", 3, 37_000, T0, []), 120)


async def test_a_session_whose_time_is_over_is_anybody_s(world: World) -> None:
    await enter(world, 7)
    await world.engine.command("PEXPIRE", key_of(world), 0)
    assert code_of(await read_session(world.engine, "s1")) == "INVALID_SESSION"
    assert await enter(world, who="bob") == Entered(0)


async def test_it_is_no_part_of_a_cell(world: World) -> None:
    await join(world)
    _, changes = await watch(world, enter(world))
    assert changes == {}


@pytest.mark.parametrize(
    "how",
    [
        {"session_id": "s:1"},
        {"session_id": ""},
        {"who": "a:b"},
        {"who": None},
        {"index": -1},
        {"index": MAX_INDEX + 1},
        {"index": True},
        {"at_least": -1},
        {"at_least": LAST_INDEX + 1},
        {"rate": 0},
        {"burst": 0},
        {"rate": 1_000_001},
        {"ttl_ms": 0},
        {"ttl_ms": 2_678_400_001},
    ],
)
async def test_what_cannot_be_right_is_invalid_and_writes_nothing(world: World, how: dict[str, Any]) -> None:
    assert code_of(await enter(world, **how)) == "INVALID_MESSAGE"
    assert await world.keys() == 0


async def test_what_is_no_session_cannot_be_looked_at(world: World) -> None:
    assert code_of(await read_session(world.engine, "s{1}")) == "INVALID_MESSAGE"


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    story=st.lists(
        st.tuples(st.sampled_from(["ann", "ann", "bob"]), st.none() | st.integers(0, 12), st.booleans()), max_size=20
    )
)
async def test_any_story_has_numbers_that_never_repeat(world: World, story: list[tuple[str, int | None, bool]]) -> None:
    """But for those that are given back."""
    session_id, following, given_out = next(SESSIONS), 0, set[int]()
    for who, index, gives_back in story:
        answer = await enter(world, index, who=who, session_id=session_id)
        if who != story[0][0]:
            assert code_of(answer) == "FORBIDDEN"
        elif index in given_out:
            assert code_of(answer) == "INVALID_MESSAGE"
        else:
            number = following if index is None else index
            assert answer == Entered(number)
            following = max(following, number + 1)
            given_out.add(number)
            if gives_back:
                await return_number(world.engine, session_id, who, number)
                given_out.remove(number)
