"""Instances are killed under load, one after the other: how many jobs that were accepted did not end well."""

from __future__ import annotations

from typing import Any, Final

from bench.amounts import amount
from bench.cluster.hands import hands
from bench.cluster.instances import instances
from bench.cluster.load import BREATH, load
from bench.serving import storing

KILLS: Final = amount(20, 1)
INSTANCES: Final = 3
NODES: Final = 6
SLOTS: Final = 8
CALLERS: Final = 6
WORK_S: Final = 0.05


async def measure() -> dict[str, Any]:
    """Each is killed in its turn, and started again while the others serve."""
    with storing() as store, instances(store.url, INSTANCES) as all_of_them:
        async with hands(all_of_them, NODES, SLOTS, WORK_S), load(all_of_them, CALLERS) as history:
            for number in range(KILLS):
                await history.more(BREATH)
                victim = all_of_them[number % INSTANCES]
                victim.kill()
                await victim.start_again()
            await history.more(BREATH)
    return {
        "instance_kills": KILLS,
        "jobs_under_instance_kills": len(history.ends),
        "jobs_lost_by_instance_kills": history.lost,
    }
