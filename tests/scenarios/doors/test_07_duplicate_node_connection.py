"""A second connection of the same node replaces the first, and keeps its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.house import Scheduler


async def test_the_newer_one_stays(scheduler: Scheduler) -> None:
    async with scheduler.node() as old, scheduler.node() as new:
        await old.register()
        placed = await scheduler.dispatch()
        job = await old.job()
        await new.register()
        assert await old.gone() == (4409, "another connection speaks for node node-1 now")
        await new.result(job)
        assert (await scheduler.ended(placed["job_id"]))["state"] == "FINISHED"
        placed = await scheduler.dispatch()
        assert (await new.job())["job_id"] == placed["job_id"]
        await new.result(
            {"job_id": placed["job_id"], "attempt_id": 1}
            | {"session_id": "room-888", "utterance_index": 1, "trace_id": placed["trace_id"]}
        )
        assert (await scheduler.ended(placed["job_id"]))["state"] == "FINISHED"
