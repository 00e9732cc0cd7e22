"""The node decides the direction, so it must be able to do both."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.house import Scheduler


async def test_only_a_node_of_both_directions_gets_it(scheduler: Scheduler) -> None:
    async with scheduler.node("one") as one, scheduler.node("both") as both, scheduler.client() as client:
        await one.register(nmt_pairs=[["en", "zh"]])
        await both.register()
        langs = {"src_lang": "auto", "tgt_lang": "zh", "mode": "two_way_auto", "lang_a": "en", "lang_b": "zh"}
        await client.init(**langs, auto_langs=["en", "zh"])
        for index in range(4):
            await client.utter(index, **langs)
            job = await both.job(utterance_index=index)
            assert (job["src_lang"], job["mode"], job["lid"]) == ("auto", "two_way_auto", {"candidates": ["en", "zh"]})
            await both.result(job)
            assert (await client.end_of(index))["type"] == "translation_result"
        assert not [message for message in one.heard if message["type"] == "job_assign"]
