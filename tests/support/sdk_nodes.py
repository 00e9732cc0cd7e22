"""Nodes written with the SDK, running inside the test's own loop, and handlers that wait for the test's word."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.sdk import Node
from tests.support.house import eventually
from tests.support.people import PATIENCE_S
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from lingua_scheduler.sdk import Job
    from tests.support.house import Doors

RESULT: Final = {"text_asr": "good morning", "text_translated": "早上好"}


async def good(_: Job) -> dict[str, str]:
    """A handler that does its job at once."""
    return RESULT


def node_at(port: int, handler: Callable[[Job], Any], node_id: str | None = "sdk-1", **said: Any) -> Node:
    """A node for en:zh with this handler."""
    usual: dict[str, Any] = {"semantic": ["en", "zh"], "pairs": [("en", "zh")], "max_jobs": 2}
    node = Node(node_id=node_id, url=f"http://127.0.0.1:{port}", **(usual | said))
    node.job(handler)
    return node


@asynccontextmanager
async def running(*nodes: Node) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Nodes that have joined; at the end they go."""
    tasks = [asyncio.create_task(node.run()) for node in nodes]
    try:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(node.joined() for node in nodes))
        yield tasks
    finally:
        for node in nodes:
            node.stop()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*tasks)


class Held:
    """A handler that takes a job, tells of it, and goes on when the test says so."""

    def __init__(self, result: object = RESULT) -> None:
        self.result = result
        self.jobs: list[Job] = []
        self.cancelled: list[Job] = []
        self._begun = asyncio.Condition()
        self._go = asyncio.Event()

    async def __call__(self, job: Job) -> object:
        try:
            async with self._begun:
                self.jobs.append(job)
                self._begun.notify_all()
            await self._go.wait()
        except asyncio.CancelledError:
            async with self._begun:
                self.cancelled.append(job)
                self._begun.notify_all()
            raise
        return self.result

    def let_go(self) -> None:
        """Whoever waits returns."""
        self._go.set()

    async def has(self, *, begun: int = 0, cancelled: int = 0) -> None:
        """Wait for so many."""
        async with self._begun, asyncio.timeout(PATIENCE_S):
            await self._begun.wait_for(lambda: len(self.jobs) >= begun and len(self.cancelled) >= cancelled)


@dataclass
class AtWork:
    """A node that has a job in hand, behind a network that can fail."""

    house: Doors
    network: Proxy
    node: Node
    handler: Held
    job_id: str

    async def vanish(self) -> None:
        """Lose the connection, and find no other until the network heals."""
        self.network.sever()
        await eventually(self._is_out)

    async def _is_out(self) -> bool:
        return not self.node.is_joined

    async def comes_back(self) -> None:
        """Wait for another connection, and for its place in the fleet."""
        async with asyncio.timeout(PATIENCE_S):
            await self.network.accepted_more_than(1)
            await self.node.joined()

    async def done_once(self) -> None:
        """Wait for the end: the job was done, by its first attempt, and the handler was called once."""
        job = await self.house.ended(self.job_id)
        assert (job["state"], job["attempt_id"], len(self.handler.jobs)) == ("FINISHED", 1, 1)


@asynccontextmanager
async def at_work(house: Doors, **said: Any) -> AsyncIterator[AtWork]:
    """A node whose handler has begun with a job."""
    handler = Held()
    async with Proxy(house.port) as network:
        node = node_at(network.port, handler, **said)
        async with running(node):
            placed = await house.dispatch()
            await handler.has(begun=1)
            yield AtWork(house, network, node, handler, placed["job_id"])


async def is_free(house: Doors, node_id: str = "sdk-1") -> None:
    """Wait until a node holds no slot."""

    async def look() -> bool:
        used: int = (await house.get(f"/v1/nodes/{node_id}"))["used"]
        return used == 0

    await eventually(look)
