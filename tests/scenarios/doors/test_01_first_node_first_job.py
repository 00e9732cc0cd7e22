"""A node joins, a caller submits, the result is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.house import Scheduler


async def test_over_http_alone(scheduler: Scheduler) -> None:
    registered = await scheduler.post(
        "/v1/node/register", {"node_id": "n1", "semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]]}
    )
    assert (registered["node_id"], registered["pools"], registered["warnings"]) == ("n1", ["en:zh"], [])
    placed = await scheduler.dispatch(payload={"words": "good morning"})
    attempt = {"job_id": placed["job_id"], "attempt_id": placed["attempt_id"], "node_id": "n1"}
    assert (placed["node_id"], placed["attempt_id"]) == ("n1", 1)
    assert await scheduler.post("/v1/job/ack", attempt) == {"ok": True, "state": "ACCEPTED"}
    assert await scheduler.post("/v1/job/started", attempt) == {"ok": True, "state": "RUNNING"}
    done = attempt | {"status": "ok", "result": {"text_translated": "早上好"}}
    assert (await scheduler.post("/v1/job/done", done))["state"] == "FINISHED"
    assert (await scheduler.post("/v1/job/done", done))["state"] == "FINISHED"
    job = await scheduler.ended(placed["job_id"])
    assert (job["state"], job["result"], job["node_id"]) == ("FINISHED", {"text_translated": "早上好"}, "n1")


async def test_with_a_node_of_the_field_and_a_web_client(scheduler: Scheduler) -> None:
    async with scheduler.node() as node, scheduler.client() as client:
        ack = await node.register()
        assert (ack["node_id"], ack["status"]) == ("node-1", "registering")
        assert sorted(ack["pools"]) == ["en:en", "en:zh", "zh:en", "zh:zh"]
        await client.init()
        await client.utter(0)
        job = await node.job()
        assert (job["src_lang"], job["tgt_lang"], job["session_id"]) == ("en", "zh", client.session_id)
        assert (job["audio_format"], job["sample_rate"], job["attempt_id"]) == ("pcm16", 16_000, 1)
        await node.result(job)
        result = await client.end_of(0)
        assert (result["text_asr"], result["text_translated"]) == ("heard 0", "said 0")
        assert (result["job_id"], result["event_id"]) == (job["job_id"], 1)
