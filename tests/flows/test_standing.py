"""Why a node can or cannot be chosen: exactly one answer, the first that holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Standing
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.resume import resume
from tests.support.stage import T0, A, B, join, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

PATIENT = Limits(ack_ms=90_000, run_ms=90_000, timeout_ms=90_000)


async def standing(world: World) -> Standing:
    return Standing((await world.cell()).nodes["n1"].standing)


async def test_each_reason_hides_those_below_it(world: World) -> None:
    """One reason after the other comes on top, until all of them hold at once."""
    await join(world, connection="x")
    assert await standing(world) == Standing.available
    await place(world, A, limits=PATIENT)
    await place(world, B, limits=PATIENT)
    assert await standing(world) == Standing.full
    await fail(world.engine, B, 1, "n1", reason="", overloaded=True, retry_after_ms=60_000)
    await cancel(world.engine, B)
    await heartbeat(world.engine, CELL, "n1", max_concurrent_jobs=1)
    assert await standing(world) == Standing.resting
    await heartbeat(world.engine, CELL, "n1", health="degraded")
    assert await standing(world) == Standing.not_ready
    await drain(world.engine, CELL, "n1")
    assert await standing(world) == Standing.draining
    world.now_ms += 35_000
    await sweep(world)
    assert await standing(world) == Standing.stale
    await disconnect(world.engine, CELL, "n1", "x", "handover")
    assert await standing(world) == Standing.not_ready
    world.now_ms += 10_000
    await sweep(world)
    assert await standing(world) == Standing.lost


async def test_each_reason_that_ends_shows_the_next(world: World) -> None:
    """All of them hold at first, but for the loss; its grace is one of them."""
    await join(world, connection="x")
    await place(world, A, limits=PATIENT)
    await deliver(world.engine, A, 1, "n1")
    await place(world, B, limits=PATIENT)
    await fail(world.engine, B, 1, "n1", reason="", overloaded=True, retry_after_ms=60_000)
    await cancel(world.engine, B)
    await heartbeat(world.engine, CELL, "n1", health="degraded", max_concurrent_jobs=1)
    await drain(world.engine, CELL, "n1")
    await disconnect(world.engine, CELL, "n1", "x", "handover")
    found = [await standing(world)]
    await join(world, connection="y", epoch="1-n1", health="degraded", max_concurrent_jobs=1)
    found.append(await standing(world))
    await resume(world.engine, CELL, "n1")
    found.append(await standing(world))
    await heartbeat(world.engine, CELL, "n1", health="ready")
    found.append(await standing(world))
    world.now_ms = T0 + 60_000
    await heartbeat(world.engine, CELL, "n1")
    found.append(await standing(world))
    await done(world.engine, A, 1, "n1")
    found.append(await standing(world))
    assert [reason.name for reason in found] == ["not_ready", "draining", "not_ready", "resting", "full", "available"]


async def test_a_node_is_stale_at_that_very_moment_and_not_before(world: World) -> None:
    """By the clock, whoever looks: a resume judges it too."""
    await join(world)
    world.now_ms += 34_999
    await resume(world.engine, CELL, "n1")
    assert await standing(world) == Standing.available
    await ack(world.engine, A, 1, "n1")
    world.now_ms += 34_999
    await resume(world.engine, CELL, "n1")
    assert await standing(world) == Standing.available
    world.now_ms += 1
    await resume(world.engine, CELL, "n1")
    assert await standing(world) == Standing.stale


async def test_a_node_has_rested_at_that_very_moment_and_not_before(world: World) -> None:
    await join(world)
    await place(world)
    await fail(world.engine, A, 1, "n1", reason="", overloaded=True, retry_after_ms=300)
    await cancel(world.engine, A)
    for late_ms, expected in ((299, Standing.resting), (1, Standing.available)):
        world.now_ms += late_ms
        await resume(world.engine, CELL, "n1")
        assert await standing(world) == expected
