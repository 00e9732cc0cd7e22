"""More than half of the fleet fall silent at once, at all instances: nobody is given up, and somebody is told."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from lingua_scheduler.core.records import Standing
from tests.support.house import eventually, look
from tests.support.people import Node
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    import pytest

    from tests.scenarios.doors.conftest import Start
    from tests.support.house import Scheduler
    from tests.support.servers import Server

#: Who is not heard for a second is silent, and is given up after two.
QUICK = {
    "nodes__socket_beat_ms": "500",
    "nodes__stale_ms": "1000",
    "nodes__offline_ms": "2000",
    "nodes__handover_grace_ms": "400",
    "instance__presence_ttl_ms": "1000",
    "instance__presence_beat_ms": "300",
}

#: Whoever does not answer a ping for half a second is hung up on, and is given up four seconds later.
DEAF = {
    "server__ping_interval_ms": "500",
    "server__ping_timeout_ms": "500",
    "nodes__handover_grace_ms": "4000",
    "instance__presence_ttl_ms": "1000",
    "instance__presence_beat_ms": "300",
}


async def join(scheduler: Scheduler, *node_ids: str) -> None:
    """Nodes without a socket: nobody but they themselves can say that they live."""
    for node_id in node_ids:
        said: dict[str, Any] = {"node_id": node_id, "semantic_langs": ["en", "zh"], "max_concurrent_jobs": 1}
        await scheduler.post("/v1/node/register", said)


async def beat(scheduler: Scheduler, *node_ids: str) -> None:
    """They go on, for ever."""
    while True:
        await asyncio.gather(*(scheduler.post("/v1/node/heartbeat", {"node_id": node_id}) for node_id in node_ids))
        await asyncio.sleep(0.2)


async def test_fencing_stops_and_an_alarm_says_so(
    serve: Start, store: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    here, there = await serve(**QUICK), await serve(**QUICK)
    await join(here, "a", "b", "c")
    await join(there, "d", "e", "f")
    placed = [await here.dispatch(f"room-{number}") for number in range(6)]
    attempts = {one["node_id"]: (one["job_id"], one["attempt_id"]) for one in placed}
    assert len(attempts) == 6
    beating = asyncio.create_task(beat(there, "a", "d"))
    silent = ("b", "c", "e", "f")

    async def is_known() -> bool:
        seen = (await look(store)).nodes
        return {seen[node_id].standing for node_id in silent} == {Standing.stale}

    await eventually(is_known)
    await four_are_told_of(capfd)
    beating.cancel()
    await nobody_is_given_up(store, here)
    for node_id, (job_id, attempt) in attempts.items():
        done = {"job_id": job_id, "attempt_id": attempt, "node_id": node_id, "status": "ok"}
        assert (await there.post("/v1/job/done", done))["state"] == "FINISHED"


async def test_nor_is_anybody_whose_socket_is_there_and_does_not_answer(
    serve: Start, store: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    """What lies between them and us swallows all: every node answers no ping any more, and no node hears of it."""
    here, there = await serve(**DEAF), await serve(**DEAF)
    names = ["a", "b", "c", "d", "e", "f"]
    async with Proxy(here.port) as near, Proxy(there.port) as far, AsyncExitStack() as stack:
        ports = [here.port, near.port, near.port, there.port, far.port, far.port]
        nodes = {name: Node(port, name) for name, port in zip(names, ports, strict=True)}
        for node in nodes.values():
            await stack.enter_async_context(node)
            await node.register(slots=1)
            await node.is_ready()
        placed = [await here.dispatch(f"room-{number}") for number in range(6)]
        assert {one["node_id"] for one in placed} == {*names}
        jobs = {name: await node.job() for name, node in nodes.items()}
        near.lose_all()
        far.lose_all()
        await four_are_told_of(capfd)
        await nobody_is_given_up(store, here)
        for name in ("b", "c", "e", "f"):
            # The way is open again. It says what it works on, or is one of the field that cannot.
            job, epoch = jobs[name], nodes[name].epoch
            running = [{"job_id": job["job_id"], "attempt_id": job["attempt_id"]}]
            nodes[name] = await stack.enter_async_context(Node(ports[names.index(name)], name))
            said: dict[str, Any] = {"epoch": epoch, "running": running} if name in "bc" else {}
            await nodes[name].register(slots=1, **said)
        for name, node in nodes.items():
            await node.result(jobs[name])
        for one in placed:
            assert ((await there.ended(one["job_id"]))["state"], one["attempt_id"]) == ("FINISHED", 1)


async def four_are_told_of(capfd: pytest.CaptureFixture[str]) -> None:
    """The log says how many are silent."""
    told = ""

    async def is_told() -> bool:
        nonlocal told
        told += capfd.readouterr().err
        found = [json.loads(line) for line in told.splitlines()]
        return ("mass_silence", 4) in [(one["event"], one.get("number")) for one in found]

    await eventually(is_told)


async def nobody_is_given_up(store: Server, scheduler: Scheduler) -> None:
    """Everybody keeps his job, and whoever looks is told why."""
    cell = await look(store)
    assert not any(node.lost_at_ms for node in cell.nodes.values())
    assert {job.attempt for job in cell.jobs.values()} == {1}
    stats = await scheduler.stats()
    assert any("are silent" in problem for problem in stats["health"]["problems"]), stats["health"]
