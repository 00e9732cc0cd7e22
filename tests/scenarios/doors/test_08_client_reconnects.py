"""A client that lost its socket comes back and gets what it missed, once, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.house import Scheduler


async def test_what_it_missed_comes_once(scheduler: Scheduler) -> None:
    async with scheduler.node() as node:
        await node.register(slots=8)
        client = scheduler.client()
        await client.connect()
        token = (await client.init())["resume_token"]
        for index in range(4):
            await client.utter(index)
        jobs = [await node.job(utterance_index=index) for index in range(4)]
        await node.result(jobs[0])
        first = await client.end_of(0)
        client.cut()
        await client.gone()
        for job in reversed(jobs[1:]):
            await node.result(job)
        await client.connect()
        await client.init(resume_token=token, last_event_id=first["event_id"])
        ends = [await client.next("translation_result") for _ in range(3)]
        assert [end["utterance_index"] for end in ends] == [1, 2, 3]
        assert [end["event_id"] for end in ends] == [2, 3, 4]
        await client.utter(4)
        await node.result(await node.job(utterance_index=4))
        assert (await client.next("translation_result"))["utterance_index"] == 4
        await client.close()
