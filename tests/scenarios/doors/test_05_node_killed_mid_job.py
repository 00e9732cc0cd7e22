"""A node whose socket breaks: its unfinished jobs are with another node when its grace is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.house import Scheduler


async def test_its_jobs_move_and_nothing_is_lost(scheduler: Scheduler) -> None:
    async with scheduler.node("b") as other:
        dying = scheduler.node("a")
        await dying.connect()
        await dying.register(slots=4)
        placed = [await scheduler.dispatch(f"s{number}") for number in range(4)]
        for _ in placed:
            await dying.job()
        await other.register(slots=4)
        dying.cut()
        jobs = [await other.job() for _ in placed]
        assert {job["job_id"] for job in jobs} == {one["job_id"] for one in placed}
        for job in jobs:
            await other.result(job)
        for one in placed:
            assert (await scheduler.ended(one["job_id"]))["state"] == "FINISHED"
