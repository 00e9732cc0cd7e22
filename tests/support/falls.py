"""Nodes of two pools, of which one is the other's fallback, and jobs that wait for the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.flows.dispatch import dispatch
from tests.support.stage import T0, join, keep_alive, sweep, wait
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.flows.register import Registered
    from tests.support.world import World

#: When a node that said nothing since the beginning may be dead.
STALE: Final = T0 + 35_000


async def yue_node(world: World, node_id: str = "yue", **said: Any) -> Registered:
    return await join(world, node_id, **({"semantic_langs": ["yue"], "nmt_pairs": [["yue", "en"]]} | said))


async def zh_node(world: World, node_id: str = "zh", **said: Any) -> Registered:
    return await join(world, node_id, **({"semantic_langs": ["zh"], "nmt_pairs": [["zh", "en"]]} | said))


async def asks(world: World, job_id: str, src: str = "yue", tgt: str = "en", **asked: Any) -> object:
    return await dispatch(world.engine, job_id, "s1", src, tgt, **({"seed": 1} | asked))


async def until_stale(world: World, *alive: str) -> None:
    """It is the moment at which nodes that said nothing since the beginning may be dead; these did say something."""
    world.now_ms = STALE - 1
    await keep_alive(world, *alive)
    await sweep(world)
    world.now_ms = STALE


async def crowd(world: World, number: int, slots: int) -> list[str]:
    """So many wait, in the order of their names, and a zh node has slots. The yue node is about to be dead."""
    await zh_node(world, max_concurrent_jobs=slots)
    await yue_node(world, health="degraded")
    names = [f"{CELL}.j{n:03}" for n in range(number)]
    await wait(world, dict.fromkeys(names, 60_000), "yue:en")
    await until_stale(world, "zh")
    return names
