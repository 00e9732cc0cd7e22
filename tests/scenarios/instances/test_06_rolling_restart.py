"""All instances are restarted under load, one after the other: whoever uses the SDK does not notice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import httpx2

from lingua_scheduler.sdk import Client, Result
from tests.scenarios.test_serve import end, serving
from tests.support.balancer import Balancer
from tests.support.house import Doors, Heap, eventually
from tests.support.sdk_clients import TENTH
from tests.support.sdk_nodes import RESULT, node_at, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.sdk import Job
    from tests.scenarios.doors.conftest import Start
    from tests.support.servers import Server

INSTANCES: Final = 3
NODES: Final = 6
CLIENTS: Final = 6
#: An instance that is told to end has ended by then, whatever goes on.
EXIT_S: Final = 15.0


async def work(_: Job) -> dict[str, str]:
    """Long enough that an instance always ends in the midst of some."""
    await asyncio.sleep(0.05)
    return RESULT


async def talk(url: str, heard: Heap) -> None:
    """Somebody who speaks without end. What he does not get an answer to is raised."""
    async with Client(url) as client:
        while True:
            items = [item async for item in client.translate(TENTH, src="en", tgt="zh")]
            assert isinstance(items[-1], Result), items
            await heard.add(items[-1])


@asynccontextmanager
async def load(port: int) -> AsyncIterator[Heap]:
    """Nodes and people at this port; everything that people heard. Each of them heard something after the end."""
    heard = Heap()
    nodes = [node_at(port, work, f"sdk-{number}") for number in range(NODES)]
    async with running(*nodes), asyncio.TaskGroup() as people:
        talking = [people.create_task(talk(f"http://127.0.0.1:{port}", heard)) for _ in range(CLIENTS)]
        await heard.reach(2 * CLIENTS)
        yield heard
        await heard.reach(len(heard.things) + 5 * CLIENTS)
        for task in talking:
            task.cancel()


async def none_failed(doors: Doors) -> None:
    stats = await doors.stats()
    assert stats["jobs"]["failed_total"] == 0, stats


async def test_instances_behind_a_balancer(serve: Start) -> None:
    schedulers = [await serve() for _ in range(INSTANCES)]
    async with Balancer([scheduler.port for scheduler in schedulers]) as balancer, load(balancer.port) as heard:
        for scheduler in schedulers:
            async with asyncio.timeout(EXIT_S):
                assert await scheduler.stop() == 0
            await scheduler.start()
            await heard.reach(len(heard.things) + 2 * CLIENTS)
    await none_failed(schedulers[0])


async def test_workers_on_one_port(store: Server) -> None:
    served = serving("--workers", str(INSTANCES), "--port", "0", "--store", store.url, "--json")
    with served as (process, line):
        ready, doors = json.loads(line), Doors()
        doors.port = ready["port"]
        doors.open_http()
        async with doors.http:
            async with load(doors.port) as heard:
                for worker in ready["workers"]:
                    os.kill(worker["pid"], signal.SIGTERM)
                    await eventually(partial(_is_another, doors, worker["instance_id"]))
                    await heard.reach(len(heard.things) + 2 * CLIENTS)
            await none_failed(doors)
        assert (await asyncio.to_thread(end, process, signal.SIGTERM))[0] == 0


async def _is_another(doors: Doors, gone: str) -> bool:
    """Whether there are as many as before, without this one. Whoever is asked may be the one that ends."""
    try:
        there = {one["instance_id"] for one in (await doors.get("/v1/instances"))["instances"]}
    except httpx2.RemoteProtocolError:
        return False
    return len(there) == INSTANCES and gone not in there
