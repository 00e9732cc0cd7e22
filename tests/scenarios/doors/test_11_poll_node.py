"""A node that cannot hold a socket polls, and loses nothing by that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.house import Scheduler


async def test_a_poll_that_waits_gets_the_job_when_it_comes(scheduler: Scheduler) -> None:
    await scheduler.post("/v1/node/register", {"node_id": "n1", "semantic_langs": ["en", "zh"]})
    assert await scheduler.post("/v1/node/poll", {"node_id": "n1"}) == {"jobs": []}
    poll = asyncio.create_task(scheduler.post("/v1/node/poll", {"node_id": "n1", "wait_ms": 15_000}))
    placed = await scheduler.dispatch(payload={"a": 1})
    (job,) = (await poll)["jobs"]
    assert (job["job_id"], job["attempt_id"], job["payload"]) == (placed["job_id"], 1, {"a": 1})
    attempt = {"job_id": job["job_id"], "attempt_id": 1, "node_id": "n1"}
    await scheduler.post("/v1/job/ack", attempt)
    assert await scheduler.post("/v1/node/poll", {"node_id": "n1"}) == {"jobs": []}
    await scheduler.post("/v1/job/done", attempt | {"status": "ok", "result": {}})
    assert (await scheduler.ended(job["job_id"]))["state"] == "FINISHED"


async def test_what_was_not_acknowledged_is_given_again(scheduler: Scheduler) -> None:
    await scheduler.post("/v1/node/register", {"node_id": "n1", "semantic_langs": ["en", "zh"]})
    placed = await scheduler.dispatch()
    for _ in range(2):
        polled = await scheduler.post("/v1/node/poll", {"node_id": "n1", "wait_ms": 4_000})
        assert [job["job_id"] for job in polled["jobs"]] == [placed["job_id"]]
    await scheduler.post("/v1/job/cancel", {"job_id": placed["job_id"]})


async def test_an_unknown_node_is_told_to_register(scheduler: Scheduler) -> None:
    refused = await scheduler.post("/v1/node/poll", {"node_id": "n9"}, 404)
    assert (refused["error"], refused["retryable"]) == ("UNKNOWN_NODE", False)
