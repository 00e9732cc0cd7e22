"""Two processes dispatch against one cell as hard as they can, and one is killed again and again."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import sys
from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.flows.register import register
from lingua_scheduler.flows.relay import relay
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.views.audit import audit_whole
from lingua_scheduler.views.cell import read_cell
from tests.scenarios.programs.dispatcher import CELL, RULES

if TYPE_CHECKING:
    from tests.support.servers import Server

NODES, SLOTS, KILLS = 6, 3, 6
#: Everything that a killed process left behind is over by then: the job's deadline, its limbo, and some sweeps.
SETTLED_S = 15.0


class Storm:
    """The test's own hands: it starts and kills processes, beats for the nodes, and looks on."""

    def __init__(self, url: str, engine: Engine) -> None:
        self._url = url
        self._engine = engine
        self.sightings = 0

    async def start(self, seed: int) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.scenarios.programs.dispatcher",
            self._url,
            self._engine.prefix,
            str(seed),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"storming\n"
        return process

    async def beat(self) -> None:
        """The nodes run nothing but what the ledger says: whatever is fenced they have stopped."""
        while True:
            for number in range(NODES):
                assert not isinstance(await heartbeat(self._engine, CELL, f"node-{number}", running=[]), Refusal)
            await asyncio.sleep(0.05)

    async def watch(self) -> None:
        """At every instant that is looked at, every invariant holds."""
        while True:
            assert await audit_whole(self._engine, CELL, overdue_ms=5_000) == []
            self.sightings += 1
            await asyncio.sleep(0.02)

    async def hear_the_rest(self) -> None:
        events = await relay(self._engine, CELL)
        while not isinstance(events, Refusal) and events.events:
            for event in events.events:
                line = f"{event.kind}:{event.job}:{event.attempt}"
                await self._engine.command("SADD", f"{self._engine.prefix}:heard", line)
            events = await relay(self._engine, CELL, events.events)


async def test_a_killed_dispatcher_oversells_leaks_and_loses_nothing(server: Server) -> None:
    seed = int(os.environ.get("LINGUA_STORM_SEED", "7"))
    rng = random.Random(seed)
    prefix = f"test:{secrets.token_hex(6)}"
    async with await Engine.connect(server.url, prefix, msgspec.msgpack.encode(RULES)) as engine:
        for number in range(NODES):
            await register(engine, CELL, f"node-{number}", semantic_langs=["en", "zh"], max_concurrent_jobs=SLOTS)
        storm = Storm(server.url, engine)
        helpers = [asyncio.create_task(storm.beat()), asyncio.create_task(storm.watch())]
        steady = await storm.start(rng.randrange(1000))
        for _ in range(KILLS):
            victim = await storm.start(rng.randrange(1000))
            await asyncio.sleep(rng.uniform(0.05, 0.4))
            victim.kill()
            assert await victim.wait() == -signal.SIGKILL
        steady.terminate()
        assert await steady.wait() == 0

        async with asyncio.timeout(SETTLED_S):
            while True:
                await reap(engine, CELL)
                await storm.hear_the_rest()
                cell = await read_cell(engine, CELL)
                if not cell.leases and not cell.outbox and all(job.state in ENDS for job in cell.jobs.values()):
                    break
        for helper in helpers:
            helper.cancel()
        outcomes = await asyncio.gather(*helpers, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes), outcomes

        heard = {line.decode() for line in await engine.command("SMEMBERS", f"{prefix}:heard")}
        ended = {f"ended:{job_id}:{job.attempt}" for job_id, job in cell.jobs.items()}
        retried = {f"reserved:{i}:{n}" for i, job in cell.jobs.items() for n in range(2, job.attempt + 1)}
        assert ended <= heard
        assert retried <= heard
        assert len(cell.jobs) == cell.counts["accepted"] == sum(cell.counts.get(state, 0) for state in ENDS)
        assert await audit_whole(engine, CELL, overdue_ms=5_000) == []
        assert storm.sightings > 10
        assert len(cell.jobs) > 500
        assert retried
        assert any(job.state == "FINISHED" for job in cell.jobs.values())
