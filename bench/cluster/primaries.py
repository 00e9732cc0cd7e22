"""One primary, two with twice as many cells and callers, three with three times as many: what a job costs the busiest.

A job is an utterance of a session that nobody else uses, placed in one of many cells at random, as they are named in
any fleet: which primary has which is left to their slots. Its flows are called directly: what is measured is the
engine, without what it takes when nobody asks for anything. Nothing is folded: how much could be depends on how many
answers the one process of callers finds at a time, and not on the engine. The three Clusters take turns.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from contextlib import AsyncExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.amounts import amount
from bench.figures import rounded
from bench.fleet import at_once, cycle, enrol
from bench.processes import cpu_us
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.enter_session import enter_session
from lingua_scheduler.flows.save_session import save_session
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.face import pack
from tests.support.clusters import SLOTS, Node
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIMARIES: Final = (1, 2, 3)
#: Of each primary, if they were spread evenly.
CELLS: Final = 16
NODES: Final = 20
ROUNDS: Final = amount(5, 1)
JOBS: Final = amount(1_280, 64)
IN_FLIGHT: Final = amount(256, 64)
_IDLE_S: Final = 2.0
#: Nobody beats here.
RULES: Final = Rules(stale_ms=10**9, offline_ms=2 * 10**9)
_STATE: Final = bytes(800)
_TTL_MS: Final = 600_000


class Town:
    """A Cluster with so many primaries, and no replicas."""

    def __init__(self, nodes: list[Node], engine: Engine) -> None:
        self._nodes = nodes
        self._engine = engine
        self.cells = [f"c{number}" for number in range(CELLS * len(nodes))]
        self._sessions = count()
        self._idle_us_per_s = [0.0] * len(nodes)

    def _spent_us(self) -> list[float]:
        return [cpu_us(node.server.pid) for node in self._nodes]

    async def rest(self) -> None:
        """See what each takes when nothing happens."""
        before = self._spent_us()
        await asyncio.sleep(_IDLE_S)
        self._idle_us_per_s = [(now - was) / _IDLE_S for now, was in zip(self._spent_us(), before, strict=True)]

    async def job(self) -> None:
        """An utterance: its session is asked and saved, its job is placed and done."""
        engine, session_id = self._engine, f"s{next(self._sessions)}"
        await enter_session(engine, session_id, "me", utterance_index=None, rate=10**4, burst=10**4, ttl_ms=_TTL_MS)
        await save_session(engine, session_id, "here.1", _STATE, _TTL_MS, principal="me", create=True)
        await cycle(engine, random.choice(self.cells))

    async def busiest_us(self) -> float:
        """What a job costs the primary that has most to do."""
        size, begun_s, before = len(self._nodes), time.monotonic(), self._spent_us()
        await at_once(self.job, JOBS * size, IN_FLIGHT * size)
        took_s, after = time.monotonic() - begun_s, self._spent_us()
        spent = [now - was - took_s * idle for now, was, idle in zip(after, before, self._idle_us_per_s, strict=True)]
        return max(spent) / (JOBS * size)


async def measure() -> dict[str, Any]:
    """Each in its turn, several times; what is held against a bound is the median of the ratios of one round."""
    spent: dict[int, list[float]] = {number: [] for number in PRIMARIES}
    async with AsyncExitStack() as stack:
        towns: dict[int, Town] = {}
        for number in PRIMARIES:
            nodes = stack.enter_context(_cluster(number))
            url = f"redis+cluster://127.0.0.1:{nodes[0].port}"
            engine = await stack.enter_async_context(
                await Engine.connect(url, "primaries", pack(RULES), max_batch=1, timeout_ms=10_000)
            )
            towns[number] = Town(nodes, engine)
            for cell in towns[number].cells:
                await enrol(engine, NODES, 8, cell)
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
            for place, node in enumerate(nodes):
                node.start()
                # Nobody dies here, however long a busy machine lets one wait.
                node.ask("CONFIG", "SET", "cluster-node-timeout", 60_000)
                low, high = SLOTS * place // number, SLOTS * (place + 1) // number
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
