"""A node comes back: after a cut in the middle of a job, after a restart, all at once; and says what it has."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.front.socket import RETURN_MS
from lingua_scheduler.sdk import Node
from lingua_scheduler.sdk.client_errors import ClientError, Refused
from lingua_scheduler.sdk.nodes import runner
from tests.support.house import House, Scheduler, empty, eventually, judge
from tests.support.people import PATIENCE_S
from tests.support.proxy import Proxy
from tests.support.sdk_nodes import Held, at_work, good, is_free, node_at, running
from tests.support.silent import Silent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server


#: Longer than any test: what is asked is whether a node comes back with what it had, not how fast.
PATIENT = {"nodes.reconnect_grace_ms": 20_000}


@pytest.fixture
async def patient(server: Server) -> AsyncIterator[House]:
    async with House(server.url, **PATIENT).open() as house:
        yield house


async def test_a_job_goes_on_through_a_cut_and_is_done_once(patient: House) -> None:
    async with at_work(patient) as work:
        work.network.cut()
        await work.comes_back()
        work.handler.let_go()
        await work.done_once()


async def test_a_result_that_could_not_be_written_is_said_when_the_node_is_back(patient: House) -> None:
    async with at_work(patient) as work:
        await work.vanish()
        work.handler.let_go()
        await asyncio.sleep(0)
        work.network.heal()
        await work.done_once()


async def test_a_result_that_was_lost_on_the_way_is_said_again(patient: House) -> None:
    """It was written into a socket that nobody read any more: no pong came, so it is not forgotten."""
    async with at_work(patient) as work:
        lost = work.network.arm("black_hole", "up", 0)
        work.handler.let_go()
        await asyncio.wait_for(lost.struck.wait(), PATIENCE_S)
        work.network.heal()
        await work.comes_back()
        await work.done_once()


async def test_what_was_taken_away_meanwhile_is_cancelled_and_its_result_dropped(patient: House) -> None:
    async with at_work(patient) as work:
        await work.vanish()
        await patient.post("/v1/job/cancel", {"job_id": work.job_id})
        work.network.heal()
        await work.handler.has(cancelled=1)
        await is_free(patient)
        job = await patient.ended(work.job_id)
    assert (job["state"], job["result"]) == ("CANCELLED", None)


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
async def test_a_restart_of_the_scheduler_loses_no_job(store: Server, how: signal.Signals) -> None:
    handler = Held()
    patient = {"LINGUA_NODES__HANDOVER_GRACE_MS": "60000", "LINGUA_NODES__OFFLINE_MS": "120000"}
    async with Scheduler(store.url, **patient) as scheduler:
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


async def test_a_fleet_whose_scheduler_restarts_comes_back_when_it_was_told_to(
    store: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Everybody was told a time of his own, and comes no earlier."""
    number = 20
    handler = Held()
    async with Scheduler(store.url) as scheduler:
        nodes = [node_at(scheduler.port, handler, f"sdk-{at}", max_jobs=1) for at in range(number)]
        async with running(*nodes):
            await scheduler.stop()
            await scheduler.start()
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*(node.joined() for node in nodes))
            handler.let_go()
            placed = [await scheduler.dispatch(f"room-{at}", options={"wait_ms": 10_000}) for at in range(number)]
            assert {(await scheduler.ended(one["job_id"]))["state"] for one in placed} == {"FINISHED"}
    told = [
        record.__dict__["again_in_ms"]
        for record in caplog.records
        if record.getMessage() == "not in the fleet" and record.__dict__["why"].startswith("closed with 1012")
    ]
    assert len(told) == number
    assert min(told) >= RETURN_MS
    assert len(set(told)) > 1
    assert await judge(store) == []


async def test_a_scheduler_that_does_not_answer_is_left_for_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_ANSWER_S", 0.05)
    async with Silent() as silent:
        node = node_at(silent.port, Held())
        serving = asyncio.create_task(node.run())
        await silent.took(3)
        node.stop()
        await asyncio.wait_for(serving, PATIENCE_S)


async def test_an_engine_that_has_forgotten_everything_gets_the_node_back(store: Server) -> None:
    """What it worked on is known to nobody any more: it is told to stop that, and serves on."""
    handler = Held()
    async with Scheduler(store.url) as scheduler, running(node_at(scheduler.port, handler)):
        await scheduler.dispatch()
        await handler.has(begun=1)
        await empty(store)
        await handler.has(cancelled=1)
        handler.let_go()
        placed = await scheduler.dispatch(options={"wait_ms": 10_000})
        assert (await scheduler.ended(placed["job_id"]))["state"] == "FINISHED"
    assert await judge(store) == []


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


async def test_whoever_waits_for_a_node_that_is_not_let_in_is_told_so(server: Server) -> None:
    async with House(server.url, **{"auth.node_tokens": ["fleet:0123456789abcdef"]}).open() as house:
        node = node_at(house.port, Held(), token="not-the-right-one")  # noqa: S106 - of this test
        serving = asyncio.create_task(node.run())
        with pytest.raises(Refused) as told:
            await asyncio.wait_for(node.joined(), PATIENCE_S)
        with pytest.raises(Refused) as raised:
            await serving
    assert told.value is raised.value
    assert (told.value.code, told.value.retryable, told.value.retry_after) == ("UNAUTHENTICATED", False, None)


async def test_whoever_begins_to_wait_when_a_node_was_refused_is_told_so(server: Server) -> None:
    async with House(server.url, **{"auth.node_tokens": ["fleet:0123456789abcdef"]}).open() as house:
        node = node_at(house.port, good)
        with pytest.raises(Refused):
            await node.run()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(Refused, match="UNAUTHENTICATED"):
                await node.joined()


async def test_a_node_that_has_ended_can_be_run_again_and_waited_for(house: House) -> None:
    node = node_at(house.port, good)
    for _ in range(2):
        async with running(node):
            assert node.is_joined
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ClientError, match="NODE_STOPPED"):
            await node.joined()


async def test_whoever_waits_for_a_node_that_is_told_to_go_is_told_so(network: Proxy) -> None:
    network.refusing = True
    node = node_at(network.port, Held())
    serving = asyncio.create_task(node.run())
    waiting = asyncio.create_task(node.joined())
    async with asyncio.timeout(PATIENCE_S):
        await network.refused_more_than(0)
        node.drain()
        await serving
        with pytest.raises(ClientError) as told:
            await waiting
    assert told.value.code == "NODE_STOPPED"


async def test_at_an_address_that_is_no_scheduler_it_ends(server: Server) -> None:
    async with House(server.url).open() as house:
        node = Node(["en"], url=f"http://127.0.0.1:{house.port}/elsewhere")
        node.job(Held())
        with pytest.raises(Refused, match="there is no Lingua scheduler at this address"):
            await asyncio.wait_for(node.run(), PATIENCE_S)


async def test_it_waits_for_a_scheduler_that_is_not_there_yet(house: House, network: Proxy) -> None:
    del house
    network.refusing = True
    node = node_at(network.port, Held())
    serving = asyncio.create_task(node.run())
    async with asyncio.timeout(PATIENCE_S):
        await network.refused_more_than(1)
        network.heal()
        await node.joined()
        node.stop()
        await serving


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
