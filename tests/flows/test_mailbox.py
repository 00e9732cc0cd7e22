"""What waits for a node that comes to fetch its work, and whether the engine still has what was written."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.store.checks import check_schema
from lingua_scheduler.store.keys import cell_key
from lingua_scheduler.store.tables import SCHEMA
from lingua_scheduler.views.mailbox import read_mailbox
from lingua_scheduler.views.schema import Schema, read_schema
from tests.support.cells import watch
from tests.support.stage import T0, A, B, C, bring, code_of, join, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from lingua_scheduler.core.refusal import Refusal
    from tests.support.world import World


async def mailbox(world: World, node_id: str = "n1") -> list[tuple[str, int]] | Refusal:
    return await read_mailbox(world.engine, CELL, node_id)


async def test_what_was_handed_to_a_node_waits_in_its_mailbox_until_it_accepts(world: World) -> None:
    await join(world)
    await place(world, B)
    await place(world, A)
    assert await mailbox(world) == []
    await deliver(world.engine, B, 1, "n1")
    assert await mailbox(world) == [(B, 1)]
    await deliver(world.engine, A, 1, "n1")
    assert await watch(world, mailbox(world)) == ([(A, 1), (B, 1)], {})
    await ack(world.engine, A, 1, "n1")
    assert await mailbox(world) == [(B, 1)]


@pytest.mark.parametrize("state", ["RESERVED", "ACCEPTED", "RUNNING", "FINISHED", "FAILED", "CANCELLED"])
async def test_only_what_was_handed_over_and_not_yet_accepted_is_there(world: World, state: State) -> None:
    await join(world)
    await bring(world, state)
    assert await mailbox(world) == []


async def test_each_node_has_a_mailbox_of_its_own(world: World) -> None:
    for job_id, node_id in ((A, "n1"), (B, "n10")):
        await join(world, node_id, max_concurrent_jobs=1)
        await bring(world, "DISPATCHED", job_id)
    first, second, unknown = await asyncio.gather(*(mailbox(world, node_id) for node_id in ("n1", "n10", "n2")))
    assert (first, second, code_of(unknown)) == ([(A, 1)], [(B, 1)], "UNKNOWN_NODE")


async def test_an_attempt_that_was_given_to_another_node_is_only_with_that_one(world: World) -> None:
    await join(world)
    await bring(world, "DISPATCHED", limits=Limits(ack_ms=1_000))
    await join(world, "n2")
    world.now_ms += 1_000
    await sweep(world)
    await deliver(world.engine, A, 2, "n2")
    assert [await mailbox(world, node_id) for node_id in ("n1", "n2")] == [[], [(A, 2)]]


async def test_an_attempt_that_was_given_up_is_gone_though_its_job_has_no_other_yet(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await bring(world, "DISPATCHED", limits=Limits(ack_ms=1_000))
    world.now_ms += 1_000
    await sweep(world)
    job = (await world.cell()).jobs[A]
    assert (job.state, job.attempt) == ("RETRYING", 1)
    assert await mailbox(world) == []


async def test_an_attempt_that_came_back_to_its_node_is_there_once(world: World) -> None:
    await join(world)
    await bring(world, "DISPATCHED", limits=Limits(ack_ms=1_000))
    world.now_ms += 1_000
    await sweep(world)
    await deliver(world.engine, A, 2, "n1")
    ledger = (await world.cell()).leases
    assert len(ledger) == 2, ledger
    assert await mailbox(world) == [(A, 2)]


async def test_what_a_node_works_on_and_nobody_gave_it_is_not_in_its_mailbox(world: World) -> None:
    await join(world)
    await bring(world, "DISPATCHED", C)
    await heartbeat(world.engine, CELL, "n1", running=[(A, 1)])
    assert await mailbox(world) == [(C, 1)]


async def test_a_node_on_a_socket_has_none_until_it_registers_without(world: World) -> None:
    await join(world, connection="s1")
    await bring(world, "DISPATCHED")
    refused = await mailbox(world)
    assert code_of(refused) == "STALE_ATTEMPT"
    await join(world)
    assert await mailbox(world) == [(A, 1)]


async def test_a_node_that_nobody_knows_has_none(world: World) -> None:
    assert code_of(await mailbox(world)) == "UNKNOWN_NODE"
    assert code_of(await mailbox(world, "n{1}")) == "INVALID_MESSAGE"
    assert code_of(await read_mailbox(world.engine, "C0", "n1")) == "INVALID_MESSAGE"


async def test_a_cell_that_was_begun_says_by_which_layout_and_an_empty_engine_says_0(world: World) -> None:
    assert await read_schema(world.engine, CELL) == Schema(0, 0, T0)
    birth = await check_schema(world.engine, CELL)
    world.now_ms += 7
    seen = await asyncio.gather(*(read_schema(world.engine, CELL) for _ in range(2)))
    assert seen == [Schema(SCHEMA, birth, T0 + 7)] * 2
    await world.engine.command("DEL", cell_key(world.engine.prefix, CELL, "counts"))
    assert await read_schema(world.engine, CELL) == Schema(0, 0, T0 + 7)
    assert code_of(await read_schema(world.engine, "C0")) == "INVALID_MESSAGE"


async def test_a_cell_that_lost_its_layout_has_none_though_it_goes_on_counting(world: World) -> None:
    await check_schema(world.engine, CELL)
    await world.engine.command("DEL", cell_key(world.engine.prefix, CELL, "counts"))
    await join(world)
    await place(world)
    assert await read_schema(world.engine, CELL) == Schema(0, 0, T0)


async def test_a_cell_has_one_birth_until_it_is_begun_anew(world: World) -> None:
    births = await asyncio.gather(*(check_schema(world.engine, CELL) for _ in range(3)))
    assert births == [births[0]] * 3
    assert births[0] > 0
    await world.engine.command("DEL", cell_key(world.engine.prefix, CELL, "counts"))
    assert await check_schema(world.engine, CELL) not in {0, births[0]}
