"""Nodes on real sockets: they register, work, fail, fall silent, come back."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.front.ask import Ask, Submitted
from lingua_scheduler.front.assignment import Assignment
from lingua_scheduler.front.delivery import Delivery
from lingua_scheduler.front.hearing import Hearing
from lingua_scheduler.front.nodes import socket as node_socket
from lingua_scheduler.front.nodes.links import Links
from lingua_scheduler.front.nodes.socket import serve_node
from lingua_scheduler.loops.reaper import Reaper
from lingua_scheduler.loops.relayer import Relayer
from lingua_scheduler.protocol.options import Pipeline
from lingua_scheduler.views.audio import Audio, read_audio
from lingua_scheduler.views.audit import audit_whole
from lingua_scheduler.views.job import Job
from lingua_scheduler.views.node import Node, read_node
from tests.support.doors import PATIENCE_S, open_door
from tests.support.nodes import Listeners
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from websockets.asyncio.client import ClientConnection

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.front.auth import Peer as Other
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.door import Door, Serve
    from lingua_scheduler.front.socket import Socket
    from tests.support.servers import Server

CELL: Final = "c0"
PLAIN: Final = Assignment(src_lang="en", tgt_lang="zh", pipeline=Pipeline())
TOKEN: Final = "node-token-0123456789"  # noqa: S105
#: A node of the field: it says nothing of acks, and is ready by its first beat.
FIELD: Final[dict[str, Any]] = {
    "version": "2.0",
    "capability_by_type": [{"type": "asr", "ready": True}, {"type": "semantic", "ready": True}],
    "language_capabilities": {
        "asr_languages": ["en", "zh"],
        "semantic_languages": ["en", "zh"],
        "tts_languages": ["en", "zh"],
    },
}
#: A node of ours: it says everything.
OURS: Final[dict[str, Any]] = {
    "semantic_langs": ["en", "zh"],
    "nmt_pairs": [["en", "zh"]],
    "max_concurrent_jobs": 2,
    "health": "ready",
    "advanced_features": ["job_ack", "job_started", "job_stopped"],
}


class Fleet:
    """A door for nodes, with everything behind it."""

    def __init__(self, desk: Desk, door: Door, url: str, listeners: Listeners) -> None:
        self.desk = desk
        self.door = door
        self.url = url
        self.listeners = listeners

    @asynccontextmanager
    async def node(self, node_id: str = "n1", **said: Any) -> AsyncIterator[Peer]:
        """A node that has registered."""
        async with connect(f"{self.url}/ws/node") as socket:
            peer = Peer(socket, node_id)
            await peer.say("node_register", **(said or OURS))
            welcome = await peer.hears("node_register_ack")
            peer.epoch = welcome["epoch"]
            yield peer

    async def put(self, node_id: str = "", **more: Any) -> str:
        ask = Ask("s1", "en", "zh", utterance_index=3, wanted=Wanted(preferred_node_id=node_id, wait_ms=1_000))
        submitted = await self.desk.delivery.place(ask, PLAIN, trace_id="t1", **more)
        assert isinstance(submitted, Submitted), submitted
        return submitted.job_id

    async def end_of(self, job_id: str) -> Job:
        job = await self.desk.hearing.wait_end(job_id, 5_000)
        assert isinstance(job, Job)
        assert job.record.ended_at_ms, job.record.state
        return job

    async def record(self, node_id: str = "n1") -> Node:
        node = await read_node(self.desk.engine, CELL, node_id)
        assert isinstance(node, Node), node
        return node


class Peer:
    """The node's end of its socket."""

    def __init__(self, socket: ClientConnection, node_id: str) -> None:
        self.socket = socket
        self.node_id = node_id
        self.epoch = ""

    async def say(self, kind: str, **said: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, "node_id": self.node_id} | said))

    async def about(self, kind: str, job: dict[str, Any], **said: Any) -> None:
        """Say something about an attempt that was assigned."""
        named = {name: job[name] for name in ("job_id", "attempt_id", "session_id", "trace_id")}
        await self.say(kind, **(named | said))

    async def hears(self, kind: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            message: dict[str, Any] = json.loads(await self.socket.recv())
        assert message["type"] == kind, message
        return message

    async def end(self) -> tuple[dict[str, Any], int]:
        """The last message, and what it was closed with."""
        said: dict[str, Any] = {}
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    said = json.loads(await self.socket.recv())
                except ConnectionClosed as closed:
                    return said, closed.rcvd.code if closed.rcvd else 0

    async def is_quiet(self) -> bool:
        """Whether nothing came before the answer to something harmless that is refused."""
        await self.say("job_ack", job_id="c0.nothing", attempt_id=1)
        return bool((await self.hears("error"))["code"] == "UNKNOWN_JOB")


@asynccontextmanager
async def opened(url: str, serve: Serve = serve_node, **flags: object) -> AsyncIterator[Fleet]:
    async with open_door(url, (), serve_node=serve, **({"server__drain_ms": 100} | flags)) as door:  # type: ignore[arg-type]
        desk, listeners = door.desk, Listeners()
        desk.links, desk.sessions = Links(), listeners  # type: ignore[assignment] # what they hear is all they need
        desk.delivery = Delivery(desk.engine, CELL, desk.links, desk.submitter, listeners)
        desk.hearing = Hearing(desk.engine, CELL, desk.links, desk.delivery, listeners)

        async def hear(event: Event) -> None:
            desk.submitter.hear(event)
            await desk.hearing.hear(event)

        async with Reaper(desk.engine, CELL, 50), Relayer(desk.engine, CELL, 10, hear):
            yield Fleet(desk, door.door, door.ws, listeners)
        await desk.delivery.close()
        assert await audit_whole(desk.engine, CELL, overdue_ms=60_000) == []


@pytest.fixture
async def fleet(server: Server) -> AsyncIterator[Fleet]:
    async with opened(server.url) as fleet:
        yield fleet


async def test_a_node_is_asked_to_beat_as_the_settings_say(server: Server) -> None:
    async with (
        opened(server.url, nodes__heartbeat_interval_ms=7_000) as fleet,
        connect(f"{fleet.url}/ws/node") as socket,
    ):
        node = Peer(socket, "n1")
        await node.say("node_register", **OURS)
        assert (await node.hears("node_register_ack"))["heartbeat_interval_ms"] == 7_000


class TestTheLifeOfAJob:
    async def test_a_field_node_registers_beats_and_works(self, fleet: Fleet) -> None:
        """It never acks: the write is its ack."""
        async with connect(f"{fleet.url}/ws/node") as socket:
            node = Peer(socket, "n1")
            await node.say("node_register", **FIELD)
            welcome = await node.hears("node_register_ack")
            assert (welcome["node_id"], welcome["status"], welcome["heartbeat_interval_ms"]) == (
                "n1",
                "registering",
                15_000,
            )
            assert welcome["pools"] == ["en:en", "en:zh", "zh:en", "zh:zh"]
            refusal = await fleet.desk.delivery.place(Ask("s1", "en", "zh"), PLAIN)
            assert isinstance(refusal, Refusal)
            assert refusal.breakdown is not None
            assert refusal.breakdown.not_ready == 1
            await node.say("node_heartbeat", resource_usage={"cpu_percent": 10, "mem_percent": 20, "running_jobs": 0})
            job_id = await fleet.put()
            job = await node.hears("job_assign")
            assert (job["job_id"], job["utterance_index"], job["trace_id"]) == (job_id, 3, "t1")
            assert [errand.job_id for errand in fleet.listeners.of("accepted")] == [job_id]
            await node.about("job_result", job, success=True, text_asr="hi", text_translated="嗨", extra={"a": [1]})
            ended = await fleet.end_of(job_id)
            assert ended.record.state == "FINISHED"
            assert json.loads(ended.result) == {"text_asr": "hi", "text_translated": "嗨", "extra": {"a": [1]}}
            assert len(fleet.desk.delivery.errands) == 0

    async def test_a_node_that_says_everything(self, fleet: Fleet) -> None:
        async with fleet.node() as node:
            job_id = await fleet.put()
            job = await node.hears("job_assign")
            assert fleet.listeners.of("accepted") == []
            await node.about("job_ack", job)
            await node.about("job_started", job)
            await node.about("job_result", job, success=True, text_asr="hi")
            ended = await fleet.end_of(job_id)
            assert ended.record.accepted_at_ms <= ended.record.started_at_ms <= ended.record.ended_at_ms
            assert ended.record.started_at_ms > 0
            assert [errand.job_id for errand in fleet.listeners.of("accepted")] == [job_id]
            assert await node.is_quiet()

    async def test_speech_is_kept_apart_from_the_result(self, fleet: Fleet) -> None:
        async with fleet.node() as node:
            job_id = await fleet.put()
            job = await node.hears("job_assign")
            speech = base64.b64encode(b"speech").decode()
            await node.about("job_result", job, success=True, tts_audio=speech, tts_format="pcm16")
            result = json.loads((await fleet.end_of(job_id)).result)
            assert result == {"tts_format": "pcm16", "tts_ref": f"{job_id}.1.tts"}
            kept = await read_audio(fleet.desk.engine, result["tts_ref"])
            assert isinstance(kept, Audio)
            assert (kept.audio, kept.media) == (b"speech", "pcm16")

    async def test_speech_that_is_none_is_a_failure(self, fleet: Fleet) -> None:
        async with fleet.node("n1") as one, fleet.node("n2") as other:
            await fleet.put("n1")
            job = await one.hears("job_assign")
            await one.about("job_result", job, success=True, tts_audio="?")
            error = await one.hears("error")
            assert (error["code"], error["trace_id"]) == ("INVALID_MESSAGE", "t1")
            assert (await other.hears("job_assign"))["attempt_id"] == 2

    async def test_a_failed_job_goes_to_the_next_node(self, fleet: Fleet) -> None:
        async with fleet.node("n1") as one, fleet.node("n2") as other:
            job_id = await fleet.put("n1")
            job = await one.hears("job_assign")
            error = {"code": "MODEL_NOT_AVAILABLE", "message": "gone", "details": {"service_type": "nmt"}}
            await one.about("job_result", job, success=False, error=error)
            again = await other.hears("job_assign")
            assert again == job | {"attempt_id": 2}
            assert list(fleet.desk.marker._seen) == [("n1", "", "nmt")]
            await other.about("job_result", again, success=True)
            (past,) = (await fleet.end_of(job_id)).record.past.attempts
            assert (past.cause, past.node) == ("failed", "n1")

    async def test_a_node_that_is_full_after_all_costs_no_try(self, fleet: Fleet) -> None:
        async with fleet.node("n1") as one, fleet.node("n2") as other:
            job_id = await fleet.put("n1")
            await one.about("job_nack", await one.hears("job_assign"), reason="NODE_OVERLOADED", retry_after_ms=100)
            await other.about("job_result", await other.hears("job_assign"), success=True)
            assert (await fleet.end_of(job_id)).record.past.tries == 0

    async def test_what_was_understood_so_far_is_heard_of_who_has_the_job(self, fleet: Fleet) -> None:
        async with fleet.node("n1") as one, fleet.node("n2") as other:
            job_id = await fleet.put("n1")
            job = await one.hears("job_assign")
            await other.say("asr_partial", job_id=job_id, text="nonsense")
            assert await other.is_quiet()
            await one.say("asr_partial", job_id=job_id, text="hel", is_final=False)
            assert await one.is_quiet()
            assert [what for what, _ in fleet.listeners.heard] == ["hel"]
            await one.about("job_result", job, success=True)
            await fleet.end_of(job_id)
            await one.say("asr_partial", job_id=job_id, text="late")
            assert await one.is_quiet()
            assert fleet.listeners.of("late") == []


class TestWhatIsRefused:
    async def test_a_late_result_is_refused_and_ends_the_limbo(self, fleet: Fleet) -> None:
        async with fleet.node() as node:
            job_id = await fleet.put()
            job = await node.hears("job_assign")
            await cancel(fleet.desk.engine, job_id, "nobody listens")
            stop = await node.hears("job_cancel")
            assert (stop["job_id"], stop["attempt_id"]) == (job_id, 1)
            assert (await fleet.record()).record.limbo == 1
            speech = base64.b64encode(b"late").decode()
            await node.about("job_result", job, success=True, text_asr="late", tts_audio=speech)
            error = await node.hears("error")
            assert (error["code"], error["trace_id"], error["retryable"]) == ("STALE_ATTEMPT", "t1", False)
            assert (await fleet.record()).record.used == 0
            assert isinstance(await read_audio(fleet.desk.engine, f"{job_id}.1.tts"), Refusal)

    async def test_a_repeated_result_is_taken_and_changes_nothing(self, fleet: Fleet) -> None:
        async with fleet.node() as node:
            job_id = await fleet.put()
            job = await node.hears("job_assign")
            await node.about("job_result", job, success=True, text_asr="first")
            await fleet.end_of(job_id)
            speech = base64.b64encode(b"late").decode()
            await node.about("job_result", job, success=True, text_asr="second", tts_audio=speech)
            assert await node.is_quiet()
            assert json.loads((await fleet.end_of(job_id)).result) == {"text_asr": "first"}
            assert isinstance(await read_audio(fleet.desk.engine, f"{job_id}.1.tts"), Refusal)

    async def test_nobody_speaks_for_another(self, fleet: Fleet) -> None:
        async with fleet.node("n1") as one, fleet.node("n2") as other:
            await fleet.put("n1")
            job = await one.hears("job_assign")
            await other.about("job_result", job, success=True)
            assert (await other.hears("error"))["code"] == "NODE_MISMATCH"
            await other.about("job_result", job, success=True, node_id="n1")
            assert (await other.hears("error"))["code"] == "NODE_MISMATCH"
            await other.say("node_heartbeat", node_id="n1", health="offline")
            assert (await other.hears("error"))["code"] == "FORBIDDEN"
            await one.about("job_result", job, success=True)
            assert (await fleet.end_of(job["job_id"])).record.state == "FINISHED"

    async def test_three_unreadable_ones_in_a_row_are_the_end(self, fleet: Fleet) -> None:
        async with fleet.node() as node:
            await node.say("what")
            assert (await node.hears("error"))["code"] == "INVALID_MESSAGE"
            await node.socket.send(b"\x01binary")
            assert (await node.hears("error"))["code"] == "INVALID_MESSAGE"
            await node.say("job_ack", job_id="{braces}", attempt_id=1)
            error, code = await node.end()
            assert (error["code"], code) == ("INVALID_MESSAGE", 4400)

    async def test_what_is_not_json_is_the_end(self, fleet: Fleet) -> None:
        async with fleet.node() as node:
            await node.socket.send("{")
            error, code = await node.end()
            assert (error["code"], code) == ("INVALID_MESSAGE", 1007)

    async def test_a_registration_that_cannot_be_right_may_be_mended(self, fleet: Fleet) -> None:
        async with connect(f"{fleet.url}/ws/node") as socket:
            node = Peer(socket, "n1")
            await node.say("node_register", **(OURS | {"semantic_langs": []}))
            error = await node.hears("error")
            assert (error["code"], len(error["trace_id"])) == ("INVALID_CAPABILITY_SCHEMA", 32)
            await node.say("node_heartbeat")
            assert (await node.hears("error"))["code"] == "INVALID_MESSAGE"
            await node.say("node_register", **OURS)
            assert (await node.hears("node_register_ack"))["status"] == "ready"

    async def test_who_does_not_register_in_time_is_sent_away(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(node_socket, "REGISTER_S", 0.1)
        async with connect(f"{fleet.url}/ws/node") as socket:
            error, code = await Peer(socket, "n1").end()
            assert (error["code"], code) == ("SESSION_CLOSED", 4408)


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
                assert len(error["trace_id"]) == 32
                await new.about("job_result", job, success=True)
                assert (await fleet.end_of(job_id)).record.attempt == 1
                node = await fleet.record()
                assert (node.record.away_until_ms, len(fleet.desk.links)) == (0, 1)

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

            def runs(script: Any, cell: str, item: Any) -> Any:
                order.append(script.name)
                if script.name == "done" and order.count("done") < 3:
                    raise DependencyDown("TEST", "away")
                return run(script, cell, item)

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
