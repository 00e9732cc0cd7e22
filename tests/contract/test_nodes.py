"""`/v1/node/…`, to the letter."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.doors import Raw
from tests.support.house import House

if TYPE_CHECKING:
    from tests.support.servers import Server

#: A node that is silent for a second is stale, and nobody waits long to find out.
IMPATIENT: dict[str, Any] = {"nodes.socket_beat_ms": 100, "nodes.stale_ms": 1_000, "nodes.offline_ms": 60_000}

NODE: dict[str, Any] = {
    "node_id": "node-123",
    "health": "ready",
    "semantic_langs": ["en", "zh"],
    "asr_langs": ["en", "zh"],
    "nmt_pairs": [["en", "zh"], ["zh", "en"]],
    "tts_langs": ["en", "zh"],
    "max_concurrent_jobs": 2,
    "services": {"asr": True, "nmt": True, "tts": True, "semantic": True, "tone": False},
    "labels": {"region": "eu"},
    "epoch": None,
    "process_id": None,
    "running": [],
}


class TestRegister:
    async def test_all_that_can_be_said(self, house: House) -> None:
        answer = await house.post("/v1/node/register", NODE)
        epoch = answer.pop("epoch")
        assert epoch
        assert answer == {
            "ok": True,
            "node_id": "node-123",
            "cell": "c0",
            "health": "ready",
            "heartbeat_interval_ms": 15_000,
            "node_secret": None,
            "pools": ["en:zh", "zh:en"],
            "warnings": [],
        }
        node = await house.get("/v1/nodes/node-123")
        assert (node["max"], node["labels"], node["epoch"]) == (2, {"region": "eu"}, epoch)

    async def test_as_little_as_possible(self, house: House) -> None:
        answer = await house.post("/v1/node/register", {"semantic_langs": ["en", "zh"]})
        assert answer["node_id"].startswith("node-")
        assert sorted(answer["pools"]) == ["en:en", "en:zh", "zh:en", "zh:zh"]
        assert (await house.get(f"/v1/nodes/{answer['node_id']}"))["max"] == 4

    async def test_unknown_fields_and_nulls_are_no_fault(self, house: House) -> None:
        said = dict.fromkeys(NODE) | {"semantic_langs": ["en"], "node_id": "n1", "shoe_size": 43}
        assert (await house.post("/v1/node/register", said))["ok"]

    @pytest.mark.parametrize(
        ("said", "code", "words"),
        [
            ({"semantic_langs": None}, "INVALID_CAPABILITY_SCHEMA", "semantic"),
            ({"semantic_langs": []}, "INVALID_CAPABILITY_SCHEMA", "semantic"),
            ({"semantic_langs": ["klingonese"]}, "INVALID_MESSAGE", "klingonese"),
            ({"node_id": "a{b}"}, "INVALID_MESSAGE", "node_id"),
            ({"node_id": "x" * 129}, "INVALID_MESSAGE", "node_id"),
            ({"max_concurrent_jobs": 0}, "INVALID_MESSAGE", "max_concurrent_jobs"),
            ({"max_concurrent_jobs": 1025}, "INVALID_MESSAGE", "max_concurrent_jobs"),
            ({"health": "fine"}, "INVALID_MESSAGE", "health"),
            ({"nmt_pairs": [["en"]]}, "INVALID_MESSAGE", "nmt_pairs"),
        ],
    )
    async def test_what_cannot_be_right_names_the_field(
        self, house: House, said: dict[str, Any], code: str, words: str
    ) -> None:
        refused = await house.post("/v1/node/register", NODE | said, 400)
        assert (refused["error"], refused["retryable"]) == (code, False)
        assert words in refused["detail"]
        assert (await house.get("/v1/nodes"))["nodes"] == []

    async def test_a_node_without_a_pool_is_told_what_is_missing(self, house: House) -> None:
        answer = await house.post("/v1/node/register", NODE | {"nmt_pairs": []})
        assert answer["pools"] == []
        assert "nmt_pairs" in answer["warnings"][0]

    async def test_one_without_a_service_keeps_its_pools_and_is_counted(self, house: House) -> None:
        answer = await house.post("/v1/node/register", NODE | {"services": {"semantic": False}})
        assert (answer["pools"], answer["warnings"]) == (["en:zh", "zh:en"], [])
        await house.post("/v1/node/register", NODE | {"node_id": "n2", "health": "draining"})
        breakdown = (await house.dispatch(status=503))["breakdown"]
        assert (breakdown["pool"], breakdown["no_service"], breakdown["not_ready"]) == (2, 1, 1)

    async def test_the_same_epoch_goes_on(self, house: House) -> None:
        first = await house.post("/v1/node/register", NODE)
        placed = await house.dispatch()
        running = [{"job_id": placed["job_id"], "attempt_id": 1}]
        again = await house.post("/v1/node/register", NODE | {"epoch": first["epoch"], "running": running})
        assert again["epoch"] == first["epoch"]
        attempt = {"job_id": placed["job_id"], "attempt_id": 1, "node_id": "node-123"}
        assert (await house.post("/v1/job/done", attempt | {"status": "ok"}))["state"] == "FINISHED"


class TestHeartbeat:
    async def test_what_is_left_out_keeps_its_value(self, house: House) -> None:
        epoch = (await house.post("/v1/node/register", NODE))["epoch"]
        answer = await house.post(
            "/v1/node/heartbeat", {"node_id": "node-123", "current_load": {"gpu": 0.5}, "max_concurrent_jobs": 3}
        )
        assert answer == {"ok": True, "epoch": epoch, "cancel": []}
        node = await house.get("/v1/nodes/node-123")
        assert (node["max"], node["current_load"], node["tts_langs"]) == (3, {"gpu": 0.5}, ["en", "zh"])

    async def test_it_names_what_must_be_stopped(self, house: House) -> None:
        await house.post("/v1/node/register", NODE)
        stranger = {"job_id": "c0.nobody", "attempt_id": 3}
        for name in ("running", "running_jobs"):
            answer = await house.post("/v1/node/heartbeat", {"node_id": "node-123", name: [stranger]})
            assert answer["cancel"] == [stranger]

    async def test_a_stranger_is_told_to_register(self, house: House) -> None:
        refused = await house.post("/v1/node/heartbeat", {"node_id": "n9"}, 404)
        assert (refused["error"], refused["retryable"]) == ("UNKNOWN_NODE", False)

    async def test_a_wrong_epoch_is_stale(self, house: House) -> None:
        await house.post("/v1/node/register", NODE)
        refused = await house.post("/v1/node/heartbeat", {"node_id": "node-123", "epoch": "9-x"}, 409)
        assert refused["error"] == "STALE_ATTEMPT"

    async def test_it_cannot_undo_a_drain(self, house: House) -> None:
        await house.post("/v1/node/register", NODE)
        assert await house.post("/v1/nodes/node-123/drain", {}) == {
            "ok": True,
            "node_id": "node-123",
            "intent": "draining",
        }
        await house.post("/v1/node/heartbeat", {"node_id": "node-123", "health": "ready"})
        assert (await house.get("/v1/nodes/node-123"))["standing"] == "draining"
        await house.post("/v1/nodes/node-123/resume", {})
        assert (await house.get("/v1/nodes/node-123"))["standing"] == "available"


class TestPoll:
    async def test_the_assignment_is_whole(self, house: House) -> None:
        await house.post("/v1/node/register", NODE)
        placed = await house.dispatch(payload={"a": [1]}, utterance_index=7, trace_id="t-1")
        (job,) = (await house.post("/v1/node/poll", {"node_id": "node-123"}))["jobs"]
        assert job.pop("deadline_ms") > 0
        assert job == {
            "type": "job_assign",
            "job_id": placed["job_id"],
            "attempt_id": 1,
            "session_id": "room-888",
            "utterance_index": 7,
            "src_lang": "en",
            "tgt_lang": "zh",
            "dialect": None,
            "pipeline": {"use_asr": True, "use_nmt": True, "use_tts": False, "use_semantic": True, "use_tone": False},
            "audio": "",
            "audio_format": "pcm16",
            "sample_rate": 16_000,
            "trace_id": "t-1",
            "is_manual_cut": False,
            "is_timeout_triggered": False,
            "is_max_duration_triggered": False,
            "audio_ref": "blob://1",
            "payload": {"a": [1]},
        }

    async def test_it_is_a_sign_of_life_and_waits(self, house: House) -> None:
        await house.post("/v1/node/register", NODE)
        polling = asyncio.create_task(house.post("/v1/node/poll", {"node_id": "node-123", "wait_ms": 15_000}))
        placed = await house.dispatch()
        assert [job["job_id"] for job in (await polling)["jobs"]] == [placed["job_id"]]
        assert await house.post("/v1/node/poll", {"node_id": "node-123", "wait_ms": 50}) == {"jobs": []}

    async def test_it_is_a_sign_of_life_for_as_long_as_it_is_open(self, server: Server) -> None:
        async with House(server.url, **IMPATIENT).open() as house:
            await house.post("/v1/node/register", NODE)
            began = (await house.get("/v1/nodes/node-123"))["seen_at_ms"]
            poll = {"node_id": "node-123", "wait_ms": 15_000}
            polling = asyncio.create_task(house.post("/v1/node/poll", poll))
            async with asyncio.timeout(10):
                while (node := await house.get("/v1/nodes/node-123"))["seen_at_ms"] <= began + 1_500:
                    assert node["standing"] == "available"
            placed = await house.dispatch()
            assert [job["job_id"] for job in (await polling)["jobs"]] == [placed["job_id"]]

    async def test_of_a_node_that_hung_up_it_is_none(self, server: Server) -> None:
        async with House(server.url, **IMPATIENT).open() as house:
            await house.post("/v1/node/register", NODE)
            poll = b'{"node_id": "node-123", "wait_ms": 15000}'
            async with Raw.connect(house.port) as raw:
                head = f"POST /v1/node/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(poll)}\r\n\r\n"
                await raw.write(head.encode() + poll)
                seen = (await house.get("/v1/nodes/node-123"))["seen_at_ms"]
                async with asyncio.timeout(5):
                    while (await house.get("/v1/nodes/node-123"))["seen_at_ms"] <= seen:
                        pass
            async with asyncio.timeout(5):
                while (await house.get("/v1/nodes/node-123"))["standing"] != "stale":
                    pass

    async def test_refusals(self, house: House) -> None:
        assert (await house.post("/v1/node/poll", {"node_id": "n9"}, 404))["error"] == "UNKNOWN_NODE"
        assert (await house.post("/v1/node/poll", {}, 400))["detail"] == "node_id: missing"


class TestTwoHands:
    """Whoever registered last speaks for the node, by whichever door he came."""

    async def test_a_registration_over_http_takes_the_place_of_an_open_socket(self, house: House) -> None:
        async with house.node("node-123") as node:
            await node.register()
            placed = await house.dispatch()
            assert (await node.job())["attempt_id"] == 1
            await house.post("/v1/node/register", NODE | {"running": None})
            assert (await node.gone())[0] == 4409
        second = await house.dispatch()
        (found,) = (await house.post("/v1/node/poll", {"node_id": "node-123"}))["jobs"]
        assert (found["job_id"], found["attempt_id"]) == (second["job_id"], 1)
        assert [message for message in node.heard if message["type"] == "job_assign"] == []
        for job_id in (placed["job_id"], second["job_id"]):
            done = {"job_id": job_id, "attempt_id": 1, "node_id": "node-123", "status": "ok"}
            assert (await house.post("/v1/job/done", done))["state"] == "FINISHED"

    async def test_one_that_is_refused_replaces_nobody(self, house: House) -> None:
        async with house.node("node-123") as node:
            await node.register()
            await house.post("/v1/node/register", NODE | {"semantic_langs": []}, 400)
            placed = await house.dispatch()
            await node.result(await node.job())
            assert (await house.ended(placed["job_id"]))["state"] == "FINISHED"

    async def test_a_node_on_a_socket_has_no_mailbox(self, house: House) -> None:
        await house.post("/v1/node/register", NODE)
        poll = {"node_id": "node-123", "wait_ms": 15_000}
        polling = asyncio.create_task(house.post("/v1/node/poll", poll, 409))
        async with house.node("node-123") as node:
            await node.register(features=("job_ack",))
            placed = await house.dispatch()
            job = await node.job()
            await node.say("job_ack", job_id=job["job_id"], attempt_id=1, node_id="node-123")
            for refused in (await polling, await house.post("/v1/node/poll", poll, 409)):
                assert (refused["error"], refused["retryable"]) == ("STALE_ATTEMPT", False)
                assert "register over HTTP" in refused["detail"]
            await node.result(job)
            assert (await house.ended(placed["job_id"]))["state"] == "FINISHED"


async def test_offline_takes_it_out_of_its_pools_at_once(house: House) -> None:
    await house.post("/v1/node/register", NODE)
    placed = await house.dispatch()
    assert await house.post("/v1/node/offline", {"node_id": "node-123"}) == {"ok": True}
    assert (await house.dispatch(status=422))["error"] == "NO_CAPABLE_NODE"
    assert (await house.get(f"/v1/job/{placed['job_id']}"))["state"] == "RETRYING"
    assert (await house.post("/v1/node/offline", {"node_id": "node-123"}, 404))["error"] == "UNKNOWN_NODE"
    await house.post("/v1/job/cancel", {"job_id": placed["job_id"]})
