"""The primary that has the cell is killed under load, on a Cluster of six: how long nobody got anything accepted, and
whether anything is lost that was.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.amounts import amount
from bench.cluster.hands import hands
from bench.cluster.instances import instances
from bench.cluster.load import BREATH, load
from bench.figures import rounded
from lingua_scheduler.store.slots import slot_of
from tests.support.clusters import NODE_TIMEOUT_MS, Sixpack

FAILOVERS: Final = amount(3, 1)
INSTANCES: Final = 2
NODES: Final = 4
SLOTS: Final = 8
CALLERS: Final = 4
WORK_S: Final = 0.05
#: As it is by default.
CELL: Final = "c0"


async def measure() -> dict[str, Any]:
    """A replica takes the place of each; who was killed comes back as one."""
    outages_ms = []
    with tempfile.TemporaryDirectory() as folder:
        cluster = Sixpack(Path(folder))
        try:
            cluster.start()
            with instances(cluster.url, INSTANCES) as both:
                async with hands(both, NODES, SLOTS, WORK_S), load(both, CALLERS) as history:
                    for _ in range(FAILOVERS):
                        await history.more(BREATH)
                        killed_s = time.monotonic()
                        cluster.primary_of(slot_of(CELL)).server.stop()
                        await history.more(BREATH)
                        outages_ms.append(history.gap_ms(killed_s))
                        await asyncio.to_thread(cluster.start_again)
                    await history.more(BREATH)
        finally:
            cluster.stop()
    return {
        "failovers": FAILOVERS,
        "failover_outage_ms": [rounded(outage, 0) for outage in outages_ms],
        "cluster_node_timeout_ms": NODE_TIMEOUT_MS,
        "jobs_confirmed_under_failover": len(history.ends),
        "jobs_lost_by_failover": history.lost,
    }
