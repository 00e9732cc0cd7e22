"""A session that was closed is over when its client has closed, too: until then what it was told can be told again."""

from __future__ import annotations

import asyncio
import socket as sockets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from websockets.asyncio.client import connect

from lingua_scheduler.front import socket
from tests.support.doors import PATIENCE_S
from tests.support.proxy import Proxy
from tests.support.talks import Client, client, eventually, job_of, keep, node, open_instance, outcomes, translate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.doors import Open
    from tests.support.servers import Server


@pytest.fixture
async def instance(server: Server) -> AsyncIterator[Open]:
    async with open_instance(server.url) as opened:
        yield opened


@asynccontextmanager
async def through(network: Proxy) -> AsyncIterator[Client]:
    """Somebody who speaks over a network that can fail."""
    url = f"ws://127.0.0.1:{network.port}/ws/session"
    async with connect(url, compression=None, ping_interval=None) as wire:
        yield Client(wire)


async def is_gone(instance: Open, session_id: str) -> None:
    """Until nothing is known of a session."""
    async with asyncio.timeout(PATIENCE_S):
        while instance.desk.sessions.get(session_id) is not None:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)


async def is_away(instance: Open, session_id: str) -> None:
    """Until it is known that its client is."""
    session = instance.desk.sessions.get(session_id)
    assert session is not None
    async with asyncio.timeout(PATIENCE_S):
        while session.connection is not None:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)


def keep_little(instance: Open, network: Proxy) -> None:
    """What nobody reads is kept by the scheduler, and not by the machine."""
    served = [one.transport for one in instance.server._server.server_state.connections]
    for transport in [*served, *(link.server.transport for link in network.links)]:
        for side in (sockets.SO_SNDBUF, sockets.SO_RCVBUF):
            transport.get_extra_info("socket").setsockopt(sockets.SOL_SOCKET, side, 65_536)


async def ack_waits(instance: Open, session_id: str) -> None:
    """Until all is said to a client that does not read."""
    session = instance.desk.sessions.get(session_id)
    assert session is not None
    assert session.connection is not None
    queue = session.connection._socket._queue
    async with asyncio.timeout(PATIENCE_S):
        while not (queue and "session_close_ack" in str(queue[-1][0][:40])):  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0)


def at_length(job: dict[str, Any]) -> dict[str, Any]:
    """What a node says that says much."""
    return translate(job) | {"text_translated": "x" * 500_000}


@asynccontextmanager
async def unheard(instance: Open) -> AsyncIterator[tuple[Client, dict[str, Any]]]:
    """A client whose session says that it has everything, and never hears that the client says so, too; and its job."""
    async with Proxy(instance.port) as network, node(instance, answer=keep) as n1, through(network) as ann:
        await ann.begin()
        await ann.utter(0)
        job = await n1.job()
        await ann.say("session_close")
        await ann.utter(1)
        assert (await ann.until("error"))["error"] == "SESSION_CLOSED"
        lost = network.arm("black_hole", "up", 0)
        await n1.result(job, **translate(job))
        await ann.until("session_close_ack")
        await asyncio.wait_for(lost.struck.wait(), PATIENCE_S)
        yield ann, job
        network.heal()


async def test_what_a_client_may_not_have_read_is_told_again(instance: Open) -> None:
    """Here; and when it has closed, nothing is left."""
    async with unheard(instance) as (ann, job):
        pass
    await is_away(instance, ann.session_id)
    async with client(instance) as again:
        await again.begin(resume_token=ann.token, last_event_id=0)
        assert await again.closed() == 1000
    assert [one["type"] for one in again.heard][1:] == ["translation_result", "session_close_ack"]
    await is_gone(instance, ann.session_id)
    assert (await eventually(instance, job["job_id"])).result == ""
    async with client(instance) as late:
        assert (await late.begin(resume_token=ann.token))["error"] == "INVALID_SESSION"


async def test_it_is_told_again_while_the_scheduler_still_waits_for_the_first_close(instance: Open) -> None:
    async with unheard(instance) as (ann, _), client(instance) as again:
        session = instance.desk.sessions.get(ann.session_id)
        assert session is not None
        assert session.connection is not None
        await again.begin(resume_token=ann.token, last_event_id=0)
        assert await again.closed() == 1000
        assert [one["type"] for one in again.heard][1:] == ["translation_result", "session_close_ack"]
        await is_gone(instance, ann.session_id)


async def test_what_was_confirmed_is_not_told_again_but_that_it_was_all(instance: Open) -> None:
    async with unheard(instance) as (ann, _):
        pass
    await is_away(instance, ann.session_id)
    async with client(instance) as again:
        await again.begin(resume_token=ann.token, last_event_id=1)
        assert await again.closed() == 1000
    assert [one["type"] for one in again.heard][1:] == ["session_close_ack"]


async def test_it_is_told_again_elsewhere_and_nothing_more_is_heard_there(server: Server, instance: Open) -> None:
    async with unheard(instance) as (ann, _):
        pass
    await is_away(instance, ann.session_id)
    await instance.desk.sessions.close()
    async with open_instance(server.url) as other:
        other.desk.engine.prefix = instance.desk.engine.prefix
        async with client(other) as again:
            await again.begin(resume_token=ann.token, last_event_id=0)
            assert await again.closed() == 1000
        assert outcomes(again.all("translation_result")) == [(0, "meant 0")]
        assert again.heard[-1]["type"] == "session_close_ack"
        await is_gone(other, ann.session_id)


async def test_one_who_reads_slowly_gets_everything_before_the_close(
    instance: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes, though a socket that closes waits only for a moment."""
    monkeypatch.setattr(socket, "_LINGER_S", 0)
    async with Proxy(instance.port) as network, node(instance, slots=16, answer=at_length), through(network) as ann:
        await ann.begin()
        keep_little(instance, network)
        stalled = network.arm("stall", "down", 0)
        for index in range(6):
            await ann.utter(index)
        await ann.say("session_close")
        await ack_waits(instance, ann.session_id)
        stalled.release()
        assert len(await ann.answers(6)) == 6
        assert await ann.closed() == 1000
        assert ann.heard[-1]["type"] == "session_close_ack"


async def test_one_who_does_not_come_back_leaves_nothing_when_its_window_is_over(server: Server) -> None:
    async with open_instance(server.url, sessions__resume_window_ms=1_000) as instance:
        async with unheard(instance) as (ann, job):
            assert (await job_of(instance, job["job_id"])).result
        await is_gone(instance, ann.session_id)
        assert (await eventually(instance, job["job_id"])).result == ""


async def test_a_session_that_is_closed_while_its_jobs_run_closes_elsewhere_too(server: Server) -> None:
    """Its client need not say it again."""
    async with open_instance(server.url) as first:
        prefix = first.desk.engine.prefix
        async with node(first, answer=keep) as n1, client(first) as ann:
            await ann.begin()
            await ann.utter(0)
            job = await n1.job()
            await ann.say("session_close")
            await ann.utter(1)
            assert (await ann.until("error"))["error"] == "SESSION_CLOSED"
            await first.desk.sessions.close()
            assert await ann.closed() == 1012
    async with open_instance(server.url) as second:
        second.desk.engine.prefix = prefix
        async with node(second, answer=keep) as n1, client(second) as again:
            await again.begin(resume_token=ann.token, last_event_id=0)
            await n1.result(job, **translate(job))
            assert await again.closed() == 1000
        assert outcomes(again.all("translation_result")) == [(0, "meant 0")]
        assert again.heard[-1]["type"] == "session_close_ack"
