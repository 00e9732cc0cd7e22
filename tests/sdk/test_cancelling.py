"""A job that is taken back: its coroutine is cancelled, and its slot is free when the handler has really ended."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from tests.support.house import House, eventually
from tests.support.people import PATIENCE_S
from tests.support.sdk_nodes import RESULT, Held, good, is_free, node_at, running
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from lingua_scheduler.sdk import Job
    from tests.support.proxy import Proxy
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


async def test_a_job_that_is_taken_back_before_its_handler_could_begin_frees_its_slot(
    house: House, network: Proxy
) -> None:
    """Its assignment and the cancel arrive in one piece. With frames, nothing would begin before a pong."""
    handler = Held()
    async with running(node_at(network.port, handler, max_jobs=1, audio="inline")):
        link = house.serving.desk.links.get("sdk-1")
        assert link is not None
        held_up = network.arm("stall", "down", 0)
        assert link.control("reload_config", "to have something in front")
        await asyncio.wait_for(held_up.struck.wait(), PATIENCE_S)
        placed = await house.dispatch()
        # The relayer will say it too, but nobody knows when.
        assert link.cancel(placed["job_id"], 1, "cancelled", None)
        await house.post("/v1/job/cancel", {"job_id": placed["job_id"]})
        held_up.release()
        await is_free(house)
        assert handler.jobs == []
        handler.let_go()
        again = await house.dispatch()
        assert (await house.ended(again["job_id"]))["state"] == "FINISHED"


async def test_no_job_runs_twice_at_the_same_time_in_a_node_that_still_holds_it(server: Server) -> None:
    """Its time is over, but its thread cannot be stopped. The next attempt comes to the same node, and waits."""
    began, go = threading.Event(), threading.Event()
    running_now: list[int] = []
    most = 0

    def block(job: Job) -> dict[str, str]:
        nonlocal most
        running_now.append(job.attempt_id)
        most = max(most, len(running_now))
        began.set()
        assert go.wait(PATIENCE_S)
        running_now.remove(job.attempt_id)
        return {"text_asr": f"attempt {job.attempt_id}"}

    async with (
        House(server.url, **{"jobs.run_timeout_ms": 2_000, "jobs.reservation_ttl_ms": 2_000}).open() as house,
        running(node_at(house.port, block)),
    ):
        placed = await house.dispatch()
        assert await asyncio.to_thread(began.wait, PATIENCE_S)
        await eventually(lambda: is_accepted(house, placed["job_id"], 2))
        assert running_now == [1]
        go.set()
        job = await house.ended(placed["job_id"])
    assert (job["state"], job["result"]["text_asr"], most) == ("FINISHED", "attempt 2", 1)


async def is_accepted(house: House, job_id: str, attempt_id: int) -> bool:
    job = await house.get(f"/v1/job/{job_id}")
    return (job["state"], job["attempt_id"]) == ("ACCEPTED", attempt_id)
