"""A job that is taken back: its coroutine is cancelled, and its slot is free when the handler has really ended."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from tests.support.house import House
from tests.support.people import PATIENCE_S
from tests.support.sdk_nodes import RESULT, Held, good, is_free, node_at, running
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from lingua_scheduler.sdk import Job
    from tests.support.servers import Server


async def test_a_cancelled_job_cancels_its_handler_and_frees_its_slot(house: House) -> None:
    handler = Held()
    async with running(node_at(house.port, handler)):
        placed = await house.dispatch()
        await handler.has(begun=1)
        await house.post("/v1/job/cancel", {"job_id": placed["job_id"], "reason": "he hung up"})
        await handler.has(cancelled=1)
        assert handler.cancelled[0].is_cancelled
        await is_free(house)
    assert (await house.ended(placed["job_id"]))["state"] == "CANCELLED"


async def test_a_handler_that_blocks_keeps_its_slot_until_it_returns_and_its_result_is_dropped(house: House) -> None:
    began, noticed, go = threading.Event(), threading.Event(), threading.Event()

    def block(job: Job) -> dict[str, str]:
        began.set()
        wait_until(lambda: job.is_cancelled, PATIENCE_S)
        noticed.set()
        assert go.wait(PATIENCE_S)
        return RESULT

    async with running(node_at(house.port, block)):
        placed = await house.dispatch()
        assert await asyncio.to_thread(began.wait, PATIENCE_S)
        await house.post("/v1/job/cancel", {"job_id": placed["job_id"]})
        assert await asyncio.to_thread(noticed.wait, PATIENCE_S)
        assert (await house.get("/v1/nodes/sdk-1"))["used"] == 1
        go.set()
        await is_free(house)
    job = await house.ended(placed["job_id"])
    assert (job["state"], job["result"]) == ("CANCELLED", None)


async def test_a_handler_that_never_returns_is_cancelled_by_the_run_timeout_and_its_job_moves_on(
    server: Server,
) -> None:
    handler = Held()
    house = House(
        server.url, **{"jobs.run_timeout_ms": 400, "jobs.reservation_ttl_ms": 400, "loops.relay_lease_ms": 300}
    )
    async with house.open(), running(node_at(house.port, handler, "hangs")):
        placed = await house.dispatch()
        await handler.has(begun=1)
        async with running(node_at(house.port, good, "works")):
            job = await house.ended(placed["job_id"])
            await handler.has(cancelled=1)
    assert (job["state"], job["node_id"]) == ("FINISHED", "works")
    assert [one["end"] for one in job["attempts"]] == ["run_timeout", "FINISHED"]


async def test_a_handler_that_will_not_be_cancelled_answers_nothing_more(house: House) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def stubborn(_: Job) -> dict[str, Any]:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        ended.set()
        return RESULT

    async with running(node_at(house.port, stubborn)):
        placed = await house.dispatch()
        await asyncio.wait_for(began.wait(), PATIENCE_S)
        await house.post("/v1/job/cancel", {"job_id": placed["job_id"]})
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
        await is_free(house)
    assert (await house.ended(placed["job_id"]))["result"] is None
