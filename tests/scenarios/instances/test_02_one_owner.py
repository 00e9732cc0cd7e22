"""A newer connection anywhere supersedes the older."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.house import Scheduler


async def test_of_a_node(here: Scheduler, there: Scheduler) -> None:
    async with there.node() as older, here.node() as newer:
        await older.register()
        await older.is_ready()
        placed = await there.dispatch()
        job = await older.job()
        await newer.register(epoch=older.epoch, running=[{"job_id": job["job_id"], "attempt_id": 1}])
        await newer.is_ready()
        assert (await older.gone())[0] == 4409
        await newer.result(job)
        ended = await there.ended(placed["job_id"])
        assert (ended["state"], ended["attempt_id"]) == ("FINISHED", 1)
        second = await there.dispatch("room-2")
        await newer.result(await newer.job(job_id=second["job_id"]))
        await there.ended(second["job_id"])


async def test_of_a_session(here: Scheduler, there: Scheduler) -> None:
    async with there.node() as node, there.client() as older, here.client() as newer:
        await node.register(slots=4)
        await node.is_ready()
        token = (await older.init())["resume_token"]
        await older.utter(0)
        job = await node.job()
        await newer.init(resume_token=token)
        assert (await older.gone())[0] == 4409
        await newer.utter(1)
        await node.result(await node.job(utterance_index=1))
        await node.result(job)
        ends = [await newer.next("translation_result") for _ in range(2)]
        assert [end["utterance_index"] for end in ends] == [0, 1]
