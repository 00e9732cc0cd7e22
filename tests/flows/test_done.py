from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.records import FORGET_FROM, Event
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.done import MAX_TTL_MS, done
from lingua_scheduler.flows.evict import evict
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.register import register
from lingua_scheduler.flows.relay import Taken, relay
from lingua_scheduler.flows.release import release
from tests.support.cells import GONE, watch
from tests.support.stage import T0, A, B, bring, code_of, join, keep_alive, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.support.world import World


@pytest.mark.parametrize("state", ["RESERVED", "DISPATCHED", "ACCEPTED", "RUNNING"])
async def test_a_result_ends_the_job_from_any_live_state(world: World, state: State) -> None:
    await join(world)
    await bring(world, state)
    world.now_ms += 7
    answer, changes = await watch(world, done(world.engine, A, 1, "n1", "1-n1", result="hi", result_ttl_ms=50))
    assert answer == Moved("FINISHED")
    assert changes == {
        "nodes": {"n1": {"used": 0}},
        "jobs": {A: {"state": "FINISHED", "ended_at_ms": T0 + 7}},
        "bodies": {f"{A}:result": "hi"},
        "leases": {f"n1:{A}:1": GONE},
        "due": {f"j:{A}": FORGET_FROM + T0 + 57},
        "outbox": {Event("ended", A, 1, "n1", "1-n1", "", T0 + 7): T0 + 7},
        "counts": {"FINISHED": 1},
    }


async def test_a_result_may_be_empty(world: World) -> None:
    await join(world)
    await place(world, body="text")
    _, changes = await watch(world, done(world.engine, A, 1, "n1"))
    assert "bodies" not in changes
    assert changes["due"] == {f"j:{A}": FORGET_FROM + T0 + 120_000}


async def test_a_result_lets_a_full_node_be_chosen_again(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await place(world)
    _, changes = await watch(world, done(world.engine, A, 1, "n1"))
    assert changes["nodes"] == {"n1": {"used": 0, "standing": 0}}
    assert changes["standing"] == {"n1": 16}
    assert changes["room"] == {1: 1}


async def test_a_node_over_its_lowered_slots_stays_full(world: World) -> None:
    await join(world)
    await asyncio.gather(place(world), place(world, B))
    await heartbeat(world.engine, CELL, "n1", max_concurrent_jobs=1)
    _, changes = await watch(world, done(world.engine, A, 1, "n1"))
    assert changes["nodes"] == {"n1": {"used": 1}}
    _, changes = await watch(world, done(world.engine, B, 1, "n1"))
    assert changes["nodes"] == {"n1": {"used": 0, "standing": 0}}


async def test_a_result_does_not_wake_a_draining_node(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await place(world)
    await heartbeat(world.engine, CELL, "n1", health="draining")
    _, changes = await watch(world, done(world.engine, A, 1, "n1"))
    assert changes["nodes"] == {"n1": {"used": 0}}


async def test_a_repeated_result_is_heard_and_stored_once(world: World) -> None:
    await join(world)
    await place(world)
    await done(world.engine, A, 1, "n1", result="first")
    world.now_ms += 1
    again = done(world.engine, A, 1, "n1", result="second")
    assert await watch(world, again) == (Moved("FINISHED"), {})


async def test_the_same_result_twice_in_one_tick_frees_one_slot(world: World) -> None:
    await join(world)
    await asyncio.gather(place(world), place(world, B))
    answers, changes = await watch(world, asyncio.gather(*(done(world.engine, A, 1, "n1") for _ in range(2))))
    assert answers == [Moved("FINISHED")] * 2
    assert changes["nodes"] == {"n1": {"used": 1, "standing": 0}}
    assert changes["counts"] == {"FINISHED": 1}


async def test_results_of_one_tick_are_kept_apart(world: World) -> None:
    await join(world)
    await asyncio.gather(place(world), place(world, B))
    answers, changes = await watch(
        world,
        asyncio.gather(
            done(world.engine, A, 1, "n1", result="a"),
            done(world.engine, "c0.x", 1, "n1", result="x"),
            done(world.engine, B, 1, "n1", result="b", result_ttl_ms=1),
        ),
    )
    assert [code_of(answer) for answer in answers] == ["", "UNKNOWN_JOB", ""]
    assert changes["bodies"] == {f"{A}:result": "a", f"{B}:result": "b"}
    assert changes["due"] == {f"j:{A}": FORGET_FROM + T0 + 120_000, f"j:{B}": FORGET_FROM + T0 + 1}
    assert changes["counts"] == {"FINISHED": 2}


@pytest.mark.parametrize("state", ["CANCELLED", "EXPIRED"])
async def test_a_late_result_of_a_fenced_attempt_only_ends_its_limbo(world: World, state: State) -> None:
    await join(world, max_concurrent_jobs=1)
    await bring(world, state)
    await keep_alive(world, "n1")
    answer, changes = await watch(world, done(world.engine, A, 1, "n1", result="late"))
    assert code_of(answer) == "STALE_ATTEMPT"
    lease = f"n1:{A}:1"
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0, "standing": 0}},
        "standing": {"n1": 16},
        "room": {1: 1},
        "leases": {lease: GONE},
        "limbo": {lease: GONE},
        "due": {f"l:{lease}": GONE},
    }


