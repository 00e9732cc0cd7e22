"""Nodes with a past: the jobs that each of them did, and those that it failed."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from tests.support.stage import ONE_TRY
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

#: An outcome: the node failed the job, or did it.
FAILED, DONE = "x", "."

_NUMBERS: Final = itertools.count()


async def give(world: World, node_id: str) -> str:
    """A job for just this node, with one try; its id."""
    job_id = f"{CELL}.for-{node_id}-{next(_NUMBERS)}"
    wanted = Wanted(preferred_node_id=node_id, strict=True)
    answer = await dispatch(world.engine, job_id, "s1", "en", "zh", limits=ONE_TRY, wanted=wanted, seed=1)
    assert isinstance(answer, Placed), answer
    return job_id


async def live(world: World, node_id: str, outcomes: str) -> None:
    """Let a node have jobs one after the other, with these outcomes."""
    for outcome in outcomes:
        job_id = await give(world, node_id)
        if outcome == FAILED:
            await fail(world.engine, job_id, 1, node_id, reason="broken")
        else:
            await done(world.engine, job_id, 1, node_id)


async def doubt(world: World, *node_ids: str) -> None:
    """Let these nodes come under suspicion, now."""
    await asyncio.gather(*(live(world, node_id, 3 * FAILED) for node_id in node_ids))
    nodes = (await world.cell()).nodes
    assert all(nodes[node_id].probe_at_ms > world.now_ms for node_id in node_ids), nodes
