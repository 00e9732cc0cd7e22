"""A node that says it acks, and does not, loses the job to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start


async def test_the_job_goes_on_elsewhere_and_the_first_is_told_to_stop(serve: Start) -> None:
    scheduler = await serve(jobs__reservation_ttl_ms="300", loops__relay_lease_ms="100", loops__sweep_interval_ms="20")
    features = ("job_ack", "job_stopped")
    async with scheduler.node("a") as first, scheduler.node("b") as second:
        nodes = {"a": first, "b": second}
        for node in nodes.values():
            await node.register(features=features)
        placed = await scheduler.dispatch()
        silent = nodes.pop(placed["node_id"])
        other = nodes.popitem()[1]
        lost = await silent.job()
        job = await other.job()
        assert (job["job_id"], job["attempt_id"]) == (placed["job_id"], 2)
        cancel = await silent.next("job_cancel")
        assert (cancel["job_id"], cancel["attempt_id"]) == (placed["job_id"], 1)
        await other.say("job_ack", job_id=job["job_id"], attempt_id=2, node_id=other.node_id)
        await other.result(job)
        ended = await scheduler.ended(placed["job_id"])
        assert [one["end"] for one in ended["attempts"]] == ["ack_timeout", "FINISHED"]
        await silent.say("job_stopped", job_id=lost["job_id"], attempt_id=1, node_id=silent.node_id)
        assert (await silent.next("error"))["error"] == "STALE_ATTEMPT"
