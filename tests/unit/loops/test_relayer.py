"""The relayer: one slow hand-over holds up nobody else, and what is done is confirmed."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.records import Event
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.register import register
from lingua_scheduler.loops.relayer import MAX_CARRIED, Relayer
from lingua_scheduler.store.engine import Engine
from tests.support.logs import told
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from tests.support.servers import Server
    from tests.support.world import World


class Listener:
    """Hears events. Those of a job with a gate wait there until it is opened."""

    def __init__(self, *gated: str) -> None:
        self.gates = {job_id: asyncio.Event() for job_id in gated}
        self.begun: list[Event] = []
        self.heard: list[Event] = []
        self.at_once = 0
        self._news: asyncio.Queue[Event] = asyncio.Queue()

    async def hear(self, event: Event) -> None:
        self.begun.append(event)
        self.at_once = max(self.at_once, len(self.begun) - len(self.heard))
        if event.job in self.gates:
            await self.gates[event.job].wait()
        self.heard.append(event)
        self._news.put_nowait(event)

    async def has_heard(self, number: int) -> None:
        for _ in range(number):
            await self._news.get()


@asynccontextmanager
async def by_hand(world: World, listener: Listener) -> AsyncIterator[Relayer]:
    """A relayer whose turns the test takes itself; it is stopped at the end like any other."""
    relayer = Relayer(world.engine, CELL, 1, listener.hear)
    async with AsyncExitStack() as stack:
        stack.push_async_exit(relayer)
        yield relayer


async def end(world: World, *job_ids: str) -> None:
    """Jobs that are cancelled before their node has them: each has its events in the outbox."""
    await register(world.engine, CELL, "n1", semantic_langs=["en", "zh"], max_concurrent_jobs=len(job_ids))
    for job_id in job_ids:
        await dispatch(world.engine, job_id, "s1", "en", "zh")
        await cancel(world.engine, job_id)


async def left(world: World) -> list[Event]:
    return [event for event, _ in (await world.cell()).outbox]


async def test_a_slow_hand_over_holds_up_no_other_job_and_what_is_done_is_confirmed_meanwhile(world: World) -> None:
    slow, quick = f"{CELL}.a", f"{CELL}.b"
    await end(world, slow, quick)
    listener = Listener(slow)
    async with Relayer(world.engine, CELL, 1, listener.hear), asyncio.timeout(5):
        while any(event.job == quick for event in await left(world)):  # noqa: ASYNC110 - the engine rings no bell
            await asyncio.sleep(0)
        assert {event.job for event in listener.heard} == {quick}
        assert {event.job for event in await left(world)} == {slow}
        listener.gates[slow].set()
        while await left(world):  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert {event.job for event in listener.heard} == {slow, quick}


async def test_events_about_the_same_job_are_handed_over_one_after_the_other_in_the_order_of_the_outbox(
    world: World,
) -> None:
    job_id = f"{CELL}.a"
    await register(world.engine, CELL, "n1", semantic_langs=["en", "zh"])
    await dispatch(world.engine, job_id, "s1", "en", "zh")
    await ack(world.engine, job_id, 1, "n1")
    await cancel(world.engine, job_id)
    events = [event for event in await left(world) if event.job == job_id]
    assert len(events) == 2
    listener = Listener(job_id)
    async with by_hand(world, listener) as relayer:
        await relayer.turn()
        await relayer.turn()
        assert listener.begun == events[:1]
        listener.gates[job_id].set()
        while await left(world):
            await relayer.turn()
    assert listener.heard == events
    assert listener.at_once == 1


async def test_an_event_that_fails_does_not_keep_the_next_one_of_its_job(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = f"{CELL}.a"
    await register(world.engine, CELL, "n1", semantic_langs=["en", "zh"])
    await dispatch(world.engine, job_id, "s1", "en", "zh")
    await ack(world.engine, job_id, 1, "n1")
    await cancel(world.engine, job_id)
    first, second = await left(world)
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)
        if event == first:
            raise OSError("the node's socket is gone")

    async with Relayer(world.engine, CELL, 1, hear), asyncio.timeout(5):
        while await left(world) != [first]:  # noqa: ASYNC110 - the engine rings no bell
            await asyncio.sleep(0)
    assert heard == [first, second]
    assert ["the node's socket is gone" in one["exception"] for one in told(caplog, "relay")] == [True]


async def test_only_so_many_are_on_their_way_at_once_and_all_arrive(world: World) -> None:
    jobs = [f"{CELL}.{number:03}" for number in range(MAX_CARRIED + 8)]
    await end(world, *jobs)
    events = await left(world)
    listener = Listener(*jobs)
    async with Relayer(world.engine, CELL, 1, listener.hear), asyncio.timeout(5):
        while len(listener.begun) < MAX_CARRIED:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for gate in listener.gates.values():
            gate.set()
        while await left(world):  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert listener.at_once <= MAX_CARRIED
    assert Counter(listener.heard) == Counter(events)


async def test_one_that_takes_longer_than_its_lease_is_not_handed_over_again_meanwhile(world: World) -> None:
    job_id = f"{CELL}.a"
    await end(world, job_id)
    events = await left(world)
    listener = Listener(job_id)
    async with by_hand(world, listener) as relayer:
        for _ in range(3):
            await relayer.turn()
            world.now_ms += world.rules.relay_lease_ms + 1
        listener.gates[job_id].set()
        while await left(world):
            await relayer.turn()
    assert listener.heard == events


async def test_a_stop_confirms_what_was_handed_over_and_leaves_what_was_not(world: World) -> None:
    slow, quick = f"{CELL}.a", f"{CELL}.b"
    await end(world, slow, quick)
    events = await left(world)
    listener = Listener(slow)
    async with by_hand(world, listener) as relayer:
        await relayer.turn()
        await listener.has_heard(sum(event.job == quick for event in events))
        assert await left(world) == events
    assert await left(world) == [event for event in events if event.job == slow]


async def test_a_stop_without_the_engine_says_what_comes_back(
    world: World, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    await end(world, f"{CELL}.a")
    events = await left(world)
    listener = Listener()
    rules = msgspec.msgpack.encode(world.rules)
    async with await Engine.connect(server.url, world.engine.prefix, rules, lambda: world.now_ms) as engine:
        relayer = Relayer(engine, CELL, 1, listener.hear)
        await relayer.turn()
        await listener.has_heard(len(events))
    await relayer.__aexit__(None, None, None)
    assert [one["number"] for one in told(caplog, "relay")] == [len(events)]
    assert await left(world) == events


async def finish(world: World, job_id: str) -> Event:
    """A job that ended, of which whoever said so tells himself."""
    await register(world.engine, CELL, "n1", semantic_langs=["en", "zh"], max_concurrent_jobs=4)
    placed = await dispatch(world.engine, job_id, "s1", "en", "zh")
    moved = await done(world.engine, job_id, 1, "n1", lease_ms=60_000)
    assert isinstance(placed, Placed)
    assert isinstance(moved, Moved)
    return Event("ended", job_id, 1, "n1", placed.epoch, "", moved.taken_at_ms)


async def test_what_somebody_took_himself_is_handed_over_and_confirmed(world: World) -> None:
    listener = Listener()
    async with by_hand(world, listener) as relayer:
        event = await finish(world, "c0.a")
        relayer.take(event)
        assert listener.heard == [event]
        assert await left(world) == [event]
        await relayer.turn()
        assert await left(world) == []


async def test_what_somebody_handed_over_himself_is_only_confirmed(world: World) -> None:
    listener = Listener()
    async with by_hand(world, listener) as relayer:
        relayer.confirm(await finish(world, "c0.a"))
        await relayer.turn()
        assert (listener.heard, await left(world)) == ([], [])


async def test_however_many_others_have_taken_what_is_handed_over_is_confirmed(world: World) -> None:
    jobs = [f"{CELL}.{number:03}" for number in range(MAX_CARRIED + 8)]
    listener = Listener(*jobs)
    async with by_hand(world, listener) as relayer:
        for job_id in jobs:
            relayer.take(await finish(world, job_id))
        listener.gates[jobs[0]].set()
        await listener.has_heard(1)
        assert await relayer.turn()
        assert {event.job for event in await left(world)} == {*jobs[1:]}


async def test_one_that_waits_for_room_confirms_what_others_have_handed_over(world: World) -> None:
    slow = [f"{CELL}.{number:03}" for number in range(MAX_CARRIED)]
    listener = Listener(*slow)
    async with by_hand(world, listener) as relayer:
        for job_id in slow:
            relayer.take(await finish(world, job_id))
        waiting = asyncio.create_task(relayer.turn())
        await asyncio.sleep(0)
        relayer.confirm(await finish(world, f"{CELL}.quick"))
        async with asyncio.timeout(5):
            assert await waiting
        assert {event.job for event in await left(world)} == {*slow}


async def test_what_is_done_is_confirmed_soon_also_by_one_who_seldom_looks(world: World) -> None:
    listener = Listener()
    async with Relayer(world.engine, CELL, 3_600_000, listener.hear) as relayer, asyncio.timeout(5):
        relayer.take(await finish(world, "c0.a"))
        relayer.confirm(await finish(world, "c0.b"))
        while await left(world):  # noqa: ASYNC110 - the engine rings no bell
            await asyncio.sleep(0.01)
    assert [event.job for event in listener.heard] == ["c0.a"]
