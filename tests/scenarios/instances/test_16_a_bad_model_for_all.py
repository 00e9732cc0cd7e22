"""A model that is pushed to the whole fleet and works nowhere: a storm of trouble, and what it may not cost."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from tests.support.house import eventually, look

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.scenarios.doors.conftest import Start
    from tests.support.house import Scheduler
    from tests.support.people import Node
    from tests.support.servers import Server

NODES = 20
EVENTS = 1_000
SPOKEN: dict[str, Any] = {"options": {"require_tts": True}}
#: However long the storm takes on a busy machine, it is one window.
ONE_WINDOW = {"nodes__mark_debounce_ms": "300000", "nodes__mark_window_ms": "600000", "nodes__mark_ttl_ms": "300000"}


@asynccontextmanager
async def fleet(*schedulers: Scheduler) -> AsyncIterator[list[Node]]:
    """Nodes on sockets, evenly at both."""
    async with AsyncExitStack() as stack:
        nodes = [schedulers[number % len(schedulers)].node(f"n{number}") for number in range(NODES)]
        for node in nodes:
            await stack.enter_async_context(node)
            await node.register(slots=4)
        await asyncio.gather(*(node.is_ready() for node in nodes))
        yield nodes


async def storm(nodes: list[Node], times: int, kind: str = "tts") -> None:
    """All at once, each so often: it is not there."""

    async def cry(node: Node) -> None:
        details = {"service_id": "voice-7", "service_type": kind}
        for _ in range(times):
            await node.say("node_error", node_id=node.node_id, code="MODEL_NOT_AVAILABLE", message="", details=details)
        await node.was_read()

    await asyncio.gather(*map(cry, nodes))


async def metric(name: str, *schedulers: Scheduler, **labels: str) -> float:
    """Of all of them together."""
    total = 0.0
    for scheduler in schedulers:
        text = (await scheduler.http.get("/metrics")).text
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        total += sum(one.value for one in samples if one.name == name and one.labels == labels)
    return total


async def settled(*schedulers: Scheduler) -> None:
    """Until the engine was told of all that was seen."""

    async def is_so() -> bool:
        return await metric("lingua_marks_waiting", *schedulers) == 0

    await eventually(is_so)


async def test_a_storm_costs_one_write_for_each_node_and_service_and_holds_up_no_job(
    serve: Start, store: Server
) -> None:
    here, there = await serve(**ONE_WINDOW), await serve(**ONE_WINDOW)
    async with fleet(here, there) as nodes:
        raging = asyncio.create_task(storm(nodes, EVENTS // NODES))
        # Jobs that do without it go on, also on the nodes that are marked.
        placed = [await scheduler.dispatch(f"s{n}") for n in range(10) for scheduler in (here, there)]
        await raging
        await settled(here, there)
        profiles = (await look(store)).profiles
        assert {node_id: profile.marked for node_id, profile in profiles.items()} == dict.fromkeys(profiles, 1)
        assert {tuple(mark.type for mark in profile.marks) for profile in profiles.values()} == {("tts",)}
        assert await metric("lingua_marks_total", here, there, outcome="marked") == NODES
        assert await metric("lingua_marks_dropped_total", here, there) == 0
        assert len({one["job_id"] for one in placed}) == 20
        for node in nodes:
            for job in [message for message in node.heard if message["type"] == "job_assign"]:
                await node.result(job)
        ends = [await here.ended(one["job_id"]) for one in placed]
        assert {end["state"] for end in ends} == {"FINISHED"}


async def test_two_instances_that_hear_of_the_same_node_write_once(serve: Start, store: Server) -> None:
    """A node without a socket speaks to whichever it finds."""
    here, there = await serve(**ONE_WINDOW), await serve(**ONE_WINDOW)
    said: dict[str, Any] = {"semantic_langs": ["en", "zh"], "max_concurrent_jobs": 8}
    await here.post("/v1/node/register", said | {"node_id": "n1"})
    jobs = [await here.dispatch(f"s{number}") for number in range(8)]
    attempts = [{"job_id": job["job_id"], "attempt_id": 1, "node_id": "n1"} for job in jobs]
    fail = {"status": "error", "reason": "MODEL_NOT_AVAILABLE: whisper"}
    doors = [here, there] * 4
    await asyncio.gather(
        *(door.post("/v1/job/fail", attempt | fail) for door, attempt in zip(doors, attempts, strict=True))
    )
    await settled(here, there)
    assert (await look(store)).profiles["n1"].marked == 1
    assert await metric("lingua_marks_total", here, there, outcome="marked") == 1
    for job in jobs:
        await here.post("/v1/job/cancel", {"job_id": job["job_id"], "reason": "enough"})


async def test_the_pool_keeps_its_nodes_and_whoever_waits_is_served_when_the_marks_end(serve: Start) -> None:
    settings = {"nodes__mark_ttl_ms": "5000", "nodes__mark_debounce_ms": "1000"}
    here, there = await serve(**settings), await serve(**settings)
    async with fleet(here, there) as nodes:
        before = await here.get("/v1/pools/en/zh")
        await storm(nodes, 2)
        await settled(here, there)
        refused = await here.dispatch(status=503, **SPOKEN)
        # Never the final no: nobody has left the pool.
        assert (refused["error"], refused["retryable"]) == ("ALL_CANDIDATES_FULL_OR_FAILED", True)
        assert (refused["breakdown"]["pool"], refused["breakdown"]["marked"]) == (NODES, NODES)
        assert (await there.get("/v1/pools/en/zh"))["nodes"] == before["nodes"] == NODES
        waiting = [
            asyncio.create_task(door.dispatch(f"s{n}", options={"require_tts": True, "wait_ms": 15_000}))
            for n in range(5)
            for door in (here, there)
        ]
        await here.dispatch()
        placed = await asyncio.gather(*waiting)
        assert len({one["job_id"] for one in placed}) == 10

        async def is_over() -> bool:
            found = await asyncio.gather(*(here.get(f"/v1/nodes/{node.node_id}") for node in nodes))
            return not any(one["marks"] for one in found)

        await eventually(is_over)
        assert (await here.dispatch(**SPOKEN))["attempt_id"] == 1
