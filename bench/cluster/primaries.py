"""One primary, two with twice as many callers, three with three times as many: what a job costs the busiest of them.

Each Cluster has a `lingua serve` of its own, with the same cells and nodes, and jobs over HTTP, each of a session of
its own. Slots are given out so that each primary has as many cells as any other, as an operator would do it. With the
same callers for all three, each primary would be woken as often for fewer calls at a time, and that is not what it is
added for. What nobody asked for (sweeps, beats) is seen before, and is not counted. The three take turns.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from contextlib import AsyncExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.amounts import amount
from bench.cluster.hands import hands
from bench.cluster.instances import instances
from bench.cluster.load import load
from bench.figures import rounded
from bench.processes import cpu_us
from lingua_scheduler.store.slots import slot_of
from tests.support.clusters import SLOTS, Node
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.cluster.instances import Instance

PRIMARIES: Final = (1, 2, 3)
#: As many for one as for three.
CELLS: Final = 12
NODES_PER_CELL: Final = 2
NODE_SLOTS: Final = 8
WORK_S: Final = 0.005
#: Of each primary.
CALLERS: Final = amount(48, 6)
ROUNDS: Final = amount(5, 1)
JOBS: Final = amount(2_000, 60)
_IDLE_S: Final = amount(4, 1)


class Town:
    """A Cluster with so many primaries, and an instance with its nodes."""

    def __init__(self, nodes: list[Node], serving: list[Instance]) -> None:
        self._nodes = nodes
        self._serving = serving
        self._idle_us_per_s = [0.0] * len(nodes)

    def _spent_us(self) -> list[float]:
        return [cpu_us(node.server.pid) for node in self._nodes]

    async def rest(self) -> None:
        """See what each takes when nothing happens."""
        before = self._spent_us()
        await asyncio.sleep(_IDLE_S)
        self._idle_us_per_s = [(now - was) / _IDLE_S for now, was in zip(self._spent_us(), before, strict=True)]

    async def busiest_us(self) -> float:
        """What a job costs the primary that has most to do."""
        begun_s, before = time.monotonic(), self._spent_us()
        async with load(self._serving, CALLERS * len(self._nodes)) as history:
            await history.more(JOBS)
        took_s, after = time.monotonic() - begun_s, self._spent_us()
        if history.lost:
            raise RuntimeError(f"{history.lost} jobs were lost")
        spent = [now - was - took_s * idle for now, was, idle in zip(after, before, self._idle_us_per_s, strict=True)]
        return max(spent) / len(history.ends)


async def measure() -> dict[str, Any]:
    """Each in its turn, several times; what is held against a bound is the median of the ratios of one round."""
    spent: dict[int, list[float]] = {number: [] for number in PRIMARIES}
    async with AsyncExitStack() as stack:
        towns: dict[int, Town] = {}
        for number in PRIMARIES:
            nodes = stack.enter_context(_cluster(number))
            url = f"redis+cluster://127.0.0.1:{nodes[0].port}"
            serving = stack.enter_context(instances(url, 1, LINGUA_CELL__CELL_CAPACITY=str(NODES_PER_CELL)))
            await stack.enter_async_context(hands(serving, CELLS * NODES_PER_CELL, NODE_SLOTS, WORK_S))
            towns[number] = Town(nodes, serving)
            await towns[number].busiest_us()
            await towns[number].rest()
        for _ in range(ROUNDS):
            for number, town in towns.items():
                spent[number].append(await town.busiest_us())
    shares = {
        str(number): statistics.median(
            number * busiest / one for busiest, one in zip(spent[number], spent[1], strict=True)
        )
        for number in PRIMARIES
    }
    return {
        "engine_cpu_us_per_job_on_busiest_primary": {
            str(number): rounded(statistics.median(found), 1) for number, found in spent.items()
        },
        "busiest_primary_times_primaries": {number: rounded(share) for number, share in shares.items()},
        "busiest_primary_times_primaries_max": rounded(max(shares.values())),
    }


def _bounds(number: int) -> list[int]:
    """Where the slots of each primary begin, and the end: so that all have as many cells."""
    slots = sorted(slot_of(f"c{cell}") for cell in range(CELLS))
    firsts = [CELLS * place // number for place in range(1, number)]
    return [0, *((slots[first - 1] + slots[first] + 1) // 2 for first in firsts), SLOTS]


@contextmanager
def _cluster(number: int) -> Iterator[list[Node]]:
    with tempfile.TemporaryDirectory() as folder:
        ports = free_ports(2 * number)
        nodes = []
        for place in range(number):
            own = Path(folder) / f"n{place}"
            own.mkdir()
            nodes.append(Node(own, ports.pop(), ports.pop()))
        try:
            for place, (node, (low, high)) in enumerate(zip(nodes, pairwise(_bounds(number)), strict=True)):
                node.start()
                # Nobody dies here, however long a busy machine lets one wait.
                node.ask("CONFIG", "SET", "cluster-node-timeout", 60_000)
                node.ask("CLUSTER", "ADDSLOTSRANGE", low, high - 1)
                node.ask("CLUSTER", "SET-CONFIG-EPOCH", 1 + place)
            for node in nodes[1:]:
                node.ask("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, nodes[0].bus_port)
            wait_until(lambda: all(_is_well(node, number) for node in nodes), 20, "the Cluster is well")
            yield nodes
        finally:
            for node in nodes:
                node.server.stop()


def _is_well(node: Node, number: int) -> bool:
    info = node.info
    return (info("cluster_state", "cluster info"), info("cluster_known_nodes", "cluster info")) == ("ok", str(number))
