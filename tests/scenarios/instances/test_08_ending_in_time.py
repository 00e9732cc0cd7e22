"""An instance that is told to end has ended within fifteen seconds, whoever waits for something there."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Final

from tests.support.doors import Raw

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start
    from tests.support.servers import Server

EXIT_S: Final = 15.0


async def test_nodes_clients_and_whoever_asks_for_an_end_are_let_go(serve: Start) -> None:
    """With the settings as they come. What it had goes on elsewhere."""
    here, there = await serve(), await serve()
    async with there.node() as node, there.client() as client:
        await node.register(slots=8)
        await node.is_ready()
        token = (await client.init())["resume_token"]
        await client.utter(0)
        job = await node.job(utterance_index=0)
        placed = await there.dispatch()
        await node.job(job_id=placed["job_id"])
        async with Raw.connect(there.port) as first, Raw.connect(there.port) as second:
            waiting = [first, second]
            for one in waiting:
                await one.get("/livez")
                path = f"/v1/job/{placed['job_id']}?wait_ms=60000"
                await one.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert (await there.get("/readyz"))["ok"]
            stopping = asyncio.create_task(asyncio.wait_for(there.stop(), EXIT_S))
            assert {(await node.gone())[0], (await client.gone())[0]} == {1012}
            # Nodes have their grace from now on, and not from when the instance has ended.
            async with here.node() as back, here.client() as again:
                running = [{"job_id": one, "attempt_id": 1} for one in (job["job_id"], placed["job_id"])]
                await back.register(slots=8, epoch=node.epoch, running=running)
                await again.init(resume_token=token)
                await back.result(job)
                assert (await again.end_of(0))["type"] == "translation_result"
                assert await stopping == 0
                for one in waiting:
                    answer = await one.answer()
                    assert (answer.status, answer.said["state"]) == (200, "ACCEPTED")


async def test_an_engine_that_hangs_costs_no_more(serve: Start, store: Server) -> None:
    """What is waited for at once by nodes, sessions and requests is waited for once: all of it has one deadline."""
    drain_s = 6
    there = await serve(server__drain_ms=str(1_000 * drain_s))
    async with there.node() as node, there.client() as client, Raw.connect(there.port) as raw:
        await node.register(slots=8)
        await node.is_ready()
        await client.init()
        await client.utter(0)
        await node.job(utterance_index=0)
        placed = await there.dispatch()
        await node.job(job_id=placed["job_id"])
        await raw.get("/livez")
        os.kill(store.process.pid, signal.SIGSTOP)
        try:
            await raw.write(
                f"GET /v1/job/{placed['job_id']}?wait_ms=60000 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            )
            await client.utter(1)
            await client.was_read()
            assert await asyncio.wait_for(there.stop(), drain_s + 5) == 0
        finally:
            os.kill(store.process.pid, signal.SIGCONT)
