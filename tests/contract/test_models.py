"""What a node says of its models when it cannot do a job, and what becomes of the job and the node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.house import eventually

if TYPE_CHECKING:
    from tests.support.house import House
    from tests.support.people import Node

NODE = {"semantic_langs": ["en", "zh"], "max_concurrent_jobs": 1}


async def break_down(node: Node, code: str) -> dict[str, Any]:
    """The node gets a job, and cannot do it."""
    job: dict[str, Any] = await node.job()
    await node.result(job, success=False, error={"code": code, "message": "whisper"})
    return job


async def test_a_model_that_cannot_be_loaded_costs_a_try_and_marks_nobody(house: House) -> None:
    async with house.node("n1") as first, house.node("n2") as second:
        await first.register()
        await house.dispatch()
        await second.register()

        async def is_ready() -> bool:
            return bool((await house.get("/v1/nodes/n2"))["standing"] == "available")

        await eventually(is_ready)
        job = await break_down(first, "MODEL_LOAD_FAILED")
        again = await second.job()
        assert (again["job_id"], again["attempt_id"]) == (job["job_id"], 2)
        assert (await house.get("/v1/nodes/n1"))["marks"] == []
        await second.result(again)
        ended = await house.ended(job["job_id"])
        assert (ended["state"], len(ended["attempts"])) == ("FINISHED", 2)


async def test_when_no_node_can_load_it_the_job_has_failed_and_says_why(house: House) -> None:
    async with house.node("n1") as node, house.client() as client:
        await node.register()
        await client.init()
        await client.utter(0)
        job = await break_down(node, "MODEL_LOAD_FAILED")

        async def go_on() -> None:
            while True:
                await break_down(node, "MODEL_LOAD_FAILED")

        going_on = asyncio.create_task(go_on())
        ended = await house.ended(job["job_id"])
        going_on.cancel()
        assert (ended["state"], ended["error"]) == ("FAILED", "JOB_FAILED")
        assert ended["reason"] == "MODEL_LOAD_FAILED: whisper"
        assert {attempt["end"] for attempt in ended["attempts"]} == {"failed"}
        assert (await client.end_of(0))["reason"] == "job_failed"


@pytest.mark.parametrize(("code", "marked"), [("MODEL_LOAD_FAILED", False), ("MODEL_NOT_AVAILABLE", True)])
async def test_over_http_too(house: House, code: str, marked: bool) -> None:
    """A model that is not there is not asked for again for a while; one that did not load may load the next time."""
    await house.post("/v1/node/register", NODE | {"node_id": "n1"})
    placed = await house.dispatch()
    await house.post("/v1/node/register", NODE | {"node_id": "n2"})
    said = {"job_id": placed["job_id"], "attempt_id": 1, "node_id": "n1", "status": "error", "reason": code}
    answer = await house.post("/v1/job/fail", said)
    assert answer == {"ok": True, "state": "RETRYING", "attempt_id": 2}
    assert (await house.get(f"/v1/job/{placed['job_id']}"))["node_id"] == "n2"

    async def is_marked() -> bool:
        return bool((await house.get("/v1/nodes/n1"))["marks"])

    if marked:
        await eventually(is_marked)
    second = await house.dispatch("room-889", 503 if marked else 200)
    if marked:
        assert second["breakdown"]["marked"] == 1
    else:
        assert second["node_id"] == "n1"
        await house.post("/v1/job/cancel", {"job_id": second["job_id"]})
    await house.post("/v1/job/cancel", {"job_id": placed["job_id"]})
