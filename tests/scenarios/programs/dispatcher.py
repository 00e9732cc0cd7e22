"""A process that dispatches as hard as it can, hands the jobs to the nodes, reaps and relays, until it is killed.

usage: python -m tests.scenarios.programs.dispatcher URL PREFIX NODES_SOCKET SEED
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.new_ids import new_job_id
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.started import started
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.flows.undeliver import undeliver
from lingua_scheduler.loops.reaper import Reaper
from lingua_scheduler.loops.relayer import Relayer
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.views.job import read_job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from typing import Any

    from lingua_scheduler.core.records import Event

CELL = "c0"
LANES = 16
UNDELIVERED = 0.03
#: Short, so that what a killed process leaves behind is taken up again within the test; but longer than an assignment
#: is on its way to its node, though its sender sleeps for a second: for a node that does not know an attempt says that
#: it does not work on it.
RULES = Rules(confirm_after_ms=5_000, relay_lease_ms=50, limbo_ttl_ms=30_000, reconnect_grace_ms=5)
LIMITS = Limits(ack_ms=150, run_ms=300, timeout_ms=3_000)


@dataclass(slots=True)
class Given:
    """An attempt that this process has given to its node."""

    epoch: str
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Dispatcher:
    """One process' share of the storm: it carries words between the engine and the nodes."""

    def __init__(self, engine: Engine, nodes: asyncio.StreamWriter, seed: int) -> None:
        self._engine = engine
        self._nodes = nodes
        self._random = random.Random(seed)
        self._errands: set[asyncio.Task[object]] = set()
        self._given: dict[tuple[str, int], Given] = {}
        self.over = asyncio.Event()

    async def lane(self) -> None:
        """One job after the other: each is followed until its node has said its last word about it."""
        while not self.over.is_set():
            job_id = new_job_id(CELL)
            placed = await dispatch(self._engine, job_id, "storm", "en", "zh", body="{}", limits=LIMITS)
            if not isinstance(placed, Placed):
                await asyncio.sleep(0.001)  # full: the other process has all slots
                continue
            given = await self.assign(job_id, placed.attempt_id, placed.node_id, placed.epoch, fails=UNDELIVERED)
            await given.over.wait()

    async def assign(self, job_id: str, attempt: int, node_id: str, epoch: str, fails: float = 0.0) -> Given:
        """Write an assignment to its node, or fail to, and say which to the engine."""
        given, sent = Given(epoch), self._random.random() >= fails
        if sent:
            self._given[job_id, attempt] = given
            self._tell("run", node_id, job_id, attempt)
        else:
            given.over.set()
        tell = deliver if sent else undeliver
        await tell(self._engine, job_id, attempt, node_id, epoch)
        return given

    async def _assign_again(self, event: Event) -> None:
        """An event may be as old as the outbox is long, and a node must not begin what is already another's.

        Others may hear it too, and have written the assignment by now: nobody may say of it that it could not be.
        """
        job = await read_job(self._engine, event.job)
        if isinstance(job, Refusal):
            return
        record = job.record
        if (record.state, record.attempt, record.epoch) == ("RESERVED", event.attempt, event.epoch):
            await self.assign(event.job, event.attempt, event.node, event.epoch)

    async def hear(self, event: Event) -> None:
        """What the relayer brings."""
        await self._engine.command("SADD", f"{self._engine.prefix}:heard", f"{event.kind}:{event.job}:{event.attempt}")
        if event.kind == "reserved":
            self._run(self._assign_again(event))
        elif event.kind == "fenced":
            self._tell("stop", event.node, event.job, event.attempt)

    async def listen(self, nodes: asyncio.StreamReader) -> None:
        """What the nodes say, each word in the order in which it came."""
        while line := await nodes.readline():
            word, node_id, job_id, number = line.decode().split()
            given = self._given.get((job_id, int(number)))
            attempt = (self._engine, job_id, int(number), node_id, given.epoch if given else "")
            if word == "have":
                self._run(ack(*attempt))
            elif word == "started":
                self._run(started(*attempt))
            elif word == "done":
                self._run(done(*attempt, result="{}"))
            elif word == "failed":
                self._run(fail(*attempt, reason="dice"))
            else:
                self._run(stopped(*attempt))
            if given is not None and word not in {"have", "started"}:
                del self._given[job_id, int(number)]
                given.over.set()

    async def come_home(self) -> None:
        """Waits for the calls that are still on their way."""
        await asyncio.gather(*self._errands)

    def _tell(self, word: str, node_id: str, job_id: str, attempt: int) -> None:
        self._nodes.write(f"{word} {node_id} {job_id} {attempt}\n".encode())

    def _run(self, call: Coroutine[Any, Any, object]) -> None:
        errand = asyncio.create_task(call)
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)


@asynccontextmanager
async def dispatching(engine: Engine, socket: str, seed: int) -> AsyncIterator[Dispatcher]:
    """A dispatcher with its wire to the nodes."""
    reader, writer = await asyncio.open_unix_connection(socket)
    dispatcher = Dispatcher(engine, writer, seed)
    listener = asyncio.create_task(dispatcher.listen(reader))
    try:
        yield dispatcher
        listener.cancel()
        await dispatcher.come_home()
    finally:
        listener.cancel()
        writer.close()


async def main(url: str, prefix: str, socket: str, seed: int) -> None:
    engine = await Engine.connect(url, prefix, msgspec.msgpack.encode(RULES))
    async with engine, dispatching(engine, socket, seed) as dispatcher:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, dispatcher.over.set)
        async with Reaper(engine, CELL, 20), Relayer(engine, CELL, 5, dispatcher.hear):
            print("storming", flush=True)  # noqa: T201 - the test waits for this line
            await asyncio.gather(*(dispatcher.lane() for _ in range(LANES)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
