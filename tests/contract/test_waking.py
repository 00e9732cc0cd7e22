"""An instance was taken for gone and is there: what others did to its nodes is undone at once. What it reads is old."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.front.nodes.orphans import bereave
from lingua_scheduler.views.node import Node, read_node
from tests.support.house import CELL, House, eventually

if TYPE_CHECKING:
    from tests.support.servers import Server


async def test_nodes_that_were_handed_over_are_back_long_before_their_time_is_over(server: Server) -> None:
    """Whoever took it for gone was slower than its return: it has taken them back already, in vain."""
    # Longer than any test lasts: nobody but the letter can say that their sockets are open.
    async with House(server.url, **{"nodes.socket_beat_ms": 24_000, "instance.id": "sleeper"}).open() as sleeper:
        shared = {"engine.key_prefix": sleeper.settings.engine.key_prefix}
        async with House(server.url, **shared).open() as other, sleeper.node() as node:
            await node.register()
            await node.is_ready()
            placed = await other.dispatch()
            job = await node.job(job_id=placed["job_id"])
            desk = other.serving.desk

            async def is_here() -> bool:
                seen = await read_node(desk.engine, CELL, "node-1")
                return isinstance(seen, Node) and not seen.record.away_until_ms

            await bereave(desk, "sleeper")
            await eventually(is_here)
            await node.result(job)
            ended = await other.ended(placed["job_id"])
            assert (ended["state"], ended["attempt_id"]) == ("FINISHED", 1)


async def test_what_a_node_says_by_a_request_may_be_older_than_the_moment_it_is_read(server: Server) -> None:
    """As old as a sleep would be that nobody has noticed yet; so a slot is freed a moment later."""
    async with House(server.url, **{"nodes.confirm_after_ms": 0}).open() as house:
        said = {"node_id": "node-1", "semantic_langs": ["en", "zh"], "max_concurrent_jobs": 1}
        epoch = (await house.post("/v1/node/register", said))["epoch"]
        placed = await house.dispatch()
        await house.post("/v1/job/ack", {"job_id": placed["job_id"], "attempt_id": 1, "node_id": "node-1"})
        await house.post("/v1/job/cancel", {"job_id": placed["job_id"], "reason": "enough"})

        async def is_free() -> bool:
            await house.post("/v1/node/heartbeat", {"node_id": "node-1", "epoch": epoch, "running": []})
            return bool((await house.get("/v1/nodes/node-1"))["limbo"] == 0)

        assert not await is_free()
        await eventually(is_free)
