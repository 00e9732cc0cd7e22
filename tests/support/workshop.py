"""Nodes that take a moment for each job, and what they have at once, counted where the work is done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.support.people import PATIENCE_S

if TYPE_CHECKING:
    from tests.support.people import Node


class Workshop:
    """Nodes that take a moment for each job, or as long as the gate is shut; counted where the work is done."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}
        self.done = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def work(self, node: Node, *, tells: bool = False) -> None:
        """Until it is cancelled. `tells`: the node says that it has a job, and that it has not what it is to stop."""
        held: set[tuple[str, int]] = set()

        async def say(kind: str, attempt: tuple[str, int]) -> None:
            await node.say(kind, job_id=attempt[0], attempt_id=attempt[1], node_id=node.node_id)

        async def end(job: Any, attempt: tuple[str, int]) -> None:
            if tells:
                await say("job_ack", attempt)
            await self.gate.wait()
            await asyncio.sleep(0.05)
            held.discard(attempt)
            await node.result(job)
            self.done += 1

        async with asyncio.TaskGroup() as group:
            while True:
                said = await node.next("job_assign", "job_cancel", timeout_s=10 * PATIENCE_S)
                attempt = (said["job_id"], said["attempt_id"])
                if said["type"] == "job_assign":
                    held.add(attempt)
                    self.most[node.node_id] = max(self.most.get(node.node_id, 0), len(held))
                    group.create_task(end(said, attempt))
                elif tells and attempt not in held:
                    await say("job_stopped", attempt)
