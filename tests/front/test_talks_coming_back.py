"""Sessions that outlive their sockets: coming back, moving, restarts, an engine that is away or was emptied."""

from __future__ import annotations

import base64
import time
from contextlib import AsyncExitStack
from itertools import count
from typing import TYPE_CHECKING

import msgspec
import pytest

from lingua_scheduler.core.clock import wall_ms
from lingua_scheduler.flows.drop_session import drop_session
from tests.support.servers import start_server
from tests.support.talks import TENTH, client, keep, node, open_instance, outcomes, translate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.doors import Open
    from tests.support.servers import Server


@pytest.fixture
async def instance(server: Server) -> AsyncIterator[Open]:
    async with open_instance(server.url, sessions__gap_ms=500, sessions__pause_ms=300) as opened:
        yield opened


async def test_a_client_that_comes_back_gets_what_it_missed_once(instance: Open) -> None:
    async with node(instance, answer=keep) as n1:
        async with client(instance) as ann:
            await ann.begin()
            await ann.utter(0)
            await n1.result(await n1.job(), text_translated="meant 0")
            assert outcomes(await ann.answers(1)) == [(0, "meant 0")]
            await ann.utter(1)
            await ann.utter(2)
            jobs = [await n1.job(), await n1.job()]
        for job in jobs:
            await n1.result(job, **translate(job))
        async with client(instance) as again:
            ack = await again.begin(resume_token=ann.token, last_event_id=1)
            assert (ack["session_id"], ack["resume_token"]) == (ann.session_id, ann.token)
            answers = await again.answers(2)
            assert outcomes(answers) == [(1, "meant 1"), (2, "meant 2")]
            assert [answer["event_id"] for answer in answers] == [2, 3]
            await again.utter(3)
            await n1.result(await n1.job(), text_translated="meant 3")
            assert outcomes(await again.answers(1)) == [(3, "meant 3")]


async def test_a_session_that_goes_on_elsewhere_ends_here(server: Server, instance: Open) -> None:
    """Two instances over one engine: the second takes the session over by its token, and the first hangs up."""
    async with open_instance(server.url) as other:
        other.desk.engine.prefix = instance.desk.engine.prefix
        # Nobody tells it of the job's end here, so it looks.
        other.desk.sessions.rules = msgspec.structs.replace(other.desk.sessions.rules, look_ms=50)
        async with node(instance, answer=keep) as n1, client(instance) as ann, client(other) as moved:
            await ann.begin()
            await ann.utter(0)
            job = await n1.job()
            await moved.begin(resume_token=ann.token, last_event_id=0)
            assert moved.session_id == ann.session_id
            await ann.utter(1)
            assert await ann.closed() == 4409
            await n1.result(job, **translate(job))
            assert outcomes(await moved.answers(1)) == [(0, "meant 0")]


async def test_an_older_connection_is_told_that_it_was_replaced(instance: Open) -> None:
    async with client(instance) as ann, client(instance) as again:
        await ann.begin()
        await again.begin(resume_token=ann.token)
        assert await ann.closed() == 4409
        assert ann.heard[-1]["code"] == "SESSION_CLOSED"
        assert ann.heard[-1]["trace_id"] == ann.heard[0]["trace_id"]
        await again.say("client_heartbeat", session_id=ann.session_id, timestamp=1)
        await again.until("server_heartbeat")


@pytest.mark.parametrize("is_here", [True, False])
async def test_an_older_connection_that_is_heard_later_is_sent_away(
    server: Server, instance: Open, is_here: bool
) -> None:
    """It said so before, to an instance that slept. Who came later stays, wherever it came."""
    instance.desk.clock.local = count(wall_ms() - 60_000).__next__
    async with AsyncExitStack() as stack:
        other = instance
        if not is_here:
            other = await stack.enter_async_context(open_instance(server.url))
            other.desk.engine.prefix = instance.desk.engine.prefix
            other.desk.clock.local = instance.desk.clock.local
        async with client(instance) as ann, client(other) as older, client(instance) as newer:
            await ann.begin()
            await newer.begin(resume_token=ann.token)
            assert (await older.begin(resume_token=ann.token))["error"] == "SESSION_CLOSED"
            assert await older.closed() == 4409
            await newer.say("client_heartbeat", session_id=ann.session_id, timestamp=1)
            await newer.until("server_heartbeat")


@pytest.mark.parametrize("token", ["s-1.secret", "nonsense", "." * 20])
async def test_a_token_that_nobody_gave_opens_no_session(instance: Open, token: str) -> None:
    async with client(instance) as ann:
        assert (await ann.begin(resume_token=token))["error"] == "INVALID_SESSION"
        assert await ann.closed() == 4404
        assert len(ann.all("error")) == 1
        assert ann.heard[-1]["trace_id"]


