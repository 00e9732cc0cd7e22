from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.records import Event
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.relay import Taken, relay
from lingua_scheduler.flows.started import started
from tests.support.cells import GONE, watch
from tests.support.stage import T0, A, B, C, bring, code_of, join, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

LEASE_MS = 1_000


def ended(job_id: str, at_ms: int) -> Event:
    return Event("ended", job_id, 1, "n1", "1-n1", "", at_ms)


async def three_results(world: World) -> list[Event]:
    """B's at first, then A's and C's in one moment."""
    await join(world, max_concurrent_jobs=3)
    await bring(world, "FINISHED", B)
    world.now_ms += 1
    await asyncio.gather(bring(world, "FINISHED", A), bring(world, "FINISHED", C))
    return [ended(B, T0), ended(A, T0 + 1), ended(C, T0 + 1)]


async def test_events_come_out_in_the_order_of_time_and_are_leased(world: World) -> None:
    events = await three_results(world)
    world.now_ms += 10
    answer, changes = await watch(world, relay(world.engine, CELL))
    assert answer == Taken(events)
    assert changes == {"outbox": dict.fromkeys(events, T0 + 11 + LEASE_MS)}


async def test_an_event_can_be_taken_at_the_moment_it_happens(world: World) -> None:
    events = await three_results(world)
    assert await relay(world.engine, CELL) == Taken(events)


async def test_what_is_leased_comes_back_when_the_lease_is_over_and_not_before(world: World) -> None:
    events = await three_results(world)
    await relay(world.engine, CELL)
    world.now_ms += LEASE_MS - 1
    assert await watch(world, relay(world.engine, CELL)) == (Taken([]), {})
    world.now_ms += 1
    again = await relay(world.engine, CELL)
    assert isinstance(again, Taken)
    assert set(again.events) == set(events)


async def test_what_was_handed_over_is_deleted_and_never_comes_back(world: World) -> None:
    one, two, three = await three_results(world)
    await relay(world.engine, CELL)
    answer, changes = await watch(world, relay(world.engine, CELL, [one, three]))
    assert answer == Taken([])
    assert changes == {"outbox": {one: GONE, three: GONE}}
    world.now_ms += LEASE_MS
    assert await relay(world.engine, CELL, [one]) == Taken([two])


async def test_a_relay_takes_no_more_than_it_asks_for(world: World) -> None:
    one, two, three = await three_results(world)
    assert await relay(world.engine, CELL, limit=2) == Taken([one, two])
    assert await relay(world.engine, CELL, [one, two], limit=0) == Taken([])
    assert (await world.cell()).outbox == [(three, T0 + 1)]


async def test_two_relays_of_one_tick_take_different_events(world: World) -> None:
    one, two, three = await three_results(world)
    answers = await asyncio.gather(*(relay(world.engine, CELL, limit=2) for _ in range(2)))
    assert answers == [Taken([one, two]), Taken([three])]


async def test_every_kind_of_event_can_be_confirmed_as_it_was_taken(world: World) -> None:
    """The bytes of an event must survive the way out and back, text that is not ASCII among them."""
    await join(world)
    await place(world)
    await cancel(world.engine, A, "zu spät, 太晚了")
    taken = await relay(world.engine, CELL)
    assert isinstance(taken, Taken)
    assert [event.kind for event in taken.events] == ["ended", "fenced"]
    await relay(world.engine, CELL, taken.events)
    assert (await world.cell()).outbox == []


@pytest.mark.parametrize(("cell", "limit"), [("C0", 1), (CELL, -1), (CELL, 10_001)])
async def test_a_relay_that_cannot_be_right_never_reaches_the_engine(world: World, cell: str, limit: int) -> None:
    assert code_of(await relay(world.engine, cell, limit=limit)) == "INVALID_MESSAGE"


async def retried(world: World) -> Event:
    """A failed on n1, and its offer to n2 is in the outbox."""
    await join(world, "n1")
    await place(world)
    await join(world, "n2")
    await fail(world.engine, A, 1, "n1", reason="broken")
    return Event("reserved", A, 2, "n2", "2-n2", "", T0)


async def test_an_offer_is_taken_while_its_node_has_not_heard_of_it(world: World) -> None:
    offer = await retried(world)
    assert await relay(world.engine, CELL) == Taken([offer])


@pytest.mark.parametrize("flow", [deliver, ack, started, done])
async def test_an_offer_that_has_been_delivered_is_dropped(world: World, flow: Any) -> None:
    offer = await retried(world)
    await flow(world.engine, A, 2, "n2")
    taken, changes = await watch(world, relay(world.engine, CELL))
    assert isinstance(taken, Taken)
    assert offer not in taken.events
    assert changes["outbox"][offer] == GONE


async def test_an_offer_that_has_gone_by_is_dropped(world: World) -> None:
    """Its attempt was fenced, another one is reserved: carried to its node now, it would begin work without a slot."""
    offer = await retried(world)
    world.now_ms += 5_000
    await sweep(world)
    taken, changes = await watch(world, relay(world.engine, CELL))
    assert isinstance(taken, Taken)
    assert [(event.kind, event.attempt) for event in taken.events] == [("fenced", 2), ("reserved", 3)]
    assert changes["outbox"][offer] == GONE


async def test_an_offer_of_a_job_that_is_forgotten_is_dropped(world: World) -> None:
    offer = await retried(world)
    await done(world.engine, A, 2, "n2")
    world.now_ms += 3_600_000
    await sweep(world)
    taken, changes = await watch(world, relay(world.engine, CELL))
    assert isinstance(taken, Taken)
    assert "reserved" not in {event.kind for event in taken.events}
    assert changes["outbox"][offer] == GONE
