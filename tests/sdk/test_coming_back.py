"""A node comes back: after a cut in the middle of a job, after a restart, all at once; and says what it has."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.sdk import Node
from lingua_scheduler.sdk.client_errors import Refused
from tests.support.house import House, Scheduler, empty, eventually, judge
from tests.support.people import PATIENCE_S
from tests.support.proxy import Proxy
from tests.support.sdk_nodes import RESULT, Held, node_at, running
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from lingua_scheduler.sdk import Job
    from tests.support.servers import Server


#: Longer than any test: what is asked is whether a node comes back with what it had, not how fast.
PATIENT = {"nodes.reconnect_grace_ms": 20_000}


@pytest.fixture
async def patient(server: Server) -> AsyncIterator[House]:
    async with House(server.url, **PATIENT).open() as house:
        yield house


async def back(node: Node, proxy: Proxy, before: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await proxy.accepted_more_than(before)
        await node.joined()


async def test_a_job_goes_on_through_a_cut_and_is_done_once(patient: House) -> None:
    handler = Held()
    async with Proxy(patient.port) as proxy:
        node = node_at(proxy.port, handler)
        async with running(node):
            placed = await patient.dispatch()
            await handler.has(begun=1)
            before = proxy.accepted
            proxy.cut()
            await back(node, proxy, before)
            handler.let_go()
            job = await patient.ended(placed["job_id"])
    assert (job["state"], job["attempt_id"], len(handler.jobs)) == ("FINISHED", 1, 1)


async def test_a_result_that_could_not_be_written_is_said_when_the_node_is_back(patient: House) -> None:
    handler = Held()
    async with Proxy(patient.port) as proxy:
        node = node_at(proxy.port, handler)
        async with running(node):
            placed = await patient.dispatch()
            await handler.has(begun=1)
            proxy.refusing = True
            proxy.cut()
            await eventually(lambda: is_out(node))
            handler.let_go()
            await asyncio.sleep(0)
            proxy.refusing = False
            job = await patient.ended(placed["job_id"])
    assert (job["state"], job["attempt_id"], len(handler.jobs)) == ("FINISHED", 1, 1)


async def is_out(node: Node) -> bool:
    return not node.is_joined


async def test_a_result_that_was_lost_on_the_way_is_said_again(patient: House) -> None:
    """It was written into a socket that nobody read any more: no pong came, so it is not forgotten."""
    handler = Held()
    async with Proxy(patient.port) as proxy:
        node = node_at(proxy.port, handler)
        async with running(node):
            placed = await patient.dispatch()
            await handler.has(begun=1)
            lost = proxy.arm("black_hole", "up", 0)
            handler.let_go()
            await asyncio.wait_for(lost.struck.wait(), PATIENCE_S)
            before = proxy.accepted
            proxy.heal()
            await back(node, proxy, before)
            job = await patient.ended(placed["job_id"])
    assert (job["state"], job["attempt_id"], len(handler.jobs)) == ("FINISHED", 1, 1)


async def test_what_was_taken_away_meanwhile_is_cancelled_and_its_result_dropped(patient: House) -> None:
    handler = Held()
    async with Proxy(patient.port) as proxy:
        node = node_at(proxy.port, handler)
        async with running(node):
            placed = await patient.dispatch()
            await handler.has(begun=1)
            proxy.refusing = True
            proxy.cut()
            await eventually(lambda: is_out(node))
            await patient.post("/v1/job/cancel", {"job_id": placed["job_id"]})
            proxy.refusing = False
            await handler.has(cancelled=1)
            await eventually(lambda: is_free(patient))
        job = await patient.ended(placed["job_id"])
    assert (job["state"], job["result"]) == ("CANCELLED", None)


async def is_free(house: House) -> bool:
    node = await house.get("/v1/nodes/sdk-1")
    return (node["used"], node["free"]) == (0, 2)


async def test_a_storm_of_nodes_that_all_lost_their_sockets_comes_back_and_does_its_jobs(patient: House) -> None:
    number = 40
    handler = Held()
    async with Proxy(patient.port) as proxy:
        nodes = [node_at(proxy.port, handler, f"sdk-{at}", max_jobs=1) for at in range(number)]
        async with running(*nodes):
            placed = [await patient.dispatch(f"room-{at}") for at in range(number)]
            await handler.has(begun=number)
            before = proxy.accepted
            proxy.cut()
            async with asyncio.timeout(PATIENCE_S):
                await proxy.accepted_more_than(before + number - 1)
                await asyncio.gather(*(node.joined() for node in nodes))
            handler.let_go()
            ends = [await patient.ended(one["job_id"]) for one in placed]
            stats = await patient.get("/v1/nodes?limit=100")
    assert {job["state"] for job in ends} == {"FINISHED"}
    assert len(stats["nodes"]) == number


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_a_restart_of_the_scheduler_loses_no_job(tmp_path: Path, how: signal.Signals) -> None:
    store = start_server(tmp_path, "--appendonly", "yes", "--appendfsync", "no")
    handler = Held()
    try:
        async with Scheduler(store.url, LINGUA_NODES__HANDOVER_GRACE_MS="60000") as scheduler:
            node = node_at(scheduler.port, handler)
            async with running(node):
                placed = await scheduler.dispatch()
                await handler.has(begun=1)
                assert await scheduler.stop(how) == (0 if how is signal.SIGTERM else -how)
                await scheduler.start()
                async with asyncio.timeout(PATIENCE_S):
                    await node.joined()
                handler.let_go()
                job = await scheduler.ended(placed["job_id"])
                again = await scheduler.dispatch()
                assert (await scheduler.ended(again["job_id"]))["state"] == "FINISHED"
        assert (job["state"], job["attempt_id"], len(handler.jobs)) == ("FINISHED", 1, 2)
        assert await judge(store) == []
    finally:
        store.stop()


async def test_an_engine_that_has_forgotten_everything_gets_the_node_back(tmp_path: Path) -> None:
    """What it worked on is known to nobody any more: it is told to stop that, and serves on."""
    store = start_server(tmp_path)
    handler = Held()
    try:
        async with Scheduler(store.url) as scheduler, running(node_at(scheduler.port, handler)):
            await scheduler.dispatch()
            await handler.has(begun=1)
            await empty(store)
            await handler.has(cancelled=1)
            handler.let_go()
            placed = await scheduler.dispatch(options={"wait_ms": 10_000})
            assert (await scheduler.ended(placed["job_id"]))["state"] == "FINISHED"
        assert await judge(store) == []
    finally:
        store.stop()


async def test_a_second_process_with_the_same_id_takes_its_place(house: House) -> None:
    first, second = node_at(house.port, Held()), node_at(house.port, Held())
    serving = asyncio.create_task(first.run())
    await first.joined()
    async with running(second):
        with pytest.raises(Refused, match="another process serves as sdk-1") as replaced:
            await asyncio.wait_for(serving, PATIENCE_S)
    assert replaced.value.code == "REPLACED"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"token": "not-the-right-one"}, "UNAUTHENTICATED: .* LINGUA_TOKEN"),
        ({}, "UNAUTHENTICATED: .* LINGUA_TOKEN"),
    ],
)
async def test_a_node_that_is_not_let_in_ends_and_says_what_to_do(
    server: Server, monkeypatch: pytest.MonkeyPatch, said: dict[str, str], why: str
) -> None:
    monkeypatch.delenv("LINGUA_TOKEN", raising=False)
    async with House(server.url, **{"auth.node_tokens": ["fleet:0123456789abcdef"]}).open() as house:
        with pytest.raises(Refused, match=why):
            await asyncio.wait_for(node_at(house.port, Held(), **said).run(), PATIENCE_S)


async def test_at_an_address_that_is_no_scheduler_it_ends(server: Server) -> None:
    async with House(server.url).open() as house:
        node = Node(["en"], url=f"http://127.0.0.1:{house.port}/elsewhere")
        node.job(Held())
        with pytest.raises(Refused, match="there is no Lingua scheduler at this address"):
            await asyncio.wait_for(node.run(), PATIENCE_S)


async def test_it_waits_for_a_scheduler_that_is_not_there_yet(server: Server) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    node = node_at(port, Held())
    serving = asyncio.create_task(node.run())
    house = House(server.url)
    async with house.open(), contextlib.AsyncExitStack() as stack:
        await asyncio.sleep(0)
        relay = await stack.enter_async_context(_relay(port, house.port))
        async with asyncio.timeout(PATIENCE_S):
            await node.joined()
        assert relay.is_serving()
        node.stop()
        await serving


@contextlib.asynccontextmanager
async def _relay(port: int, target: int) -> Any:
    """What is said at one port is heard at another."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pump(reader, back), pump(there, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", port)
    try:
        yield server
    finally:
        server.close()


