"""A pair is directed: a node of zh:en does nothing for en:zh."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.house import Scheduler


async def test_the_other_direction_is_refused_and_says_what_is_missing(scheduler: Scheduler) -> None:
    await scheduler.post(
        "/v1/node/register", {"node_id": "n1", "semantic_langs": ["zh", "en"], "nmt_pairs": [["zh", "en"]]}
    )
    refused = await scheduler.dispatch(status=422)
    assert (refused["error"], refused["retryable"]) == ("NO_CAPABLE_NODE", False)
    assert "en:zh" in refused["detail"]
    placed = await scheduler.dispatch(src_lang="zh-Hans-CN", tgt_lang="en-GB")
    assert placed["node_id"] == "n1"
