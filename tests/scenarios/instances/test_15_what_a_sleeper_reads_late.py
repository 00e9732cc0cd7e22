"""An instance sleeps while somebody speaks to it, gives it up and goes elsewhere. What it reads then is old."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.clock import wall_ms
from tests.support.house import eventually, look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.scenarios.doors.conftest import Start
    from tests.support.house import Scheduler
    from tests.support.servers import Server

#: Nobody takes it for gone.
PATIENT = {"instance__presence_ttl_ms": "60000", "nodes__offline_ms": "100000"}
#: Soon an attempt is given up that nobody acks, or that takes too long.
QUICK = PATIENT | {"jobs__reservation_ttl_ms": "1100", "jobs__run_timeout_ms": "1100"}


#: What a node can do that says so over HTTP.
ABLE = {"semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]]}


@contextmanager
def asleep(scheduler: Scheduler) -> Iterator[None]:
    os.kill(scheduler.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(scheduler.pid, signal.SIGCONT)


async def some_time_passes() -> None:
    """Which connection was opened last is told by the clocks of two instances, and they may differ by a little."""
    until_ms = wall_ms() + 50

    async def is_later() -> bool:
        return wall_ms() > until_ms

    await eventually(is_later)


async def test_a_registration(serve: Start, store: Server) -> None:
    there, here = await serve(**PATIENT), await serve(**PATIENT)
    async with there.node() as older, AsyncExitStack() as stack:
        await older.was_read()
        await some_time_passes()
        newer = await stack.enter_async_context(here.node())
        with asleep(there):
            registering = asyncio.create_task(older.register(slots=2))
            await newer.register(slots=2)
            await newer.is_ready()
            placed = await here.dispatch()
            job = await newer.job(job_id=placed["job_id"])
        assert (await older.gone())[0] == 4409
        with pytest.raises(AssertionError, match="SESSION_CLOSED"):
            await registering
        await newer.result(job)
        assert (await here.ended(placed["job_id"]))["attempt_id"] == 1
        node = (await look(store)).nodes["node-1"]
        assert (newer.closed, node.away_until_ms, node.lost_at_ms) == (None, 0, 0)


@pytest.mark.parametrize("by_socket", [False, True], ids=["http", "socket"])
async def test_a_registration_over_http(serve: Start, store: Server, by_socket: bool) -> None:
    there, here = await serve(**PATIENT), await serve(**PATIENT)
    said: dict[str, Any] = {"node_id": "node-1"} | ABLE
    reader, writer = await asyncio.open_connection("127.0.0.1", there.port)
    await there.get("/livez")
    with asleep(there):
        body = json.dumps(said | {"max_concurrent_jobs": 1}).encode()
        writer.write(
            b"POST /v1/node/register HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )
        await writer.drain()
        # Nobody gives up at once; and the kernel does not tell times apart that are closer.
        await some_time_passes()
        async with here.node() as newer:
            if by_socket:
                await newer.register(slots=2)
                await newer.is_ready()
            else:
                await here.post("/v1/node/register", said | {"max_concurrent_jobs": 2})
            before = (await look(store)).nodes["node-1"]
            os.kill(there.pid, signal.SIGCONT)
            answer = await reader.readuntil(b"}")
            assert answer.startswith(b"HTTP/1.1 409")
            assert b"NODE_REPLACED" in answer
            node = (await look(store)).nodes["node-1"]
            assert (node.max, node.epoch, node.away_until_ms) == (2, before.epoch, 0)
            assert newer.closed is None
    writer.close()


async def test_a_client_that_comes_back(serve: Start) -> None:
    there, here = await serve(**PATIENT), await serve(**PATIENT)
    async with here.node() as node, here.client() as first, there.client() as older, AsyncExitStack() as stack:
        await node.register(slots=2)
        await node.is_ready()
        token = (await first.init())["resume_token"]
        first.cut()
        await older.was_read()
        await some_time_passes()
        newer = await stack.enter_async_context(here.client())
        with asleep(there):
            await older.say("session_init", resume_token=token)
            await newer.init(resume_token=token)
            await newer.utter(0)
            job = await node.job(utterance_index=0)
        assert (await older.gone())[0] == 4409
        await node.result(job)
        assert (await newer.next("translation_result"))["utterance_index"] == 0
        assert newer.closed is None


async def test_how_a_node_is_that_has_gone_elsewhere(serve: Start, store: Server) -> None:
    there, here = await serve(**PATIENT), await serve(**PATIENT)
    async with there.node() as older, here.node() as newer:
        await older.register(slots=2)
        await older.is_ready()
        with asleep(there):
            await older.beat(health="draining")
            await newer.register(epoch=older.epoch, running=[], slots=2)
            await newer.is_ready()
        assert (await older.gone())[0] == 4409
        assert (await look(store)).nodes["node-1"].reported == "ready"
        placed = await there.dispatch()
        await newer.result(await newer.job(job_id=placed["job_id"]))
        await there.ended(placed["job_id"])


@pytest.mark.parametrize("said", [{"features": ("job_ack",), "running": []}, {}], ids=["ours", "field"])
async def test_that_a_node_has_nothing_to_do(serve: Start, store: Server, said: dict[str, Any]) -> None:
    """It had not heard of its job when it said so, and works on it since. Its one slot is not given away."""
    there, _here = await serve(**QUICK), await serve(**QUICK)
    async with there.node() as node:
        await node.register(slots=1, **said)
        await node.is_ready()
        placed = await there.dispatch()
        await node.was_read()

        async def is_fenced_for_long() -> bool:
            return any(fenced_at < wall_ms() - 2_100 for fenced_at in (await look(store)).limbo.values())

        with asleep(there):
            await (node.beat(running=[]) if said else node.beat())
            await node.job(job_id=placed["job_id"])
            await eventually(is_fenced_for_long)
        await node.was_read()
        await node.say("job_ack", job_id="c0.nothing", attempt_id=1, node_id="node-1")
        await node.next("error", code="UNKNOWN_JOB")
        cell = await look(store)
        assert (len(cell.limbo), cell.nodes["node-1"].used) == (1, 1)
        assert not [message for message in node.heard if message["type"] == "job_assign"]