async def test_a_late_result_does_not_touch_the_job_s_next_attempt(world: World) -> None:
    await join(world, "n1")
    await place(world)
    await join(world, "n2")
    world.now_ms += 5_000
    await sweep(world)
    answer, changes = await watch(world, done(world.engine, A, 1, "n1", result="late"))
    assert code_of(answer) == "STALE_ATTEMPT"
    assert changes == {
        "nodes": {"n1": {"used": 0, "limbo": 0, "seen_at_ms": T0 + 5_000}},
        "leases": {f"n1:{A}:1": GONE},
        "limbo": {f"n1:{A}:1": GONE},
        "due": {f"l:n1:{A}:1": GONE},
    }


async def test_a_result_of_an_attempt_that_was_released_changes_nothing(world: World) -> None:
    await join(world)
    await place(world)
    await fail(world.engine, A, 1, "n1", reason="broken")
    answer, changes = await watch(world, done(world.engine, A, 1, "n1", result="late"))
    assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


async def test_a_result_is_fenced_like_every_word_about_an_attempt(world: World) -> None:
    await join(world)
    await place(world)
    for attempt, code in {
        (A, 1, "n1", "1-n0"): "STALE_ATTEMPT",
        (A, 1, "n2", ""): "NODE_MISMATCH",
        (A, 2, "n1", ""): "NODE_MISMATCH",
        (B, 1, "n1", ""): "UNKNOWN_JOB",
        (A, 0, "n1", ""): "INVALID_MESSAGE",
    }.items():
        answer, changes = await watch(world, done(world.engine, *attempt, result="x"))
        assert (code_of(answer), changes) == (code, {})


@pytest.mark.parametrize("wrong", [{"result_ttl_ms": 0}, {"result_ttl_ms": MAX_TTL_MS + 1}, {"result": "\ud800"}])
async def test_a_result_that_cannot_be_right_never_reaches_the_engine(world: World, wrong: dict[str, str]) -> None:
    answer = await done(world.engine, A, 1, "n1", **wrong)  # type: ignore[arg-type]  # the point of the test
    assert code_of(answer) == "INVALID_MESSAGE"


