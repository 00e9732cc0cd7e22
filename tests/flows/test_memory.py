"""Where the last jobs of a session went: remembered for a while, a bounded number of them, as hints for the next."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.records import MAX_REMEMBERED, Memory
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import MAX_NAMED, Hints
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.remember import Remembered, remember
from lingua_scheduler.store.keys import cell_key, session_tag
from lingua_scheduler.views.memory import recall
from tests.support.cells import watch
from tests.support.stage import T0, A, B, join, place

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

END = T0 + 60_000


def key_of(world: World, session_id: str = "s1") -> str:
    return cell_key(world.engine.prefix, session_tag(session_id), "memory")


async def kept(world: World, session_id: str = "s1") -> tuple[Memory, int] | None:
    """The memory, and how many seconds it will live."""
    packed = await world.engine.command("GET", key_of(world, session_id))
    if packed is None:
        return None
    left_ms = await world.engine.command("PTTL", key_of(world, session_id))
    return msgspec.msgpack.decode(packed, type=Memory), round(left_ms / 1000)


async def memory(world: World) -> Memory:
    found = await kept(world)
    assert found is not None
    return found[0]


async def test_of_a_session_that_nobody_knows_nothing_is_remembered(world: World) -> None:
    assert await recall(world.engine, "s1", bind_key="t1", utterance_index=0) == Hints()
    assert await kept(world) is None


async def test_where_a_job_went_is_written_down_for_a_while(world: World) -> None:
    answer = await remember(world.engine, "s1", "n1", pool="a", bind_key="t1", utterance_index=7)
    assert answer == Remembered()
    assert await kept(world) == (Memory("n1", "a", [("t1", "n1", END)], [(7, "n1", "")]), 60)
    assert await recall(world.engine, "s1", bind_key="t1", utterance_index=7) == Hints("n1", "n1", "a", ("n1",))


async def test_only_what_was_said_is_written_down(world: World) -> None:
    await remember(world.engine, "s1", "n1")
    assert await kept(world) == (Memory("n1", "", [], []), 60)
    assert await recall(world.engine, "s1") == Hints("", "n1", "", ())


async def test_it_is_no_part_of_a_cell(world: World) -> None:
    await join(world)
    _, changes = await watch(world, remember(world.engine, "s1", "n1", bind_key="t1"))
    assert changes == {}


async def test_sessions_do_not_know_of_each_other(world: World) -> None:
    await remember(world.engine, "s1", "n1", pool="a", bind_key="t1", utterance_index=7)
    assert await recall(world.engine, "s2", bind_key="t1", utterance_index=7) == Hints()


async def test_each_job_gives_the_whole_memory_its_time_anew(world: World) -> None:
    await remember(world.engine, "s1", "n1")
    await world.engine.command("PEXPIRE", key_of(world), 5_000)
    await remember(world.engine, "s1", "n2")
    assert await kept(world) == (Memory("n2", "", [], []), 60)


async def test_how_long_is_a_setting(make_world: MakeWorld) -> None:
    world = await make_world(Rules(binding_ttl_ms=9_000))
    await remember(world.engine, "s1", "n1", bind_key="t1")
    assert await kept(world) == (Memory("n1", "", [("t1", "n1", T0 + 9_000)], []), 9)


async def test_jobs_of_one_tick_are_remembered_one_by_one(world: World) -> None:
    await asyncio.gather(
        *(remember(world.engine, "s1", f"n{n}", bind_key=f"t{n % 2}", utterance_index=n) for n in range(3)),
        remember(world.engine, "s2", "n9"),
    )
    turns, seen = [("t1", "n1", END), ("t0", "n2", END)], [(0, "n0", ""), (1, "n1", ""), (2, "n2", "")]
    assert await memory(world) == Memory("n2", "", turns, seen)


class TestTurns:
    async def test_each_turn_has_the_node_that_took_its_last_piece(self, world: World) -> None:
        await remember(world.engine, "s1", "n1", bind_key="t1")
        await remember(world.engine, "s1", "n2", bind_key="t2")
        await remember(world.engine, "s1", "n3", bind_key="t1")
        bound = [(await recall(world.engine, "s1", bind_key=turn)) for turn in ("t1", "t2", "t3")]
        assert bound == [Hints("n3", "n3"), Hints("n2", "n3"), Hints("", "n3")]
        assert (await memory(world)).turns == [("t2", "n2", END), ("t1", "n3", END)]

    async def test_a_job_of_no_turn_leaves_them_alone(self, world: World) -> None:
        await remember(world.engine, "s1", "n1", bind_key="t1")
        await remember(world.engine, "s1", "n2")
        assert await recall(world.engine, "s1", bind_key="t1") == Hints("n1", "n2")
        assert await recall(world.engine, "s1") == Hints("", "n2")

    @pytest.mark.parametrize(("after_ms", "bound"), [(59_999, "n1"), (60_000, "")])
    async def test_a_turn_is_bound_for_a_minute(self, world: World, after_ms: int, bound: str) -> None:
        await remember(world.engine, "s1", "n1", bind_key="t1")
        world.now_ms += after_ms
        assert await recall(world.engine, "s1", bind_key="t1") == Hints(bound, "n1")

    async def test_each_piece_binds_its_turn_for_another_minute(self, world: World) -> None:
        for _ in range(3):
            await remember(world.engine, "s1", "n1", bind_key="t1")
            world.now_ms += 59_999
        assert await recall(world.engine, "s1", bind_key="t1") == Hints("n1", "n1")
        assert (await memory(world)).turns == [("t1", "n1", world.now_ms + 1)]

    async def test_turns_that_are_over_make_room(self, world: World) -> None:
        for number, turn in enumerate(("t1", "t2")):
            world.now_ms = T0 + number
            await remember(world.engine, "s1", "n1", bind_key=turn)
        world.now_ms = END
        await remember(world.engine, "s1", "n2", bind_key="t3")
        assert (await memory(world)).turns == [("t2", "n1", END + 1), ("t3", "n2", END + 60_000)]

    async def test_sixteen_turns_are_remembered_and_the_oldest_makes_room(self, world: World) -> None:
        for number in range(MAX_REMEMBERED):
            await remember(world.engine, "s1", f"n{number}", bind_key=f"t{number}")
        # One that is gone on with is not the oldest any more.
        await remember(world.engine, "s1", "n0", bind_key="t0")
        assert len((await memory(world)).turns) == MAX_REMEMBERED == 16
        await remember(world.engine, "s1", "n16", bind_key="t16")
        assert [turn for turn, _, _ in (await memory(world)).turns] == [*(f"t{n}" for n in range(2, 16)), "t0", "t16"]


class TestUtterances:
    async def test_all_who_have_seen_an_utterance_are_remembered(self, world: World) -> None:
        for node_id in ("n1", "n2", "n1"):
            await remember(world.engine, "s1", node_id, utterance_index=7)
        await remember(world.engine, "s1", "n3", utterance_index=8)
        hints = [await recall(world.engine, "s1", utterance_index=number) for number in (7, 8, 9)]
        assert hints == [Hints("", "n3", "", ("n2", "n1")), Hints("", "n3", "", ("n3",)), Hints("", "n3")]
        assert (await memory(world)).seen == [(7, "n2", ""), (7, "n1", ""), (8, "n3", "")]

    async def test_the_first_utterance_is_an_utterance_and_none_is_not(self, world: World) -> None:
        await remember(world.engine, "s1", "n1", utterance_index=0)
        await remember(world.engine, "s1", "n2")
        assert await recall(world.engine, "s1", utterance_index=0) == Hints("", "n2", "", ("n1",))
        assert await recall(world.engine, "s1") == Hints("", "n2")
        assert (await memory(world)).seen == [(0, "n1", "")]

    async def test_sixteen_are_remembered_and_the_oldest_makes_room(self, world: World) -> None:
        for number in range(MAX_REMEMBERED + 2):
            await remember(world.engine, "s1", "n1", utterance_index=number)
        assert (await memory(world)).seen == [(number, "n1", "") for number in range(2, 18)]
        assert await recall(world.engine, "s1", utterance_index=1) == Hints("", "n1")

    async def test_no_more_nodes_are_remembered_of_one_than_a_job_can_name(self, world: World) -> None:
        for number in range(MAX_REMEMBERED + 2):
            await remember(world.engine, "s1", f"n{number}", utterance_index=7)
        hints = await recall(world.engine, "s1", utterance_index=7)
        assert isinstance(hints, Hints)
        assert list(hints.seen_node_ids) == [f"n{number}" for number in range(2, 18)]
        assert len(hints.seen_node_ids) == MAX_NAMED

    async def test_of_each_the_jobs_are_remembered_too(self, world: World) -> None:
        for node_id, job_id in (("n1", A), ("n1", B), ("n2", B), ("n1", B)):
            await remember(world.engine, "s1", node_id, utterance_index=7, job_id=job_id)
        assert (await memory(world)).seen == [(7, "n1", A), (7, "n2", B), (7, "n1", B)]
        # There are no such jobs (any more): what was written down is all that is known.
        assert await recall(world.engine, "s1", utterance_index=7) == Hints("", "n1", "", ("n1", "n2"))

    async def test_every_node_that_these_jobs_had_has_seen_it(self, world: World) -> None:
        """Wherever they went after it was written down, and whoever moved them."""
        await join(world, "n1")
        await place(world, A)
        await remember(world.engine, "s1", "n1", utterance_index=7, job_id=A)
        for attempt, (had, new) in enumerate(itertools.pairwise(("n1", "n2", "n3")), start=1):
            await join(world, new)
            moved = await fail(world.engine, A, attempt, had, reason="broken")
            assert isinstance(moved, Failed)
            assert moved.node_id == new
        hints = [await recall(world.engine, "s1", utterance_index=number) for number in (7, 8)]
        assert hints == [Hints("", "n1", "", ("n1", "n2", "n3")), Hints("", "n1")]

    async def test_they_are_no_more_than_a_job_can_name_either(self, world: World) -> None:
        await join(world, "n")
        await place(world, A)
        for number in range(MAX_REMEMBERED):
            await remember(world.engine, "s1", f"n{number}", utterance_index=7, job_id=A)
        hints = await recall(world.engine, "s1", utterance_index=7)
        assert isinstance(hints, Hints)
        assert hints.seen_node_ids == (*(f"n{number}" for number in range(1, MAX_NAMED)), "n")


async def test_the_pool_is_that_of_the_last_job_that_had_one(world: World) -> None:
    pools = []
    for pool in ("", "a", "", "b", ""):
        await remember(world.engine, "s1", "n1", pool=pool)
        pools.append(await recall(world.engine, "s1"))
    assert pools == [Hints("", "n1", pool) for pool in ("", "a", "a", "b", "b")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"session_id": ""},
        {"session_id": "s:1"},
        {"node_id": "not an id"},
        {"pool": "a" * 129},
        {"pool": None},
        {"bind_key": "a turn"},
        {"bind_key": 7},
        {"utterance_index": -2},
        {"utterance_index": 2**53 + 1},
        {"utterance_index": True},
        {"job_id": "a:b"},
        {"job_id": 7},
    ],
)
async def test_what_cannot_be_right_is_not_remembered(world: World, wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = {"session_id": "s1", "node_id": "n1", "bind_key": "t1", "utterance_index": 1}
    answer = await remember(world.engine, **(right | wrong))
    assert isinstance(answer, Refusal)
    assert answer.code == "INVALID_MESSAGE"
    assert await kept(world) is None


@pytest.mark.parametrize("wrong", [{"session_id": "s 1"}, {"bind_key": "a turn"}, {"utterance_index": -2}])
async def test_what_cannot_be_right_is_not_recalled(world: World, wrong: dict[str, Any]) -> None:
    answer = await recall(world.engine, **({"session_id": "s1"} | wrong))
    assert isinstance(answer, Refusal)
    assert answer.code == "INVALID_MESSAGE"


async def test_what_is_remembered_can_be_dispatched_with(world: World) -> None:
    """A node with a long name, a pool with any letters: hints fit what a job may wish."""
    node_id, pool = "n" * 128, "池" * 128
    await join(world, node_id)
    await remember(world.engine, "s1", node_id, pool=pool, bind_key="t" * 128, utterance_index=2**53 - 1)
    hints = await recall(world.engine, "s1", bind_key="t" * 128, utterance_index=2**53 - 1)
    assert hints == Hints(node_id, node_id, pool, (node_id,))
    assert isinstance(hints, Hints)
    assert (await place(world, hints=hints)).node_id == node_id