async def test_drained_it_ends_its_jobs_takes_no_other_and_goes(house: House) -> None:
    handler = Held()
    node = node_at(house.port, handler)
    async with running(node) as (serving,):
        placed = await house.dispatch()
        await handler.has(begun=1)
        node.drain()
        await eventually(lambda: is_draining(house))
        refused = await house.dispatch(status=503)
        assert refused["breakdown"]["not_ready"] == 1
        handler.let_go()
        await asyncio.wait_for(serving, PATIENCE_S)
    assert (await house.ended(placed["job_id"]))["state"] == "FINISHED"
    assert len(handler.jobs) == 1


async def is_draining(house: House) -> bool:
    reported: str = (await house.get("/v1/nodes/sdk-1"))["reported"]
    return reported == "draining"


async def test_what_is_not_done_when_the_drain_is_over_goes_to_another_node_and_costs_no_try(server: Server) -> None:
    """The operator says `shutdown`: the node drains by itself."""

    async def good(_: Job) -> dict[str, str]:
        return RESULT

    handler = Held()
    house = House(server.url, **{"jobs.max_retry": 0})
    async with house.open(), running(node_at(house.port, handler, "leaving", drain_s=0.05)) as (leaving,):
        placed = await house.dispatch()
        await handler.has(begun=1)
        async with running(node_at(house.port, good, "staying")):
            link = house.serving.desk.links.get("leaving")
            assert link is not None
            assert link.control("shutdown", "maintenance")
            await asyncio.wait_for(leaving, PATIENCE_S)
            job = await house.ended(placed["job_id"])
    assert (job["state"], job["node_id"], len(handler.cancelled)) == ("FINISHED", "staying", 1)
