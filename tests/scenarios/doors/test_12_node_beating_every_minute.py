"""A live socket is a live node, however seldom it beats."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start


async def test_a_node_that_never_beats_again_is_neither_stale_nor_lost(serve: Start) -> None:
    scheduler = await serve(
        nodes__stale_ms="1000",
        nodes__offline_ms="1500",
        nodes__socket_beat_ms="300",
        nodes__handover_grace_ms="100",
        instance__presence_ttl_ms="1000",
        instance__presence_beat_ms="300",
        nodes__confirm_after_ms="100",
        loops__sweep_interval_ms="20",
    )
    async with scheduler.node() as node:
        await node.register()
        placed = await scheduler.dispatch()
        job = await node.job()
        pending = await scheduler.get(f"/v1/job/{placed['job_id']}?wait_ms=3000")
        assert (pending["state"], pending["attempt_id"]) == ("ACCEPTED", 1)
        assert (await scheduler.get("/v1/nodes/node-1"))["standing"] == "available"
        await node.result(job)
        assert (await scheduler.ended(placed["job_id"]))["state"] == "FINISHED"
