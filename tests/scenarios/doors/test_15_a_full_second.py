"""A second in which every node is full: utterances wait for it, and none is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.house import Scheduler


async def test_utterances_wait_for_a_slot(scheduler: Scheduler) -> None:
    async with scheduler.node() as node, scheduler.client() as client:
        await node.register(slots=1)
        busy = await scheduler.dispatch("busy")
        held = await node.job()
        await client.init()
        for index in range(3):
            await client.utter(index)
        assert (await client.next("backpressure"))["action"] in {"BUSY", "SLOW_DOWN"}
        await node.result(held)
        for index in range(3):
            await node.result(await node.job(session_id=client.session_id))
            assert (await client.end_of(index))["type"] == "translation_result"
        assert (await scheduler.ended(busy["job_id"]))["state"] == "FINISHED"


async def test_who_waits_in_vain_hears_so_in_its_turn(scheduler: Scheduler) -> None:
    async with scheduler.node() as node, scheduler.client() as client:
        await node.register(slots=1)
        await scheduler.dispatch("busy")
        held = await node.job()
        await client.init(options={"wait_ms": 200})
        await client.utter(0)
        assert (await client.next("error"))["code"] == "NO_AVAILABLE_NODE"
        assert (await client.end_of(0))["reason"] == "no_available_node"
        await node.result(held)
