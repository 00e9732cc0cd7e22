"""The engine comes back empty: nodes and sessions are entered again, and lost utterances are announced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.house import empty

if TYPE_CHECKING:
    from tests.support.house import Scheduler
    from tests.support.servers import Server


async def test_the_fleet_serves_again_by_itself(scheduler: Scheduler, store: Server) -> None:
    async with scheduler.node() as node, scheduler.client() as client:
        await node.register()
        await client.init()
        await client.utter(0)
        lost = await node.job()
        await empty(store)
        missing = await client.end_of(0)
        assert missing["type"] == "missing_result"
        await node.result(lost)
        assert (await node.next("error"))["error"] in {"UNKNOWN_JOB", "STALE_ATTEMPT"}
        await node.next("node_register_ack")
        await client.utter(1)
        job = await node.job(utterance_index=1)
        await node.result(job)
        assert (await client.end_of(1))["type"] == "translation_result"
