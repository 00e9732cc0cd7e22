"""A scheduler that is told to end, under load, loses nothing: its jobs end under the next one."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import httpx2
from websockets.exceptions import ConnectionClosed

from lingua_scheduler.front.socket import RETURN_EACH_MS, RETURN_MS
from tests.support.house import Heap, eventually

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start
    from tests.support.house import Scheduler
    from tests.support.people import Node


async def stay(node: Node, *, slots: int) -> None:
    """A node as its developer wrote it: it does its jobs, and comes back when the scheduler restarts."""
    while True:
        with contextlib.suppress(OSError, AssertionError, ConnectionClosed):
            await node.connect()
            await node.register(slots=slots)
            while True:
                await node.result(await node.job())
        await asyncio.sleep(0.02)


async def test_every_job_that_was_accepted_ends(serve: Start) -> None:
    """A result that a node wrote into a closing socket is lost; its job goes on when its time on that node is over."""
    scheduler = await serve(jobs__run_timeout_ms="3000", jobs__reservation_ttl_ms="2000", loops__relay_lease_ms="1000")
    node = scheduler.node()
    staying = asyncio.create_task(stay(node, slots=8))
    accepted = Heap()

    async def call() -> None:
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                said = {"session_id": f"load-{len(accepted.things)}", "src_lang": "en", "tgt_lang": "zh"}
                answer = await scheduler.http.post("/v1/dispatch/f2f", json=said)
                if answer.status_code == 200:
                    await accepted.add(answer.json()["job_id"])
            await asyncio.sleep(0.001)

    callers = [asyncio.create_task(call()) for _ in range(4)]
    await accepted.reach(100)
    assert await scheduler.stop() == 0
    for caller in callers:
        caller.cancel()
    await scheduler.start()
    for job_id in accepted.things:
        assert (await scheduler.ended(job_id))["state"] == "FINISHED"
    staying.cancel()
    await node.close()


async def test_nobody_who_waits_for_a_slot_holds_it_up(serve: Start) -> None:
    scheduler = await serve(server__drain_ms="3600000")
    async with scheduler.node() as node:
        await node.register(slots=1)
        await scheduler.dispatch()
        said = {"session_id": "room-889", "src_lang": "en", "tgt_lang": "zh", "options": {"wait_ms": 60_000}}
        waiting = asyncio.create_task(scheduler.http.post("/v1/dispatch/f2f", json=said))

        async def is_waiting() -> bool:
            return bool((await scheduler.stats())["jobs"]["waiting"])

        await eventually(is_waiting)
        assert await scheduler.stop() == 0
        answer = await waiting
        assert (answer.status_code, answer.json()["error"]) == (503, "SHUTTING_DOWN")


async def test_a_socket_is_told_to_come_back(scheduler: Scheduler) -> None:
    async with scheduler.node() as node, scheduler.client() as client:
        await node.register()
        await client.init()
        assert await scheduler.stop() == 0
        assert (await node.gone())[0] == 1012
        assert (await client.gone())[0] == 1012
        assert (await client.next_left("error"))["error"] == "SHUTTING_DOWN"


async def test_not_all_are_told_to_come_back_at_once(scheduler: Scheduler) -> None:
    nodes = [scheduler.node(f"n{number}") for number in range(4)]
    clients = [scheduler.client() for _ in range(4)]
    for node in nodes:
        await node.connect()
        await node.register()
    for client in clients:
        await client.connect()
        await client.init()
    assert await scheduler.stop() == 0
    hints = set()
    for peer in (*nodes, *clients):
        assert (await peer.gone())[0] == 1012
        hints.add((await peer.next_left("error"))["retry_after_ms"])
        await peer.close()
    assert len(hints) > 1, "eight of seventeen"
    assert all(RETURN_MS <= hint <= RETURN_MS + 8 * RETURN_EACH_MS for hint in hints), hints