async def test_a_restart_keeps_what_was_said(server: Server) -> None:
    """The instance stops in the middle of a job; its client finds the answer at the next one."""
    async with open_instance(server.url) as first:
        prefix = first.desk.engine.prefix
        async with node(first, answer=keep) as n1, client(first) as ann:
            await ann.begin()
            await ann.utter(0)
            job = await n1.job()
            await ann.shown("NODE_ACCEPTED")
            await first.door.close_sockets()
            assert await ann.closed() == 1012
            assert ann.heard[-1]["code"] == "SHUTTING_DOWN"
    async with open_instance(server.url) as second:
        second.desk.engine.prefix = prefix
        async with node(second, answer=keep) as n1, client(second) as again:
            await again.begin(resume_token=ann.token, last_event_id=0)
            await n1.result(job, **translate(job))
            assert outcomes(await again.answers(1)) == [(0, "meant 0")]


async def test_what_was_being_said_when_an_instance_stops_goes_on_elsewhere(server: Server) -> None:
    async with open_instance(server.url) as first:
        prefix = first.desk.engine.prefix
        async with client(first) as ann:
            await ann.begin()
            await ann.chunk(0, TENTH)
            await ann.shown("INPUT_STARTED")
            await first.desk.sessions.close()
            assert await ann.closed() == 1012
    async with open_instance(server.url) as second:
        second.desk.engine.prefix = prefix
        async with node(second, answer=keep) as n1, client(second) as again:
            assert (await again.begin(resume_token=ann.token, last_event_id=0))["heard_seq"] == 0
            await again.chunk(1, TENTH, is_final=True)
            job = await n1.job()
            assert base64.b64decode(job["audio"]) == TENTH * 2
            await n1.result(job, **translate(job))
            assert outcomes(await again.answers(1)) == [(0, "meant 0")]


async def test_a_session_belongs_to_whoever_began_it(server: Server) -> None:
    """A token in the first message; another's does not open the session, whatever resume token comes with it."""
    tokens = ["ann:aaaaaaaaaaaaaaaaaaaa", "bob:bbbbbbbbbbbbbbbbbbbb"]
    anns, bobs = (token.partition(":")[2] for token in tokens)
    async with open_instance(server.url, auth__session_tokens=tokens, auth__nodes="open") as instance:
        async with client(instance) as nobody:
            await nobody.say("session_init", src_lang="en", tgt_lang="zh")
            assert await nobody.closed() == 4401
        async with client(instance) as ann, client(instance) as bob:
            await ann.begin(token=anns)
            assert (await bob.begin(token=bobs, resume_token=ann.token))["error"] == "INVALID_SESSION"
            assert await bob.closed() == 4404
            await ann.say("client_heartbeat", session_id=ann.session_id)
            await ann.until("server_heartbeat")


async def test_an_engine_that_lost_everything_gets_the_sessions_again(instance: Open) -> None:
    engine = instance.desk.engine
    async with node(instance, answer=keep), client(instance) as ann:
        await ann.begin()
        await ann.utter(0)
        await ann.shown("NODE_ACCEPTED")
        keys, cursor = [], b"0"
        while True:
            cursor, page = await engine.command("SCAN", cursor, "MATCH", f"{engine.prefix}:*", "COUNT", 1000)
            keys += page
            if cursor == b"0":
                break
        await engine.command("UNLINK", *keys)
        instance.desk.sessions.reopen()
        assert outcomes(await ann.answers(1)) == [(0, "lost")]
        await ann.chunk(0, TENTH, is_final=True)
        assert outcomes(await ann.answers(1)) == [(1, "no_capable_node")]
    async with client(instance) as again:
        await again.begin(resume_token=ann.token, last_event_id=2)
        assert again.session_id == ann.session_id
        session = instance.desk.sessions.get(ann.session_id)
        assert session is not None
        await drop_session(engine, session.id, session.owner)


async def test_without_the_engine_nothing_is_accepted_and_it_goes_on_by_itself(tmp_path: Path) -> None:
    """Stopped, the engine answers nobody: every utterance is refused within a second, and ends when it is back."""
    server = start_server(tmp_path)
    try:
        async with open_instance(server.url) as instance, node(instance), client(instance) as ann:
            await ann.begin()
            await ann.utter(0)
            await ann.answers(1)
            server.freeze()
            try:
                for index in (1, 2):
                    await ann.utter(index)
                    began = time.monotonic()
                    assert (await ann.until("error"))["error"] == "SCHEDULER_DEPENDENCY_DOWN"
                    assert time.monotonic() - began < 2
                async with client(instance) as late:
                    await late.say("session_init", src_lang="en", tgt_lang="zh")
                    assert await late.closed() == 4503
                    assert late.heard[-1]["error"] == "SCHEDULER_DEPENDENCY_DOWN"
            finally:
                server.thaw()
            down = "scheduler_dependency_down"
            assert outcomes(await ann.answers(2)) == [(1, down), (2, down)]
            await ann.utter(3)
            assert outcomes(await ann.answers(1)) == [(3, "meant 3")]
    finally:
        server.stop()


async def test_nobody_hears_of_another_ones_session(instance: Open) -> None:
    async with client(instance) as ann, client(instance) as bob:
        await ann.begin()
        await bob.begin()
        await bob.say("client_heartbeat", session_id=ann.session_id)
        assert (await bob.until("error"))["error"] == "INVALID_SESSION"
        await bob.say("session_close")
        assert await bob.closed() == 1000
        await ann.say("client_heartbeat", session_id=ann.session_id)
        await ann.until("server_heartbeat")
