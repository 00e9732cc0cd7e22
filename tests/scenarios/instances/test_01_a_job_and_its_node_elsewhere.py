"""A job is submitted at one instance, its node is with another: it gets there, and its result comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.house import Scheduler

ACKS = ("job_ack", "job_started", "job_stopped")


@pytest.mark.parametrize("features", [(), ACKS], ids=["it never acks", "it acks"])
async def test_over_http(here: Scheduler, there: Scheduler, features: tuple[str, ...]) -> None:
    async with there.node() as node:
        await node.register(features=features)
        await node.is_ready()
        placed = await here.dispatch()
        job = await node.job(job_id=placed["job_id"])
        assert job["trace_id"] == placed["trace_id"]
        await node.result(job)
        for scheduler in (here, there):
            ended = await scheduler.ended(placed["job_id"])
            assert (ended["state"], ended["node_id"], ended["attempt_id"]) == ("FINISHED", "node-1", 1)


async def test_in_a_session_with_its_audio(here: Scheduler, there: Scheduler) -> None:
    async with there.node() as node, here.client() as client:
        await node.register()
        await node.is_ready()
        await client.init()
        for index in range(3):
            await client.utter(index)
        jobs = [await node.job(utterance_index=index) for index in range(3)]
        assert all(job["audio"] for job in jobs)
        for job in reversed(jobs):
            await node.result(job)
        ends = [await client.next("translation_result") for _ in range(3)]
        assert [end["utterance_index"] for end in ends] == [0, 1, 2]


async def test_a_session_sees_what_its_node_elsewhere_does(here: Scheduler, there: Scheduler) -> None:
    async with there.node() as node, here.client() as client:
        await node.register(features=ACKS)
        await node.is_ready()
        await client.init()
        await client.utter(0)
        job = await node.job()
        await node.say("job_ack", job_id=job["job_id"], attempt_id=1, node_id="node-1")
        await client.next("ui_event", event="NODE_ACCEPTED")
        await node.say("asr_partial", job_id=job["job_id"], node_id="node-1", text="hel", utterance_index=0)
        assert (await client.next("asr_partial"))["text"] == "hel"
        await node.result(job)
        await client.end_of(0)


async def test_a_node_elsewhere_hears_that_nobody_wants_its_job(here: Scheduler, there: Scheduler) -> None:
    async with there.node() as node:
        await node.register(features=ACKS)
        await node.is_ready()
        placed = await here.dispatch()
        job = await node.job()
        await here.post("/v1/job/cancel", {"job_id": placed["job_id"], "reason": "wrong number"})
        told = await node.next("job_cancel")
        assert (told["job_id"], told["reason"]) == (job["job_id"], "wrong number")
        await node.say("job_stopped", job_id=job["job_id"], attempt_id=1, node_id="node-1")


async def test_an_operator_drains_a_node_elsewhere(here: Scheduler, there: Scheduler) -> None:
    async with there.node() as node:
        await node.register()
        await node.is_ready()
        await here.post("/v1/nodes/node-1/drain", {})
        assert (await node.next("node_control"))["command"] == "drain"
