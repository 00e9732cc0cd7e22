"""A client that does not read loses partials first, and never a result."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.house import Scheduler

#: Enough to fill every buffer between us several times.
UTTERANCES = 24
SPOKEN = base64.b64encode(bytes(600_000)).decode()


async def test_every_result_is_there_when_it_reads_again(scheduler: Scheduler) -> None:
    async with scheduler.node() as node, scheduler.client() as slow, scheduler.client() as other:
        await node.register(slots=64)
        await slow.init()
        await other.init()
        slow.stop_reading()
        for index in range(UTTERANCES):
            await slow.utter(index)
            job = await node.job(session_id=slow.session_id)
            for part in range(20):
                about = {"job_id": job["job_id"], "node_id": node.node_id, "session_id": job["session_id"]}
                text = f"part {part} " + "word " * 200
                await node.say("asr_partial", **about, utterance_index=index, text=text, is_final=False)
            await node.result(job, tts_audio=SPOKEN)
            await other.utter(index)
            await node.result(await node.job(session_id=other.session_id))
            assert (await other.end_of(index))["type"] == "translation_result"
        slow.read_again()
        ends = [await slow.end_of(index) for index in range(UTTERANCES)]
        assert {end["type"] for end in ends} == {"translation_result"}
        assert [end["event_id"] for end in ends] == list(range(1, UTTERANCES + 1))
