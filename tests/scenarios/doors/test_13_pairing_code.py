"""A session that comes with a pairing code gets that node and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.house import Scheduler


async def test_all_its_utterances_go_to_the_paired_node(scheduler: Scheduler) -> None:
    async with scheduler.node("private") as mine, scheduler.node("other") as other, scheduler.client() as client:
        await mine.register(accept_public_jobs=False)
        await other.register()
        code = (await scheduler.post("/v1/nodes/private/pairing", {}))["pairing_code"]
        ack = await client.init(pairing_code=code)
        assert ack["assigned_node_id"] == "private"
        for index in range(4):
            await client.utter(index)
            await mine.result(await mine.job(utterance_index=index))
            assert (await client.end_of(index))["type"] == "translation_result"
        assert not [message for message in other.heard if message["type"] == "job_assign"]


async def test_a_wrong_code_opens_no_session(scheduler: Scheduler) -> None:
    async with scheduler.client() as client:
        said = {"client_version": "1", "platform": "web", "src_lang": "en", "tgt_lang": "zh"}
        await client.say("session_init", **said, pairing_code="000000")
        assert (await client.next("error"))["error"] == "INVALID_PAIRING_CODE"
