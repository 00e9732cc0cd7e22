"""Who belongs to which pool: PROTOCOL section 5, word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.register import register
from tests.support.stage import A, B, join, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

ALL_FOUR = ["en:en", "en:zh", "zh:en", "zh:zh"]


async def pools(world: World, **said: Any) -> list[str]:
    """The pools that a node with this word is in."""
    said = {"nmt_pairs": None} | said
    return (await join(world, **said)).pairs


@pytest.mark.parametrize(
    ("said", "served"),
    [
        # 1. src must have semantic repair.
        ({"semantic_langs": ["en"], "nmt_pairs": [["en", "zh"], ["zh", "en"]]}, ["en:zh"]),
        # 2. src must be in asr_langs, where the node declares them.
        ({"asr_langs": ["zh"], "nmt_pairs": [["en", "zh"], ["zh", "en"]]}, ["zh:en"]),
        ({"asr_langs": [], "nmt_pairs": "any"}, []),
        ({"asr_langs": ["de"], "nmt_pairs": "any"}, []),
        ({"asr_langs": ["en", "de"], "nmt_pairs": "any"}, ["en:*"]),
        # 3. The pair must be in nmt_pairs.
        ({"nmt_pairs": [["en", "fr"], ["de", "fr"]]}, ["en:fr"]),
        ({"nmt_pairs": [["*", "fr"]]}, ["en:fr", "zh:fr"]),
        ({"nmt_pairs": [["*", "fr"]], "asr_langs": ["en"]}, ["en:fr"]),
        ({"nmt_pairs": [["en", "*"]]}, ["en:*"]),
        ({"nmt_pairs": [["*", "*"]]}, ["en:*", "zh:*"]),
        ({"nmt_pairs": "any"}, ["en:*", "zh:*"]),
        ({"nmt_pairs": "any", "tts_langs": ["zh"]}, ["en:*", "zh:*"]),
        ({"nmt_pairs": []}, []),
        ({"nmt_pairs": [], "tts_langs": ["zh"]}, []),
        # What is served to any target is not listed target by target.
        ({"nmt_pairs": [["en", "zh"], ["en", "*"], ["zh", "en"]]}, ["en:*", "zh:en"]),
        # Not declared: every pair of ASR and TTS.
        ({"asr_langs": ["zh", "en"], "tts_langs": ["zh", "en"]}, ALL_FOUR),
        ({"tts_langs": ["fr"]}, ["en:fr", "zh:fr"]),
        ({"asr_langs": ["en"], "tts_langs": ["fr", "de"]}, ["en:de", "en:fr"]),
        ({"tts_langs": []}, []),
        # Neither declared: every pair of ASR and semantic repair.
        ({}, ALL_FOUR),
        ({"asr_langs": ["en"]}, ["en:en", "en:zh"]),
        ({"semantic_langs": ["zh"]}, ["zh:zh"]),
        # nmt_pairs is declared: tts_langs does not matter.
        ({"nmt_pairs": [["en", "fr"]], "tts_langs": ["zh"]}, ["en:fr"]),
        # Tags are reduced to their base language, on every list.
        ({"semantic_langs": ["ZH", "zh-Hans-CN", "en_US"], "asr_langs": ["zh_TW"], "tts_langs": ["pt-BR"]}, ["zh:pt"]),
        ({"semantic_langs": ["zh-TW"], "nmt_pairs": [["cmn", "en-GB"], ["zh_CN", "en"]]}, ["zh:en"]),
        # Cantonese is a language of its own.
        ({"semantic_langs": ["zh-yue"], "nmt_pairs": [["yue", "en"], ["zh", "en"]]}, ["yue:en"]),
        ({"semantic_langs": ["zh"], "nmt_pairs": [["yue", "en"]]}, []),
    ],
)
async def test_a_node_is_in_exactly_these_pools(world: World, said: dict[str, Any], served: list[str]) -> None:
    assert await pools(world, **said) == served
    assert sorted((await world.cell()).pairs) == served


async def test_a_node_that_says_null_is_a_node_that_says_nothing(world: World) -> None:
    assert await pools(world, asr_langs=None, nmt_pairs=None, tts_langs=None) == ALL_FOUR


async def takes(world: World, src: str, tgt: str, job_id: str = A) -> str:
    """The node that takes a job of this pair, or why none does."""
    answer = await dispatch(world.engine, job_id, "s1", src, tgt, seed=1)
    return answer.node_id if isinstance(answer, Placed) else answer.code


@pytest.mark.parametrize(("src", "tgt"), [("en", "zh"), ("en-GB", "zh-Hant-TW"), ("EN", "cmn"), ("en", "zh_HK")])
async def test_a_job_s_languages_are_reduced_too(world: World, src: str, tgt: str) -> None:
    await join(world)
    assert await takes(world, src, tgt) == "n1"


async def test_a_pair_is_directed(world: World) -> None:
    await join(world)
    assert await takes(world, "zh", "en") == "NO_CAPABLE_NODE"


async def test_a_node_for_any_target_takes_every_target_of_its_sources(world: World) -> None:
    await join(world, nmt_pairs="any", max_concurrent_jobs=9)
    for number, tgt in enumerate(("de", "fr", "en")):
        assert await takes(world, "en", tgt, f"{CELL}.{number}") == "n1"
    assert await takes(world, "de", "en") == "NO_CAPABLE_NODE"


async def test_nodes_for_one_target_and_for_any_share_the_work(world: World) -> None:
    await join(world, "one", max_concurrent_jobs=1)
    await join(world, "any", max_concurrent_jobs=1, nmt_pairs="any")
    assert {await takes(world, "en", "zh", A), await takes(world, "en", "zh", B)} == {"one", "any"}
    refusal = await dispatch(world.engine, f"{CELL}.c", "s1", "en", "zh")
    assert isinstance(refusal, Refusal)
    assert refusal.breakdown == Breakdown(pool=2, full=2)


async def test_a_node_without_a_pool_takes_nothing(world: World) -> None:
    await join(world, nmt_pairs=[])
    assert await takes(world, "en", "zh") == "NO_CAPABLE_NODE"


async def test_health_and_load_do_not_move_a_node_out_of_its_pool(world: World) -> None:
    await join(world)
    await drain(world.engine, CELL, "n1")
    await heartbeat(world.engine, CELL, "n1", health="offline")
    world.now_ms += 45_000
    await sweep(world)
    assert (await world.cell()).pairs == {"en:zh": [1]}
    assert await takes(world, "en", "zh") == "ALL_CANDIDATES_FULL_OR_FAILED"


class TestCantonese:
    """A `yue` job falls back to `zh` only when no live node is in the `yue` pool; never the other way."""

    @staticmethod
    async def both(world: World) -> None:
        await join(world, "zh", semantic_langs=["zh"], nmt_pairs=[["zh", "en"]])
        world.now_ms += 20_000
        await join(world, "yue", semantic_langs=["yue"], nmt_pairs=[["yue", "en"]], max_concurrent_jobs=1)

    async def test_a_yue_job_goes_to_zh_when_nobody_serves_yue(self, world: World) -> None:
        await join(world, "zh", semantic_langs=["zh"], nmt_pairs=[["zh", "en"]])
        assert await takes(world, "yue", "en") == "zh"
        ticket = (await world.cell()).tickets[A]
        assert (ticket.pair, ticket.fallback) == ("yue:en", "zh:en")

    async def test_a_yue_job_goes_to_yue_when_somebody_does(self, world: World) -> None:
        await self.both(world)
        assert await takes(world, "zh-yue", "en") == "yue"

    async def test_a_full_yue_node_is_alive_so_the_job_is_refused(self, world: World) -> None:
        await self.both(world)
        await takes(world, "yue", "en")
        refusal = await dispatch(world.engine, B, "s1", "yue", "en")
        assert isinstance(refusal, Refusal)
        assert refusal.breakdown == Breakdown(pool=1, full=1)

    async def test_a_stale_yue_node_is_not_alive(self, world: World) -> None:
        await self.both(world)
        world.now_ms += 35_000
        await heartbeat(world.engine, CELL, "zh")
        assert await takes(world, "yue", "en") == "zh"

    async def test_the_next_group_of_the_index_does_not_make_a_stale_pool_live(self, world: World) -> None:
        await join(world, "yue", semantic_langs=["yue"], nmt_pairs=[["yue", "en"]])
        world.now_ms += 35_000
        await join(world, "zh", semantic_langs=["zh"], nmt_pairs=[["zh", "en"]])
        assert [node.group for node in (await world.cell()).nodes.values()] == [1, 2]
        assert await takes(world, "yue", "en") == "zh"

    async def test_one_live_yue_node_among_stale_ones_keeps_the_job(self, world: World) -> None:
        """Also when it is of another group, the first of which is all stale."""
        await self.both(world)
        world.now_ms += 35_000
        await heartbeat(world.engine, CELL, "zh")
        await join(world, "yue2", semantic_langs=["yue"], nmt_pairs=[["yue", "en"]])
        assert await takes(world, "yue", "en") == "yue2"
        world.now_ms += 35_000
        await heartbeat(world.engine, CELL, "zh")
        await join(world, "yue3", semantic_langs=["yue"], nmt_pairs=[["yue", "en"]], tts_langs=["en"])
        assert await takes(world, "yue", "en", B) == "yue3"

    async def test_nobody_for_zh_either_is_told_from_the_yue_pool(self, world: World) -> None:
        await join(world, "yue", semantic_langs=["yue"], nmt_pairs=[["yue", "en"]])
        world.now_ms += 35_000
        refusal = await dispatch(world.engine, B, "s1", "yue", "en")
        assert isinstance(refusal, Refusal)
        assert refusal.breakdown == Breakdown(pool=1, stale=1)

    async def test_nobody_at_all_is_no_capable_node(self, world: World) -> None:
        assert await takes(world, "yue", "en") == "NO_CAPABLE_NODE"

    async def test_a_zh_job_never_goes_to_yue(self, world: World) -> None:
        await join(world, "yue", semantic_langs=["yue"], nmt_pairs=[["yue", "en"]])
        assert await takes(world, "zh", "en") == "NO_CAPABLE_NODE"

    async def test_a_job_to_yue_falls_back_too(self, world: World) -> None:
        await join(world)
        assert await takes(world, "en", "yue") == "n1"


async def test_a_legacy_node_without_semantic_repair_registers_with_no_pools_until_it_has(world: World) -> None:
    answer = await register(world.engine, CELL, "n1", semantic_langs=[], lenient=True, nonce="x")
    assert not isinstance(answer, Refusal)
    assert answer.pairs == []
    assert answer.warnings == ["no pool: no language with semantic repair"]
    await heartbeat(world.engine, CELL, "n1", semantic_langs=["en"], lenient=True)
    assert (await world.cell()).pairs == {"en:en": [1]}