@pytest.mark.parametrize(
    "last",
    [
        lambda engine: cancel(engine, A),
        lambda engine: leave(engine, CELL, "n1"),
        lambda engine: register(engine, CELL, "n1", semantic_langs=["en"], epoch="1-n1", running=[]),
        lambda engine: register(engine, CELL, "n1", semantic_langs=["en"], process_id="p2"),
        lambda engine: evict(engine, CELL, "n1"),
        lambda engine: release(engine, A),
    ],
    ids=["cancel", "leave", "resync", "new process", "evict", "release"],
)
async def test_a_result_is_not_overtaken_by_what_comes_in_the_same_tick(world: World, last: Any) -> None:
    """A node that has finished and says goodbye in one breath has finished."""
    await join(world)
    await bring(world, "RUNNING")
    _, result = await asyncio.gather(last(world.engine), done(world.engine, A, 1, "n1"))
    assert result == Moved("FINISHED")
    assert (await world.cell()).jobs[A].state == "FINISHED"


class TestWhoTellsOfTheEndHimself:
    """He has taken the event, as a relay would."""

    @pytest.mark.parametrize("lease_ms", [1, 300])
    async def test_it_is_his_until_his_lease_is_over(self, world: World, lease_ms: int) -> None:
        await join(world)
        await place(world)
        answer, changes = await watch(world, done(world.engine, A, 1, "n1", "1-n1", lease_ms=lease_ms))
        event = Event("ended", A, 1, "n1", "1-n1", "", T0)
        assert answer == Moved("FINISHED", T0)
        assert changes["outbox"] == {event: T0 + lease_ms}
        for at_ms, taken in ((T0 + lease_ms - 1, []), (T0 + lease_ms, [event])):
            world.now_ms = at_ms
            assert await relay(world.engine, CELL) == Taken(taken)

    async def test_what_he_has_told_is_confirmed_to_a_relay(self, world: World) -> None:
        await join(world)
        await place(world)
        answer = await done(world.engine, A, 1, "n1", "1-n1", lease_ms=300)
        assert isinstance(answer, Moved)
        await relay(world.engine, CELL, [Event("ended", A, 1, "n1", "1-n1", "", answer.taken_at_ms)], 0)
        assert (await world.cell()).outbox == []

    @pytest.mark.parametrize("lease_ms", [0, 300])
    async def test_he_hears_that_others_were_given_a_node(self, world: World, lease_ms: int) -> None:
        await join(world, max_concurrent_jobs=1)
        await place(world)
        await dispatch(world.engine, B, "s1", "en", "zh", wanted=Wanted(wait_ms=1_000))
        answer = await done(world.engine, A, 1, "n1", lease_ms=lease_ms)
        assert answer == (Moved("FINISHED", T0, 1) if lease_ms else Moved("FINISHED"))
        assert [event.kind for event, _ in (await world.cell()).outbox if event.job == B] == ["reserved"]

    async def test_who_says_it_again_may_not_have_heard_that_it_is_his(self, world: World) -> None:
        await join(world)
        await place(world)
        event = Event("ended", A, 1, "n1", "1-n1", "", T0)
        await done(world.engine, A, 1, "n1", lease_ms=300)
        world.now_ms = T0 + 100
        answer, changes = await watch(world, done(world.engine, A, 1, "n1", lease_ms=300))
        assert (answer, changes["outbox"]) == (Moved("FINISHED", T0), {event: T0 + 400})
        assert await done(world.engine, A, 1, "n1") == Moved("FINISHED")
        assert (await world.cell()).outbox == [(event, T0 + 400)]

    async def test_who_says_again_what_has_been_told_has_nothing_to_tell(self, world: World) -> None:
        await join(world)
        await place(world)
        await done(world.engine, A, 1, "n1", lease_ms=300)
        await relay(world.engine, CELL, [Event("ended", A, 1, "n1", "1-n1", "", T0)], 0)
        answer, changes = await watch(world, done(world.engine, A, 1, "n1", lease_ms=300))
        assert (answer, changes) == (Moved("FINISHED"), {})

    @pytest.mark.parametrize("lease_ms", [-1, 600_001, True])
    async def test_no_lease_is_endless(self, world: World, lease_ms: Any) -> None:
        assert code_of(await done(world.engine, A, 1, "n1", lease_ms=lease_ms)) == "INVALID_MESSAGE"
