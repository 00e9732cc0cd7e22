"""Nodes on real sockets: they register, work and fail, and what is refused."""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import connect
from websockets.frames import Frame, Opcode

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.front.ask import Ask
from lingua_scheduler.front.nodes import socket as node_socket
from lingua_scheduler.views.audio import Audio, read_audio
from tests.support.fleet import FIELD, OURS, PLAIN, Fleet, Peer, opened

if TYPE_CHECKING:
    import pytest

    from lingua_scheduler.store.scripts import Script
    from tests.support.servers import Server


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
            await node.about("job_result", job, success=True, text_asr="hi", text_translated="嗨", extra={"a": [1]})
            ended = await fleet.end_of(job_id)
            assert [errand.job_id for errand in fleet.listeners.of("accepted")] == [job_id]
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

    async def test_a_node_that_is_done_in_the_same_breath_needs_no_ack(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run, told = fleet.desk.engine.run, Counter[str]()

        def runs(script: Script, *more: Any) -> Any:
            told[script.name] += 1
            return run(script, *more)

        async with fleet.node() as node:
            monkeypatch.setattr(fleet.desk.engine, "run", runs)
            job_id = await fleet.put()
            job = await node.hears("job_assign")
            named = {name: job[name] for name in ("job_id", "attempt_id", "session_id", "trace_id")}
            messages = [named | {"type": "job_ack"}, named | {"type": "job_result", "success": True, "text_asr": "hi"}]
            frames = [Frame(Opcode.TEXT, json.dumps(one).encode()).serialize(mask=True) for one in messages]
            node.socket.transport.write(b"".join(frames))
            assert json.loads((await fleet.end_of(job_id)).result) == {"text_asr": "hi"}
            assert [errand.job_id for errand in fleet.listeners.of("accepted")] == [job_id]
            assert (told["ack"], told["deliver"], told["done"]) == (0, 0, 1)

    async def test_nobody_hears_that_a_job_was_accepted_by_a_word_of_another_attempt(self, fleet: Fleet) -> None:
        async with fleet.node() as node:
            job_id = await fleet.put()
            job = await node.hears("job_assign")
            named = {name: job[name] for name in ("job_id", "session_id", "trace_id")} | {"attempt_id": 2}
            messages = [named | {"type": "job_ack"}, named | {"type": "job_result", "success": True}]
            frames = [Frame(Opcode.TEXT, json.dumps(one).encode()).serialize(mask=True) for one in messages]
            node.socket.transport.write(b"".join(frames))
            assert [(await node.hears("error"))["error"] for _ in messages] == ["NODE_MISMATCH"] * 2
            assert fleet.listeners.of("accepted") == []
            await node.about("job_result", job, success=True)
            await fleet.end_of(job_id)

    async def test_a_node_that_works_in_the_same_breath_is_heard_to_have_acknowledged(self, fleet: Fleet) -> None:
        async with fleet.node() as node:
            job_id = await fleet.put()
            job = await node.hears("job_assign")
            named = {name: job[name] for name in ("job_id", "attempt_id", "session_id", "trace_id")}
            frames = [
                Frame(Opcode.TEXT, json.dumps(named | {"type": kind}).encode()).serialize(mask=True)
                for kind in ("job_ack", "job_started")
            ]
            node.socket.transport.write(b"".join(frames))
            await node.about("job_result", job, success=True)
            ended = await fleet.end_of(job_id)
            assert ended.record.accepted_at_ms > 0
            assert ended.record.started_at_ms > 0

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
            link = fleet.desk.links.get("n1")
            assert link is not None
            assert list(fleet.desk.marker._seen) == [("n1", "", "nmt", link.known.connection)]
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
