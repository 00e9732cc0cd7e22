"""What a cell counts: nothing is decided by it, so it is compared here and by the model, and nowhere else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.evict import evict
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.resume import resume
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.flows.undeliver import undeliver
from lingua_scheduler.views.counts import Counts, read_counts
from tests.support.cells import watch
from tests.support.stage import A, B, C, bring, code_of, join, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


async def counted(world: World) -> dict[str, object]:
    """What is not zero."""
    counts, changes = await watch(world, read_counts(world.engine, CELL))
    assert isinstance(counts, Counts)
    assert changes == {}
    found: dict[str, object] = {"attempts": {name: number for name, number in counts.attempts.items() if number}}
    found["ended"] = {state: number for state, number in counts.ended.items() if number}
    for name in ("accepted", "retried", "refused_incapable", "refused_full"):
        found[name] = getattr(counts, name)
    return {name: number for name, number in found.items() if number}


async def test_an_empty_cell_has_counted_nothing(world: World) -> None:
    assert await counted(world) == {}


async def test_refusals_are_counted_by_their_reason(world: World) -> None:
    await asyncio.gather(*(dispatch(world.engine, job_id, "s1", "en", "zh") for job_id in (A, B)))
    await join(world, max_concurrent_jobs=1)
    await bring(world, "FINISHED", A)
    await place(world, B)
    assert isinstance(await dispatch(world.engine, C, "s1", "en", "zh"), Refusal)
    assert await counted(world) == {
        "accepted": 2,
        "ended": {"FINISHED": 1},
        "refused_incapable": 2,
        "refused_full": 1,
    }


async def test_attempts_and_retries_are_counted_by_every_flow_that_ends_or_makes_them(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=9)
    await place(world, A, limits=Limits(max_retry=10))
    await fail(world.engine, A, 1, "n1", reason="broken")
    await stopped(world.engine, A, 2, "n1")
    await undeliver(world.engine, A, 3, "n1")
    world.now_ms += 500
    await sweep(world)
    assert await counted(world) == {
        "accepted": 1,
        "attempts": {"failed": 1, "stopped": 1, "undelivered": 1},
        "retried": 3,
    }
    await deliver(world.engine, A, 4, "n1")
    for _ in range(2):
        world.now_ms += 5_000
        await sweep(world)
    await evict(world.engine, CELL, "n1")
    assert await counted(world) == {
        "accepted": 1,
        "attempts": {"failed": 1, "stopped": 1, "undelivered": 1, "ack_timeout": 1, "unsent": 1, "evicted": 1},
        "retried": 5,
    }
    await cancel(world.engine, A)
    assert (await counted(world))["ended"] == {"CANCELLED": 1}


async def test_a_retry_that_waited_is_counted_when_it_is_served(world: World) -> None:
    """By a heartbeat, a resume, a registration and a result."""
    await join(world, "n1", max_concurrent_jobs=1)
    await place(world, A, limits=Limits(max_retry=10))
    await heartbeat(world.engine, CELL, "n1", health="degraded")
    await fail(world.engine, A, 1, "n1", reason="broken")
    assert "retried" not in await counted(world)
    await heartbeat(world.engine, CELL, "n1", health="ready")
    assert (await counted(world))["retried"] == 1
    await evict(world.engine, CELL, "n1")
    await stopped(world.engine, A, 2, "n1")
    await resume(world.engine, CELL, "n1")
    assert (await counted(world))["retried"] == 2
    await leave(world.engine, CELL, "n1")
    await join(world, "n2", max_concurrent_jobs=1)
    assert (await counted(world))["retried"] == 3
    assert code_of(await done(world.engine, A, 4, "n2")) == ""


async def test_a_cell_must_be_named(world: World) -> None:
    assert code_of(await read_counts(world.engine, "{c0}")) == "INVALID_MESSAGE"
