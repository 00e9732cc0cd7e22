"""The engine dies and comes back under load: nothing is accepted meanwhile, and nothing that was accepted is lost."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from tests.support.house import Heap
from tests.support.servers import start_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.doors.conftest import Start
    from tests.support.house import Scheduler
    from tests.support.people import Node
    from tests.support.servers import Server


async def work(node: Node) -> None:
    """Do every job at once, for ever."""
    while True:
        await node.result(await node.job())


async def call(scheduler: Scheduler, accepted: Heap, told: Heap) -> None:
    """Submit one job after the other; with a request id, so that an unknown outcome can be asked for again."""
    number = 0
    while True:
        number += 1
        said = {"session_id": f"load-{number}", "src_lang": "en", "tgt_lang": "zh", "request_id": f"r{number}"}
        while True:
            answer = await scheduler.http.post("/v1/dispatch/f2f", json=said)
            if answer.status_code == 200:
                await accepted.add(answer.json()["job_id"])
                break
            await told.add(answer.json())
            assert answer.status_code == 503, answer.text
            assert answer.json()["retryable"], answer.text
            await asyncio.sleep(0.02)


async def test_it_fails_closed_and_recovers_by_itself(serve: Start, store: Server, tmp_path: Path) -> None:
    scheduler = await serve(rates__submits_per_s="100000", rates__submits_burst="100000")
    accepted, told = Heap(), Heap()
    async with scheduler.node() as node:
        await node.register(slots=16)
        working = asyncio.create_task(work(node))
        calling = asyncio.create_task(call(scheduler, accepted, told))
        await accepted.reach(50)
        store.stop(signal.SIGKILL)
        await told.reach(1)
        assert (await scheduler.http.get("/readyz")).status_code == 503
        assert (await scheduler.http.get("/livez")).status_code == 200
        store.process = start_server(tmp_path, "--appendonly", "yes", "--appendfsync", "no").process
        await accepted.reach(len(accepted.things) + 50)
        calling.cancel()
        codes = {one["error"] for one in told.things}
        assert codes <= {"SCHEDULER_DEPENDENCY_DOWN", "OUTCOME_UNKNOWN", "ALL_CANDIDATES_FULL_OR_FAILED"}, codes
        for job_id in accepted.things:
            assert (await scheduler.ended(job_id))["state"] == "FINISHED"
        assert len(set(accepted.things)) == len(accepted.things)
        working.cancel()
