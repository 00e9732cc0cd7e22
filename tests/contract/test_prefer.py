"""Who submits a job and would rather wait is told in the same answer how it ended."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

from tests.support.house import House, eventually
from tests.support.servers import start_server

if TYPE_CHECKING:
    from pathlib import Path

    import httpx2

SAID = {"session_id": "room-888", "src_lang": "en", "tgt_lang": "zh"}
OURS = ("job_ack", "job_started", "job_stopped")


async def ask(house: House, wait: str = "wait=20", **said: Any) -> httpx2.Response:
    answer = await house.http.post("/v1/dispatch/f2f", json=SAID | said, headers={"prefer": wait})
    assert answer.status_code == 200, answer.text
    return answer


async def test_he_is_told_the_result(house: House) -> None:
    async with house.node("n1") as node:
        await node.register(features=OURS)
        asking = asyncio.create_task(ask(house, trace_id="t-1"))
        job = await node.job()
        await node.result(job, text_translated="你好", tts_audio=base64.b64encode(b"speech").decode())
        answer = await asking
        assert answer.headers["preference-applied"] == "wait"
        said = answer.json()
        result = {"text_asr": "heard 0", "text_translated": "你好", "tts_format": "pcm16"}
        assert said == {
            "job_id": job["job_id"],
            "node_id": "n1",
            "attempt_id": 1,
            "trace_id": "t-1",
            "state": "FINISHED",
            "result": result | {"tts_audio": base64.b64encode(b"speech").decode()},
        }
        assert (await house.get(f"/v1/job/{job['job_id']}"))["result"] == said["result"]


async def test_of_another_attempt_he_is_told_who_did_it(house: House) -> None:
    async with house.node("n1") as one, house.node("n2") as other:
        for node in (one, other):
            await node.register(features=OURS)
        asking = asyncio.create_task(ask(house, options={"preferred_node_id": "n1"}))
        job = await one.job()
        await one.result(job, success=False, error={"code": "BROKEN", "message": "broken"})
        await other.result(await other.job())
        said = (await asking).json()
        assert (said["node_id"], said["attempt_id"], said["state"]) == ("n2", 2, "FINISHED")


async def test_a_job_that_fails_is_told_with_its_reason(house: House) -> None:
    async with house.node("n1") as node:
        await node.register(features=OURS)
        asking = asyncio.create_task(ask(house))
        for _ in range(3):
            await node.result(await node.job(), success=False, error={"code": "BROKEN", "message": "broken"})
        said = (await asking).json()
        assert (said["state"], said["error"], said["attempt_id"]) == ("FAILED", "JOB_FAILED", 3)
        assert "broken" in said["reason"].lower()
        assert "result" not in said


async def test_one_who_polls_ends_it_too(house: House) -> None:
    await house.post("/v1/node/register", {"node_id": "n1", "semantic_langs": ["en", "zh"]})
    asking = asyncio.create_task(ask(house))
    (job,) = (await house.post("/v1/node/poll", {"node_id": "n1", "wait_ms": 10_000}))["jobs"]
    attempt = {"job_id": job["job_id"], "attempt_id": 1, "node_id": "n1"}
    await house.post("/v1/job/done", attempt | {"status": "ok", "result": {"text_translated": "hi"}})
    said = (await asking).json()
    assert (said["state"], said["result"]) == ("FINISHED", {"text_translated": "hi"})


async def test_what_takes_longer_is_answered_as_it_was_placed(house: House) -> None:
    async with house.node("n1") as node:
        await node.register(features=OURS)
        answer = await ask(house, "wait=1")
        job = await node.job()
        assert {*answer.json()} == {"job_id", "node_id", "attempt_id", "trace_id"}
        await node.result(job)
        assert (await house.ended(job["job_id"]))["state"] == "FINISHED"


async def test_who_prefers_something_else_is_answered_at_once(house: House) -> None:
    async with house.node("n1") as node:
        await node.register(features=OURS)
        answer = await ask(house, "respond-async")
        assert "preference-applied" not in answer.headers
        assert "state" not in answer.json()
        await node.result(await node.job())
        await house.ended(answer.json()["job_id"])


async def test_a_refusal_is_a_refusal(house: House) -> None:
    answer = await house.http.post("/v1/dispatch/f2f", json=SAID, headers={"prefer": "wait=20"})
    assert (answer.status_code, answer.json()["error"]) == (422, "NO_CAPABLE_NODE")


async def test_the_job_of_one_who_hangs_up_goes_on(house: House) -> None:
    async with house.node("n1") as node:
        await node.register(features=OURS)
        asking = asyncio.create_task(ask(house))
        job = await node.job()
        asking.cancel()

        async def nobody_waits() -> bool:
            return len(house.serving.desk.hearing._ends) == 0

        await eventually(nobody_waits)
        await node.result(job)
        assert (await house.ended(job["job_id"]))["state"] == "FINISHED"


async def test_a_job_that_was_placed_is_not_denied_because_the_engine_is_gone(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    try:
        async with House(server.url).open() as house, house.node("n1") as node:
            await node.register(features=OURS)
            asking = asyncio.create_task(ask(house))
            job = await node.job()

            async def somebody_waits() -> bool:
                return len(house.serving.desk.hearing._ends) == 1

            await eventually(somebody_waits)
            server.freeze()
            said = (await asking).json()
            server.thaw()
            assert (said["job_id"], said["node_id"], "state" in said) == (job["job_id"], "n1", False)
            await node.result(job)
            assert (await house.ended(job["job_id"]))["state"] == "FINISHED"
    finally:
        server.thaw()
        server.stop()
