"""The fleet of the demo: nodes that work, fail, refuse, hang and die, and the wires between them and the scheduler."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.register import register
from lingua_scheduler.flows.started import started
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.flows.undeliver import undeliver

if TYPE_CHECKING:
    import random

    from lingua_scheduler.app import App
    from lingua_scheduler.core.records import Event
    from lingua_scheduler.operate.demo.tally import Tally

BEAT_S: Final = 2.0
#: Milliseconds of recognition, repair, translation and speech, from the quickest to the slowest.
STAGES_MS: Final = ((80, 250), (20, 60), (40, 120), (80, 220))
FAILS: Final = 0.03
REFUSES: Final = 0.02
LACKS_A_MODEL: Final = 0.01
#: A node dies about once in so many seconds; one death in four is silent: the socket stays open, nobody is there.
DIES_AFTER_S: Final = 45.0
DIES_SILENTLY: Final = 0.25


@dataclass(slots=True)
class Node:
    """A simulated node: its slots, its socket, and the attempts that it really works on."""

    node_id: str
    languages: tuple[str, ...]
    slots: int
    random: random.Random
    alive: bool = False
    hangs: bool = False
    epoch: str = ""
    connection: str = ""
    #: What it answers for until its last word about it was heard, and what its processors are at right now.
    work: dict[tuple[str, int], asyncio.Task[None]] = field(default_factory=dict)
    busy: set[tuple[str, int]] = field(default_factory=set)

    def take(self, job_id: str, attempt: int, task: asyncio.Task[None]) -> None:
        """Remember what is being worked on until it is over."""
        self.work[job_id, attempt] = task
        task.add_done_callback(lambda _: self.work.pop((job_id, attempt), None))


class Fleet:
    """All nodes, and the handing over of assignments and cancels."""

    def __init__(self, nodes: list[Node], tally: Tally) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        self._tally = tally
        self._app: App
        # Weak: an entry goes when nobody waits for it any more, so that a long demo does not grow.
        self._ended: WeakValueDictionary[str, asyncio.Future[None]] = WeakValueDictionary()
        self._errands: set[asyncio.Task[None]] = set()

    def attach(self, app: App) -> None:
        """From here on there is a scheduler to talk to."""
        self._app = app

    # What the scheduler sends.

    def expect(self, job_id: str) -> asyncio.Future[None]:
        """Done when this job has ended, whatever its end."""
        return self._ended.setdefault(job_id, asyncio.get_running_loop().create_future())

    async def assign(self, job_id: str, attempt: int, node_id: str, epoch: str) -> None:
        """Write an assignment to a node's socket, and say whether that went well."""
        node = self.nodes[node_id]
        sent = node.alive and node.epoch == epoch
        if sent and not node.hangs and (job_id, attempt) not in node.work:
            node.take(job_id, attempt, asyncio.create_task(self._work(node, job_id, attempt)))
        tell = deliver if sent else undeliver
        await tell(self._app.engine, job_id, attempt, node_id, epoch)

    async def hear(self, event: Event) -> None:
        """What the relayer brings: retries to hand out, attempts to cancel, ends to tell."""
        if event.kind == "reserved":
            self._tally.retried += event.attempt > 1
            await self.assign(event.job, event.attempt, event.node, event.epoch)
        elif event.kind == "fenced":
            self._cancel(self.nodes[event.node], event.job, event.attempt)
        elif event.kind == "ended":
            ended = self._ended.get(event.job)
            if ended is not None and not ended.done():
                ended.set_result(None)
        elif event.kind == "lost":
            self._tally.news.append(f"{event.node} is lost; its work moves to others")

    # What a node does.

    async def live(self, node: Node) -> None:
        """Join, beat, die, come back; until the demo is over."""
        while True:
            await self._join(node)
            lifetime_s = node.random.expovariate(1 / DIES_AFTER_S)
            beats = int(lifetime_s / BEAT_S)
            for _ in range(beats):
                await asyncio.sleep(BEAT_S)
                await heartbeat(self._app.engine, self._app.cell, node.node_id, node.epoch, running=list(node.work))
            await asyncio.sleep(lifetime_s - beats * BEAT_S)
            await self._die(node)
            await asyncio.sleep(node.random.uniform(1.0, 3.0))

    async def _join(self, node: Node) -> None:
        node.connection = secrets.token_hex(8)
        joined = await register(
            self._app.engine,
            self._app.cell,
            node.node_id,
            semantic_langs=node.languages,
            max_concurrent_jobs=node.slots,
            process_id=secrets.token_hex(8),
            running=[],
            connection=node.connection,
        )
        if isinstance(joined, Refusal):
            raise LinguaError(f"{node.node_id} was not let in: {joined.detail}")
        node.epoch, node.alive, node.hangs = joined.epoch, True, False

    async def _die(self, node: Node) -> None:
        self._tally.died += 1
        silently = node.random.random() < DIES_SILENTLY
        self._tally.news.append(f"{node.node_id} {'hangs' if silently else 'dies'} with {len(node.work)} jobs")
        for task in list(node.work.values()):
            task.cancel()
        if silently:
            node.hangs = True
            await asyncio.sleep(node.random.uniform(4.0, 8.0))
        node.alive = False
        await disconnect(self._app.engine, self._app.cell, node.node_id, node.connection)

    async def _work(self, node: Node, job_id: str, attempt: int) -> None:
        engine, node_id, epoch = self._app.engine, node.node_id, node.epoch
        if isinstance(await ack(engine, job_id, attempt, node_id, epoch), Refusal):
            return
        if node.random.random() < REFUSES:
            await fail(engine, job_id, attempt, node_id, epoch, reason="NODE_OVERLOADED", overloaded=True)
            return
        await self._compute(node, job_id, attempt)
        if node.random.random() < FAILS:
            await fail(engine, job_id, attempt, node_id, epoch, reason="MODEL_LOAD_FAILED")
        elif node.random.random() < LACKS_A_MODEL:
            self._tally.news.append(f"{node_id} lacks a model; it gets no jobs for a while")
            self._app.marker.saw(node_id, "m2m100", "nmt")
            await fail(engine, job_id, attempt, node_id, epoch, reason="MODEL_NOT_AVAILABLE")
        else:
            ttl_ms = self._app.settings.jobs.result_ttl_ms
            result = '{"text_translated": "…"}'
            await done(engine, job_id, attempt, node_id, epoch, result=result, result_ttl_ms=ttl_ms)

    async def _compute(self, node: Node, job_id: str, attempt: int) -> None:
        node.busy.add((job_id, attempt))
        if len(node.busy) > node.slots:
            self._tally.oversold += 1
        try:
            await started(self._app.engine, job_id, attempt, node.node_id, node.epoch)
            for quickest, slowest in STAGES_MS:
                await asyncio.sleep(node.random.uniform(quickest, slowest) / 1000)
        finally:
            node.busy.discard((job_id, attempt))

    def _cancel(self, node: Node, job_id: str, attempt: int) -> None:
        if not node.alive or node.hangs:
            return
        task = node.work.get((job_id, attempt))
        if task is not None:
            task.cancel()
        errand = asyncio.create_task(self._say_stopped(node, job_id, attempt))
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    async def _say_stopped(self, node: Node, job_id: str, attempt: int) -> None:
        await stopped(self._app.engine, job_id, attempt, node.node_id)

    async def disband(self) -> None:
        """All nodes go home."""
        for node in self.nodes.values():
            node.alive = False
            for task in list(node.work.values()):
                task.cancel()
            await leave(self._app.engine, self._app.cell, node.node_id)
