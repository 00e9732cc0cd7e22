"""Nodes in the field send no `job_ack`: the write is their acceptance, and no ack timeout touches them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start


async def test_it_may_take_longer_than_the_ack_timeout(serve: Start) -> None:
    scheduler = await serve(jobs__reservation_ttl_ms="200", loops__relay_lease_ms="100", loops__sweep_interval_ms="20")
    async with scheduler.node() as node:
        await node.register()
        placed = await scheduler.dispatch()
        job = await node.job()
        # Three times the ack timeout, by the scheduler's own clock: it is asked for the job's end meanwhile.
        pending = await scheduler.get(f"/v1/job/{placed['job_id']}?wait_ms=600")
        assert (pending["state"], pending["attempt_id"]) == ("ACCEPTED", 1)
        await node.result(job)
        ended = await scheduler.ended(placed["job_id"])
        assert (ended["state"], len(ended["attempts"])) == ("FINISHED", 1)
