"""Who belongs to which pool: PROTOCOL section 5, word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.needs import LACKS
from lingua_scheduler.core.records import GroupRecord, Standing
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.register import register
from tests.support.cells import GONE, watch
from tests.support.stage import LANGUAGES, A, B, code_of, join, mute, signature, sweep
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
    return answer.node_id if isinstance(answer, Placed) else code_of(answer)


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
    for _ in range(2):
        await sweep(world)
    assert (await world.cell()).nodes["n1"].standing == Standing.lost
    assert (await world.cell()).pairs == {"en:zh": mute(1)}
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


async def test_a_node_of_64_languages_is_in_4096_pools_and_out_of_all_of_them_when_it_leaves(world: World) -> None:
    """And a second one of its group changes nothing; one with a part of it is counted beside it."""
    everything = {"semantic_langs": LANGUAGES, "nmt_pairs": None, "tts_langs": LANGUAGES}
    pairs = sorted(f"{src}:{tgt}" for src in LANGUAGES for tgt in LANGUAGES)
    ends = {end for language in LANGUAGES for end in (f"{language}:", f":{language}")}
    spoken = sorted(LANGUAGES)
    answer, changes = await watch(world, join(world, "n1", **everything))
    assert answer.pairs == pairs
    assert changes["pairs"] == {pair: [LACKS] for pair in pairs}
    assert changes["ends"] == dict.fromkeys(ends, 1)
    assert changes["groups"] == {1: GroupRecord(signature(pairs, spoken), spoken, [], pairs)}
    _, changes = await watch(world, join(world, "n2", **everything))
    assert not changes.keys() & {"pairs", "ends", "groups", "signatures"}
    _, changes = await watch(world, join(world, "n3"))
    assert changes["pairs"] == {"en:zh": mute(2)}
    assert changes["ends"] == {"en:": 2, ":zh": 1}
    await leave(world.engine, CELL, "n1")
    _, changes = await watch(world, leave(world.engine, CELL, "n2"))
    assert changes["pairs"] == dict.fromkeys(pairs, GONE)
    assert changes["ends"] == dict.fromkeys(ends, GONE) | {"en:": 1}
    assert changes["groups"] == {1: GONE}
    cell = await world.cell()
    assert (cell.pairs, cell.ends) == ({"en:zh": mute(2)}, {"en:": 1, ":zh": 1})


async def test_a_node_of_half_the_languages_leaves_those_of_all_alone(world: World) -> None:
    half = LANGUAGES[:32]
    await join(world, "n1", semantic_langs=half, nmt_pairs=None)
    await join(world, "n2", semantic_langs=LANGUAGES, nmt_pairs=None)
    _, changes = await watch(world, leave(world.engine, CELL, "n1"))
    assert changes["pairs"] == {f"{src}:{tgt}": mute(2) for src in half for tgt in half}
    assert changes["ends"] == {end: 1 for language in half for end in (f"{language}:", f":{language}")}


async def test_ends_are_counted_by_groups_and_not_by_pairs_or_nodes(world: World) -> None:
    await join(world, "n1", nmt_pairs=[["en", "zh"], ["en", "fr"]])
    await join(world, "n2", nmt_pairs=[["en", "zh"], ["en", "fr"]])
    assert (await world.cell()).ends == {"en:": 1, ":zh": 1, ":fr": 1}
    await join(world, "n3", nmt_pairs=[["en", "zh"], ["zh", "zh"]])
    assert (await world.cell()).ends == {"en:": 2, ":zh": 2, ":fr": 1, "zh:": 1}
    await join(world, "n4", nmt_pairs="any")
    assert (await world.cell()).ends == {"en:": 3, ":zh": 2, ":fr": 1, "zh:": 2, ":*": 1}
    await heartbeat(world.engine, CELL, "n4", nmt_pairs=[["zh", "fr"]])
    assert (await world.cell()).ends == {"en:": 2, ":zh": 2, ":fr": 2, "zh:": 2}
    for node_id in ("n1", "n3", "n4", "n2"):
        await leave(world.engine, CELL, node_id)
    assert (await world.cell()).ends == {}


async def test_a_refusal_names_what_is_missing_until_the_last_group_that_has_it_is_gone(world: World) -> None:
    """Two groups take en, and none gives fr; when the second is gone too, nobody takes en either."""
    await join(world, "n1")
    await join(world, "n2", tts_langs=["zh"])
    found = []
    for node_id in ("n1", "n2", ""):
        refusal = await dispatch(world.engine, A, "s1", "en", "fr")
        assert isinstance(refusal, Refusal)
        found.append(refusal.detail.removeprefix("No registered node can serve en:fr: "))
        if node_id:
            await leave(world.engine, CELL, node_id)
    needs = "none takes en, which needs semantic repair (and asr) for it and a pair from it."
    assert found == ["none translates into fr."] * 2 + [needs]


async def test_a_legacy_node_without_semantic_repair_registers_with_no_pools_until_it_has(world: World) -> None:
    answer = await register(world.engine, CELL, "n1", semantic_langs=[], lenient=True, services={"semantic": False})
    assert not isinstance(answer, Refusal)
    assert answer.pairs == []
    assert answer.warnings == ["no pool: the service semantic is not ready"]
    await heartbeat(world.engine, CELL, "n1", semantic_langs=["en"], lenient=True)
    assert (await world.cell()).pairs == {}
    await heartbeat(world.engine, CELL, "n1", services={"semantic": True}, lenient=True)
    assert (await world.cell()).pairs == {"en:en": mute(1)}


async def test_any_other_node_keeps_its_pools_and_lacks_a_service(world: World) -> None:
    joined = await join(world, "n1", services={"semantic": False})
    assert (joined.pairs, joined.warnings) == (["en:zh"], [])
    await join(world, "n2", health="degraded")
    await drain(world.engine, CELL, "n2")
    refusal = await dispatch(world.engine, A, "s1", "en", "zh")
    assert isinstance(refusal, Refusal)
    assert refusal.breakdown is not None
    assert (refusal.breakdown.pool, refusal.breakdown.no_service, refusal.breakdown.draining) == (2, 1, 1)
    placed = await dispatch(world.engine, A, "s1", "en", "zh", wanted=Wanted(services=("asr", "nmt")))
    assert isinstance(placed, Placed)
    assert placed.node_id == "n1"


async def test_it_is_a_field_node_by_how_it_last_named_its_languages(world: World) -> None:
    await join(world, "n1", services={"semantic": False})
    for lenient, pairs in ((True, []), (False, ["en:zh"])):
        await heartbeat(world.engine, CELL, "n1", semantic_langs=["en"], lenient=lenient)
        assert list((await world.cell()).pairs) == pairs
