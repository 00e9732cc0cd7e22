"""A process that dispatches as hard as it can, works the jobs off itself, reaps and relays, until it is killed.

usage: python -m tests.scenarios.programs.dispatcher URL PREFIX SEED
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys

import msgspec

from lingua_scheduler.core.ids import new_job_id
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Event, Rules
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.started import started
from lingua_scheduler.loops.reaper import Reaper
from lingua_scheduler.loops.relayer import Relayer
from lingua_scheduler.store.engine import Engine

CELL = "c0"
LANES = 16
#: Short, so that what a killed process leaves behind is taken up again within the test.
RULES = Rules(confirm_after_ms=50, retry_poll_ms=5, relay_lease_ms=200, limbo_ttl_ms=2_000)
LIMITS = Limits(ack_ms=150, run_ms=300, timeout_ms=3_000)


class Dispatcher:
    """One process' share of the storm."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self._engine = engine
        self._random = random.Random(seed)
        self._errands: set[asyncio.Task[None]] = set()
        self.over = asyncio.Event()

    async def lane(self) -> None:
        while not self.over.is_set():
            job_id = new_job_id(CELL)
            placed = await dispatch(self._engine, job_id, "storm", "en", "zh", body="{}", limits=LIMITS)
            if isinstance(placed, Refusal):
                await asyncio.sleep(0.001)  # full: the other process has all slots
            else:
                await self.work(job_id, placed.attempt_id, placed.node_id, placed.epoch)

    async def work(self, job_id: str, attempt: int, node_id: str, epoch: str) -> None:
        engine, dice = self._engine, self._random.random()
        await deliver(engine, job_id, attempt, node_id, epoch, sent=dice > 0.03)
        if dice <= 0.03:
            return
        await ack(engine, job_id, attempt, node_id, epoch)
        if dice < 0.06:
            await fail(engine, job_id, attempt, node_id, epoch, reason="dice")
        elif dice < 0.99:
            await started(engine, job_id, attempt, node_id, epoch)
            await done(engine, job_id, attempt, node_id, epoch, result="{}")
        # else: it is forgotten, and must be found by its run timeout

    async def hear(self, event: Event) -> None:
        await self._engine.command("SADD", f"{self._engine.prefix}:heard", f"{event.kind}:{event.job}:{event.attempt}")
        if event.kind == "reserved":
            errand = asyncio.create_task(self.work(event.job, event.attempt, event.node, event.epoch))
            self._errands.add(errand)
            errand.add_done_callback(self._errands.discard)


async def main(url: str, prefix: str, seed: int) -> None:
    engine = await Engine.connect(url, prefix, msgspec.msgpack.encode(RULES))
    dispatcher = Dispatcher(engine, seed)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, dispatcher.over.set)
    async with engine, Reaper(engine, CELL, 20), Relayer(engine, CELL, 5, dispatcher.hear):
        print("storming", flush=True)  # noqa: T201 - the test waits for this line
        await asyncio.gather(*(dispatcher.lane() for _ in range(LANES)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
