"""Two processes dispatch against one cell as hard as they can; one is killed again and again, the other put to sleep.

Slots are counted twice: in the engine's ledger, by the auditor, and on the nodes' own side, by what they wrote down
when they began and ended each attempt.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import sys
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.flows.relay import relay
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.views.audit import audit_whole
from lingua_scheduler.views.cell import read_cell
from tests.scenarios.programs.dispatcher import CELL, RULES, Dispatcher, dispatching
from tests.scenarios.programs.nodes import NODES, SLOTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.servers import Server

KILLS = 6
#: Longer than a call waits for its reply, and than an assignment may be on its way before its node confirms a fence.
ASLEEP_S = 1.1
#: Everything that a killed process left behind is over by then: the job's deadline, its limbo, and some sweeps.
SETTLED_S = 15.0


class Storm:
    """The test's own hands: it starts and kills processes, and looks on."""

    def __init__(self, url: str, engine: Engine, directory: Path) -> None:
        self._url = url
        self._engine = engine
        self.socket = str(directory / "nodes")
        self.history = directory / "history"
        self.sightings = 0

    async def start(self, program: str, ready: bytes, *words: object) -> asyncio.subprocess.Process:
        arguments = (sys.executable, "-m", f"tests.scenarios.programs.{program}", self._url, self._engine.prefix)
        process = await asyncio.create_subprocess_exec(
            *arguments, self.socket, *map(str, words), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == ready
        return process

    @asynccontextmanager
    async def nodes(self, seed: int) -> AsyncIterator[None]:
        process = await self.start("nodes", b"joined\n", self.history, seed)
        try:
            yield
            assert process.returncode is None, "the nodes died"
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def dispatcher(self, seed: int) -> asyncio.subprocess.Process:
        return await self.start("dispatcher", b"storming\n", seed)

    async def watch(self) -> None:
        """At every instant that is looked at, every invariant holds."""
        while True:
            assert await audit_whole(self._engine, CELL, overdue_ms=5_000) == []
            self.sightings += 1
            await asyncio.sleep(0.02)

    async def hear_the_rest(self, hands: Dispatcher) -> None:
        events = await relay(self._engine, CELL)
        while not isinstance(events, Refusal) and events.events:
            for event in events.events:
                await hands.hear(event)
            events = await relay(self._engine, CELL, events.events)


class Held:
    """What the nodes held at every instant, from their own history."""

    def __init__(self, history: Path) -> None:
        self.now: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self.peaks: dict[str, int] = defaultdict(int)
        self.begun: set[tuple[str, str, int]] = set()
        for line in history.read_text().splitlines():
            what, node_id, job_id, attempt = line.split()
            held, key = self.now[node_id], (job_id, int(attempt))
            if what == "+":
                assert (node_id, *key) not in self.begun, f"{line}: it had this attempt before"
                self.begun.add((node_id, *key))
                held.add(key)
                assert len(held) <= SLOTS, f"{line}: {node_id} holds {held}"
                self.peaks[node_id] = max(self.peaks[node_id], len(held))
            else:
                held.remove(key)


async def test_a_killed_dispatcher_oversells_leaks_and_loses_nothing(server: Server, tmp_path: Path) -> None:
    seed = int(os.environ.get("LINGUA_STORM_SEED", "7"))
    rng = random.Random(seed)
    prefix = f"test:{secrets.token_hex(6)}"
    engine = await Engine.connect(server.url, prefix, msgspec.msgpack.encode(RULES))
    storm = Storm(server.url, engine, tmp_path)
    async with engine, storm.nodes(seed), dispatching(engine, storm.socket, seed) as hands:
        watching = asyncio.create_task(storm.watch())
        steady = await storm.dispatcher(rng.randrange(1000))
        for _ in range(KILLS):
            victim = await storm.dispatcher(rng.randrange(1000))
            await asyncio.sleep(rng.uniform(0.05, 0.4))
            steady.send_signal(signal.SIGSTOP)
            await asyncio.sleep(ASLEEP_S)
            steady.send_signal(signal.SIGCONT)
            await asyncio.sleep(rng.uniform(0.0, 0.1))
            victim.kill()
            assert await victim.wait() == -signal.SIGKILL
        steady.terminate()
        assert await steady.wait() == 0

        async with asyncio.timeout(SETTLED_S):
            while True:
                await reap(engine, CELL)
                await storm.hear_the_rest(hands)
                cell = await read_cell(engine, CELL)
                assert isinstance(cell, Cell)
                if not cell.leases and not cell.outbox and all(job.state in ENDS for job in cell.jobs.values()):
                    break
        watching.cancel()
        (outcome,) = await asyncio.gather(watching, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError), outcome

        heard = {line.decode() for line in await engine.command("SMEMBERS", f"{prefix}:heard")}
        ended = {f"ended:{job_id}:{job.attempt}" for job_id, job in cell.jobs.items()}
        retried = {f"reserved:{i}:{n}" for i, job in cell.jobs.items() for n in range(2, job.attempt + 1)}
        finished = {(job.node, i, job.attempt) for i, job in cell.jobs.items() if job.state == "FINISHED"}
        assert ended <= heard
        # An offer that nobody took up in time has gone by, and is not carried to its node any more.
        too_late = {"unsent", "ack_timeout", "lost_early", "expired"}
        ends = [(i, past) for i, job in cell.jobs.items() for past in job.past.attempts]
        gone_by = {f"reserved:{i}:{past.attempt}" for i, past in ends if past.cause in too_late}
        assert retried - gone_by <= heard
        assert len(cell.jobs) == cell.counts["accepted"] == sum(cell.counts.get(state, 0) for state in ENDS)
        assert await audit_whole(engine, CELL, overdue_ms=5_000) == []
        assert storm.sightings > 10
        assert len(cell.jobs) > 500
        assert retried & heard

    held = Held(storm.history)
    assert finished
    assert finished <= held.begun
    assert not any(held.now.values()), "a node still holds what no ledger knows"
    assert set(held.peaks.values()) == {SLOTS}
    assert len(held.peaks) == NODES
