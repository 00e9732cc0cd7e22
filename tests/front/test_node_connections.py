"""Nodes whose socket is replaced or breaks, whose instance stops, whose engine is away."""

from __future__ import annotations

import asyncio
import base64
import json
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from websockets.asyncio.client import connect

from lingua_scheduler.core.clock import wall_ms
from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.front.nodes.socket import serve_node
from lingua_scheduler.views.job import Job
from tests.support.doors import PATIENCE_S
from tests.support.fleet import FIELD, OURS, Fleet, Peer, opened
from tests.support.servers import start_server

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from lingua_scheduler.front.auth import Peer as Other
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.socket import Socket
    from tests.support.servers import Server

TOKEN: Final = "node-token-0123456789"  # noqa: S105


async def elsewhere(fleet: Fleet, **said: Any) -> Registered:
    """The same node registers at another instance."""
    plain: dict[str, Any] = {"semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]], "max_concurrent_jobs": 2}
    answer = await register(fleet.desk.engine, "c0", "n1", connection="elsewhere.0", **(plain | said))
    assert isinstance(answer, Registered), answer
    return answer


class TestConnections:
    async def test_a_newer_one_replaces_the_older_and_the_work_goes_on(self, fleet: Fleet) -> None:
        async with fleet.node() as old:
            job_id = await fleet.put()
            job = await old.hears("job_assign")
            await old.about("job_ack", job)
            async with fleet.node() as new:
                assert new.epoch == old.epoch
                error, code = await old.end()
                assert (error["code"], code) == ("SESSION_CLOSED", 4409)
                assert error["detail"] == "another connection speaks for node n1 now"
                assert len(error["trace_id"]) == 32
                await new.about("job_result", job, success=True)
                assert (await fleet.end_of(job_id)).record.attempt == 1
                node = await fleet.record()
                assert (node.record.away_until_ms, len(fleet.desk.links)) == (0, 1)

    async def test_an_older_one_that_is_heard_later_is_sent_away(self, fleet: Fleet) -> None:
        """It said so before, to somebody who slept."""
        fleet.desk.clock.local = count(wall_ms() - 60_000).__next__
        async with connect(f"{fleet.url}/ws/node") as socket, fleet.node() as newer:
            older = Peer(socket, "n1")
            await older.say("node_register", **OURS)
            error, code = await older.end()
            assert (error["code"], code) == ("SESSION_CLOSED", 4409)
            assert error["detail"] == "Another connection speaks for node n1 now; this one is over."
            assert len(error["trace_id"]) == 32
            await fleet.put()
            assert (await newer.hears("job_assign"))["attempt_id"] == 1
            assert (await fleet.record()).record.away_until_ms == 0

    async def test_what_one_says_that_was_replaced_elsewhere_changes_nothing(self, fleet: Fleet) -> None:
        async with fleet.node() as older:
            job_id = await fleet.put()
            job = await older.hears("job_assign")
            await elsewhere(fleet, epoch=older.epoch, running=[(job_id, 1)])
            # What it has done is done: it is the same process, and the same attempt.
            await older.about("job_result", job, success=True)
            await older.say("node_heartbeat", health="draining", semantic_langs=["fr"])
            assert (await older.end())[1] == 4409
            assert (await fleet.end_of(job_id)).record.state == "FINISHED"
            node = await fleet.record()
            assert (node.record.reported, node.pairs, node.profile.connection) == ("ready", ["en:zh"], "elsewhere.0")

    async def test_one_that_the_engine_has_fallen_back_to_is_replaced_again(self, fleet: Fleet) -> None:
        """A fail-over has forgotten the last registration: whoever holds the newer connection says it again."""
        async with fleet.node() as node:
            await leave(fleet.desk.engine, "c0", "n1")
            before = await elsewhere(fleet, opened_ms=1)
            await node.say("node_heartbeat", health="ready")
            assert (await node.hears("node_register_ack"))["epoch"] == before.epoch
            assert (await fleet.record()).profile.connection != "elsewhere.0"
            await fleet.put()
            await node.hears("job_assign")

    async def test_the_work_of_a_broken_one_goes_to_another_within_a_second(self, fleet: Fleet) -> None:
        clock = asyncio.get_running_loop().time
        async with fleet.node("n1") as one, fleet.node("n2") as other:
            await fleet.put("n1")
            await one.about("job_ack", await one.hears("job_assign"))
            assert await one.is_quiet()
            one.socket.transport.abort()
            broken_at = clock()
            assert (await other.hears("job_assign"))["attempt_id"] == 2
            assert clock() - broken_at < 1.0

    async def test_an_instance_that_stops_gives_its_nodes_time(self, fleet: Fleet) -> None:
        async with fleet.node() as node:
            job_id = await fleet.put()
            await node.about("job_ack", await node.hears("job_assign"))
            assert await node.is_quiet()
            fleet.desk.is_draining.set()
            await fleet.door.close_sockets()
            error, code = await node.end()
            assert (error["code"], code) == ("SHUTTING_DOWN", 1012)
            assert len(error["trace_id"]) == 32
            while (record := (await fleet.record()).record).away_until_ms == 0:
                pass
            assert record.away_until_ms - record.seen_at_ms > 9_000
            job = await fleet.desk.hearing.wait_end(job_id, 0)
            assert isinstance(job, Job)
            assert (job.record.state, job.record.attempt) == ("ACCEPTED", 1)

    async def test_it_may_register_again_on_the_same_one(self, fleet: Fleet) -> None:
        async with fleet.node() as node:
            job_id = await fleet.put()
            await node.about("job_ack", await node.hears("job_assign"))
            running = [{"job_id": job_id, "attempt_id": 1}, {"job_id": "c0.stranger", "attempt_id": 1}]
            await node.say("node_register", **OURS, epoch=node.epoch, running=running)
            assert (await node.hears("node_register_ack"))["epoch"] == node.epoch
            assert (await node.hears("job_cancel"))["job_id"] == "c0.stranger"
            assert (await fleet.record()).record.used == 2

    async def test_what_it_said_before_that_is_heard_before(self, fleet: Fleet) -> None:
        """It does not run any more what it has just brought the result of."""
        async with fleet.node() as node:
            job_id = await fleet.put()
            job = await node.hears("job_assign")
            await node.about("job_ack", job)
            speech = base64.b64encode(b"speech").decode()
            await node.about("job_result", job, success=True, tts_audio=speech)
            await node.say("node_register", **OURS, epoch=node.epoch, running=[])
            await node.hears("node_register_ack")
            ended = await fleet.end_of(job_id)
            assert (ended.record.state, ended.record.past.attempts) == ("FINISHED", [])

    async def test_nobody_leaves_before_the_last_words_are_heard(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        order: list[str] = []
        over = asyncio.Event()

        async def serve(desk: Desk, socket: Socket, peer: Other) -> None:
            await serve_node(desk, socket, peer)
            order.append("over")
            over.set()

        async with opened(server.url, serve) as fleet:
            run = fleet.desk.engine.run

            def runs(script: Any, *more: Any) -> Any:
                order.append(script.name)
                if script.name == "done" and order.count("done") < 3:
                    raise DependencyDown("TEST", "away")
                return run(script, *more)

            async with fleet.node() as node:
                await fleet.put()
                job = await node.hears("job_assign")
                monkeypatch.setattr(fleet.desk.engine, "run", runs)
                await node.about("job_result", job, success=True)
            async with asyncio.timeout(PATIENCE_S):
                await over.wait()
            assert (order.count("disconnect"), order.count("done")) == (1, 3)

    async def test_a_token_may_come_in_the_first_message(self, server: Server) -> None:
        async with opened(server.url, auth__node_tokens=f"fleet:{TOKEN}") as fleet:
            async with connect(f"{fleet.url}/ws/node") as socket:
                await Peer(socket, "n1").say("node_register", **OURS, token="wrong-token-0123456789")  # noqa: S106
                error, code = await Peer(socket, "n1").end()
                assert (error["code"], code) == ("UNAUTHENTICATED", 4401)
            async with connect(f"{fleet.url}/ws/node") as socket:
                await Peer(socket, "n1").say("node_register", **OURS, token=TOKEN)
                await Peer(socket, "n1").hears("node_register_ack")
                assert (await fleet.record()).profile.credential == "fleet"


class TestAnEngineThatIsAway:
    async def test_a_result_is_not_lost(self, tmp_path: Path) -> None:
        own = start_server(tmp_path)
        try:
            async with opened(own.url) as fleet, fleet.node(**FIELD) as node:
                await node.say("node_heartbeat")
                job_id = await fleet.put()
                job = await node.hears("job_assign")
                own.freeze()
                await node.say("node_heartbeat")
                await node.about("job_result", job, success=True, text_asr="kept")
                assert (await node.hears("error"))["code"] in {"SCHEDULER_DEPENDENCY_DOWN", "OUTCOME_UNKNOWN"}
                own.thaw()
                assert json.loads((await fleet.end_of(job_id)).result) == {"text_asr": "kept"}
                assert await node.is_quiet()
        finally:
            own.thaw()
            own.stop()

    async def test_one_that_came_back_empty_learns_of_its_nodes_by_their_next_beat(self, tmp_path: Path) -> None:
        own = start_server(tmp_path)
        try:
            async with opened(own.url) as fleet, fleet.node(**FIELD) as node:
                await node.say("node_heartbeat")
                assert await node.is_quiet()
                await fleet.desk.engine.command("FLUSHALL")
                await node.say("node_heartbeat")
                welcome = await node.hears("node_register_ack")
                assert welcome["status"] == "ready"
                job_id = await fleet.put()
                await node.about("job_result", await node.hears("job_assign"), success=True)
                assert (await fleet.end_of(job_id)).record.state == "FINISHED"
        finally:
            own.stop()

    async def test_nobody_can_register_with_one_that_is_gone(self, tmp_path: Path) -> None:
        own = start_server(tmp_path)
        try:
            async with opened(own.url) as fleet:
                own.freeze()
                async with connect(f"{fleet.url}/ws/node") as socket:
                    await Peer(socket, "n1").say("node_register", **OURS)
                    error, code = await Peer(socket, "n1").end()
                    assert (error["code"], code) == ("SCHEDULER_DEPENDENCY_DOWN", 4503)
                own.thaw()
        finally:
            own.thaw()
            own.stop()
