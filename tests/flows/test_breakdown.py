"""Why a job gets no node: what is missing when nobody could ever take it, and who is counted when somebody could."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.capability import SERVICES
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.mark import mark
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.resume import resume
from tests.support.cells import watch
from tests.support.pasts import give
from tests.support.stage import A, B, C, D, calls, code_of, join, keep_alive, sweep
from tests.support.wishes import HINDRANCES, SPOKEN, ask, given, hinder, incapable, none_free
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

NOT_ALL = "none has all of asr, nmt, semantic"
NO_REPAIR = "none takes {}, which needs semantic repair (and asr) for it and a pair from it"
YUE: dict[str, Any] = {"semantic_langs": ["yue"], "nmt_pairs": [["yue", "en"]], "max_concurrent_jobs": 1}
ZH: dict[str, Any] = {"semantic_langs": ["zh"], "nmt_pairs": [["zh", "en"]], "max_concurrent_jobs": 1}


# What is told when nobody could ever do it.


@pytest.mark.parametrize(
    ("nodes", "wanted", "missing"),
    [
        ([{"semantic_langs": ["zh"], "nmt_pairs": "any"}], {}, NO_REPAIR.format("en")),
        ([{"nmt_pairs": [["en", "fr"]]}], {}, "none translates into zh"),
        ([{"nmt_pairs": [["en", "fr"]]}], {"labels": {"a": "b"}, "two_way": True}, "none translates into zh"),
        (
            [{"nmt_pairs": [["en", "fr"]]}, {"semantic_langs": ["de"], "nmt_pairs": [["de", "zh"]]}],
            {},
            "some take en and some give zh, but none does both",
        ),
        ([{"services": {"asr": False}}] * 2, {}, "2 serve the pair, but none has the service asr"),
        (
            [{"services": {"tts": False, "asr": False}}, {"services": {"tts": False, "asr": False, "tone": False}}],
            {"services": SERVICES},
            "2 serve the pair, but none has the service asr or tts",
        ),
        (
            [{"services": {"asr": False}}, {"services": {"nmt": False}}],
            {},
            f"2 serve the pair, but {NOT_ALL}",
        ),
        (
            [{}, {"tts_langs": ["en"]}, {"nmt_pairs": "any"}],
            {"services": SPOKEN},
            "3 serve the pair, but none speaks zh",
        ),
        (
            [{"accept_public_jobs": False}, {"accept_public_jobs": False, "tts_langs": ["zh"]}],
            {},
            "2 serve the pair, but only for jobs that name them",
        ),
        (
            [{"accept_public_jobs": False, "services": {"asr": False}}],
            {},
            "1 serve the pair, but none has the service asr",
        ),
        (
            [{"accept_public_jobs": False, "tts_langs": ["en"]}],
            {"services": SPOKEN},
            "1 serve the pair, but none speaks zh",
        ),
        (
            [{"accept_public_jobs": False}, {"services": {"asr": False}}],
            {},
            f"2 serve the pair, but {NOT_ALL}",
        ),
        (
            [{"labels": {"a": "b"}}],
            {"labels": {"a": "c"}},
            "1 serve the pair, but none has all of the label a=c, asr, nmt, semantic",
        ),
        ([{}], {"two_way": True}, "1 serve the pair, but none has all of the way back zh:en, asr, nmt, semantic"),
    ],
)
async def test_the_missing_part_is_named(
    world: World, nodes: list[dict[str, Any]], wanted: dict[str, Any], missing: str
) -> None:
    for n, said in enumerate(nodes):
        await join(world, f"n{n}", **said)
    assert await watch(world, ask(world, **wanted, wait_ms=1_000)) == (incapable(missing), {})


@pytest.mark.parametrize("why", [*HINDRANCES, "excluded"])
async def test_a_job_that_could_ever_have_a_node_is_never_told_that_it_could_not(world: World, why: str) -> None:
    """One node has all that it takes; that the others have not is no matter."""
    await join(world, "n1", max_concurrent_jobs=1)
    await join(world, "n2", services={"tone": False})
    if why != "excluded":
        await hinder(world, "n1", why)
    refused = ask(world, services=["tone"], exclude_node_ids=["n1"] if why == "excluded" else [])
    assert await watch(world, refused) == (none_free(pool=2, no_service=1, **{why: 1}), {})


# With a fallback.


async def test_a_fallback_that_could_do_it_counts_though_it_may_not_yet(world: World) -> None:
    """While a live node serves the pair itself, its pool is what is counted."""
    await join(world, "yue", **YUE, services={"asr": False})
    await join(world, "zh", **ZH)
    refused = ask(world, A, "yue:en")
    assert await watch(world, refused) == (none_free("yue:en", pool=1, no_service=1), {})
    await hinder(world, "yue", "stale", "yue:en")
    assert await given(world, A, "yue:en") == ("zh", ["fell back"])
    refused = ask(world, B, "yue:en")
    assert await watch(world, refused) == (none_free("yue:en", pool=1, full=1), {})


async def test_a_pair_of_its_own_that_could_do_it_counts_while_it_is_stale(world: World) -> None:
    await join(world, "yue", **YUE)
    await hinder(world, "yue", "stale", "yue:en")
    assert await watch(world, ask(world, A, "yue:en")) == (none_free("yue:en", pool=1, stale=1), {})


async def test_a_fallback_has_to_meet_the_needs_too(world: World) -> None:
    await join(world, "zh1", **ZH, services={"asr": False})
    refused = ask(world, A, "yue:en")
    assert await watch(world, refused) == (incapable(NO_REPAIR.format("yue"), "yue:en"), {})
    await join(world, "zh2", **ZH)
    assert await given(world, A, "yue:en") == ("zh2", ["fell back"])
    assert await ask(world, B, "yue:en") == none_free("yue:en", pool=2, full=1, no_service=1)


async def test_a_fallback_is_spoken_in_the_language_it_falls_back_to(world: World) -> None:
    await join(world, "n1", nmt_pairs=[["en", "zh"]], tts_langs=["yue"])
    refused = ask(world, A, "en:yue", services=SPOKEN)
    assert await watch(world, refused) == (incapable("none translates into yue", "en:yue"), {})
    await join(world, "n2", nmt_pairs=[["en", "zh"]], tts_langs=["zh"])
    assert await given(world, A, "en:yue", services=SPOKEN) == ("n2", ["fell back"])


@pytest.mark.parametrize(
    ("public", "wish"), [(True, {"exclude_node_ids": ["yue"]}), (False, {"preferred_node_id": "yue"})], ids=str
)
async def test_no_number_is_negative_when_the_fallback_lacks_what_only_stale_nodes_have(
    world: World, public: bool, wish: dict[str, Any]
) -> None:
    await join(world, "yue", **YUE, accept_public_jobs=public)
    await join(world, "zh", **ZH, services={"tone": False})
    await hinder(world, "yue", "stale", "yue:en")
    answer = await ask(world, A, "yue:en", services=["tone"], **wish)
    assert isinstance(answer, Refusal)
    assert answer.breakdown is not None
    pool, *numbers = msgspec.structs.astuple(answer.breakdown)
    assert min(numbers) >= 0
    assert sum(numbers) == pool


# The numbers.


async def test_each_node_is_counted_once_under_its_first_reason(world: World) -> None:
    """Excluded, else without what is needed, else not permitted, else as it stands; in several groups each."""
    kinds: dict[str, dict[str, Any]] = {
        "fit": {"labels": {"region": "eu"}},
        "mute": {"tts_langs": ["en"], "labels": {"region": "eu"}},
        "toneless": {"services": {"tone": False}, "labels": {"region": "eu"}},
        "elsewhere": {"labels": {"region": "us"}},
        "private": {"accept_public_jobs": False, "labels": {"region": "eu"}},
        "private-toneless": {"accept_public_jobs": False, "services": {"tone": False}, "labels": {"region": "eu"}},
        "spare": {"labels": {"region": "eu", "group": "spare"}},
    }
    fleet = [(kind, why) for kind in kinds for why in (*HINDRANCES, "excluded")]
    for kind, why in sorted(fleet, key=lambda one: one[1] != "stale"):
        await join(world, f"{kind}-{why}", **{"tts_langs": ["zh"]} | kinds[kind], max_concurrent_jobs=1)
        if why != "excluded":
            await hinder(world, f"{kind}-{why}", why)
    await join(world, "other-pair", nmt_pairs=[["zh", "en"]])
    excluded = [f"{kind}-excluded" for kind in kinds] + [f"fit-{why}" for why in HINDRANCES]
    wanted: dict[str, Any] = {"services": ("tts", "tone"), "labels": {"region": "eu"}, "exclude_node_ids": excluded}
    numbers = {
        "pool": 7 * 6,
        "excluded": 7 + 5,
        "no_service": 4 * 5,
        "not_permitted": 5,
        **dict.fromkeys(HINDRANCES, 1),
    }
    assert await watch(world, ask(world, **wanted)) == (none_free(**numbers), {})
    refused = ask(world, **wanted, preferred_node_id="private-draining")
    assert await watch(world, refused) == (none_free(**numbers | {"not_permitted": 4, "draining": 2}), {})


@pytest.mark.parametrize("why", [*HINDRANCES, "available"])
async def test_an_excluded_node_counts_as_excluded_however_it_stands(world: World, why: str) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await join(world, "n2", max_concurrent_jobs=1)
    await join(world, "n3", max_concurrent_jobs=1)
    if why != "available":
        await hinder(world, "n1", why)
    await hinder(world, "n2", "full")
    await hinder(world, "n3", "draining")
    refused = ask(world, exclude_node_ids=["n1"])
    assert await watch(world, refused) == (none_free(pool=3, full=1, draining=1, excluded=1), {})


@pytest.mark.parametrize("why", HINDRANCES)
async def test_a_private_node_that_is_named_counts_as_it_stands(world: World, why: str) -> None:
    await join(world, "p1", accept_public_jobs=False, max_concurrent_jobs=1)
    await hinder(world, "p1", why)
    refused = ask(world, preferred_node_id="p1")
    assert await watch(world, refused) == (none_free(pool=1, **{why: 1}), {})


async def test_a_job_that_has_waited_enough_is_refused_though_its_private_node_came_to_have_room(world: World) -> None:
    """At that very moment, and with more who wait than are served at once."""
    await join(world, "p1", accept_public_jobs=False, max_concurrent_jobs=100)
    await hinder(world, "p1", "draining")
    names = [f"{CELL}.{number:02}" for number in range(66)]
    waiting: dict[str, Any] = {"preferred_node_id": "p1", "wait_ms": 1_000}
    await asyncio.gather(*(ask(world, name, **waiting) for name in names))
    world.now_ms += 1_000
    await resume(world.engine, CELL, "p1")
    await sweep(world)
    refused = [event for event, _ in (await world.cell()).outbox if event.kind == "refused"]
    assert [event.detail for event in refused] == ["1000 ALL_CANDIDATES_FULL_OR_FAILED 1 0 0 0 0 0 0 0 0 0"] * 2


async def test_refusals_of_one_tick_are_those_of_their_own_needs(world: World) -> None:
    await join(world, "n1", services={"tone": False}, tts_langs=["zh"], max_concurrent_jobs=1)
    await join(world, "n2", max_concurrent_jobs=1)
    await hinder(world, "n1", "full")
    await hinder(world, "n2", "draining")
    asked: list[list[str]] = [["tone"], ["tts"], [], ["tone", "tts"], ["tone"]]
    answers = await asyncio.gather(*(ask(world, f"{CELL}.{n}", services=names) for n, names in enumerate(asked)))
    toneless = none_free(pool=2, no_service=1, draining=1)
    assert answers == [
        toneless,
        none_free(pool=2, full=1, no_service=1),
        none_free(pool=2, full=1, draining=1),
        incapable("2 serve the pair, but none has all of tone, tts"),
        toneless,
    ]


async def test_a_pool_that_is_full_is_counted_in_two_calls_for_each_group(world: World) -> None:
    """The whole group, and those that are full: where these are all, nobody looks for other reasons."""
    for number in range(3):
        await join(world, f"n{number}", labels={"kind": str(number)}, max_concurrent_jobs=1)
        await give(world, f"n{number}")
    before = await calls(world)
    assert code_of(await dispatch(world.engine, A, "s1", "en", "zh", seed=1)) == "ALL_CANDIDATES_FULL_OR_FAILED"
    counted = await calls(world) - before
    # And one whether anything is due.
    assert counted["zcount"] == 3 * 2 + 1


async def test_a_private_node_that_the_job_names_is_counted_as_marked_if_it_is(world: World) -> None:
    await join(world, "n1", accept_public_jobs=False)
    await mark(world.engine, CELL, "n1", "", "asr")
    await join(world, "n2", max_concurrent_jobs=1)
    await give(world, "n2")
    answer = await dispatch(world.engine, A, "s1", "en", "zh", seed=1, wanted=Wanted(preferred_node_id="n1"))
    assert isinstance(answer, Refusal)
    assert answer.breakdown == Breakdown(pool=2, full=1, marked=1)


class TestWaitsThatEndInOneSweep:
    """Why they were in vain is found out once for all who want the same, until something has changed."""

    @staticmethod
    async def refusals(world: World) -> list[Breakdown]:
        """What those who waited in vain were told, in order."""
        told = [event.detail.split() for event, _ in (await world.cell()).outbox if event.kind == "refused"]
        assert {code for _, code, *_ in told} <= {"ALL_CANDIDATES_FULL_OR_FAILED"}
        return [Breakdown(*map(int, numbers)) for _, _, *numbers in told]

    @staticmethod
    async def fill(world: World, number: int = 1, **said: Any) -> None:
        """Nodes n1, n2, ... that are full for long, each of a kind of its own."""
        for n in range(1, number + 1):
            await join(world, f"n{n}", max_concurrent_jobs=1, labels={"kind": f"{n}"}, **said)
            await hinder(world, f"n{n}", "full")

    async def test_a_node_falls_stale_between_two(self, world: World) -> None:
        await self.fill(world, 2)
        for job_id, wait_ms in ((A, 34_000), (B, 34_999), (C, 35_001), (D, 36_000)):
            await ask(world, job_id, wait_ms=wait_ms)
        world.now_ms += 30_000
        await keep_alive(world, "n1")
        world.now_ms += 6_000
        await sweep(world)
        before, after = Breakdown(pool=2, full=2), Breakdown(pool=2, full=1, stale=1)
        assert await self.refusals(world) == [before, before, after, after]

    async def test_a_node_is_forgotten_between_two(self, make_world: MakeWorld) -> None:
        world = await make_world(Rules(node_record_ttl_ms=1_000))
        await self.fill(world)
        await join(world, "n2", connection="x")
        await disconnect(world.engine, CELL, "n2", "x")
        for job_id, wait_ms in ((A, 1_000), (B, 2_000)):
            await ask(world, job_id, wait_ms=wait_ms)
        world.now_ms += 500
        await sweep(world)
        world.now_ms += 1_500
        sweeps = await asyncio.gather(*(reap(world.engine, CELL, 1) for _ in range(2)))
        assert sweeps == [Settled(2, True), Settled(1, False)]
        assert await self.refusals(world) == [Breakdown(pool=2, full=1, stale=1), Breakdown(pool=1, full=1)]

    async def test_each_is_told_of_its_own_pair_and_needs_and_wishes(self, world: World) -> None:
        await self.fill(world, nmt_pairs=[["en", "zh"], ["en", "fr"]], services={"tone": False})
        await join(world, "fr", nmt_pairs=[["en", "fr"]], services={"asr": False})
        await join(world, "drained", nmt_pairs=[["en", "zh"]])
        await drain(world.engine, CELL, "drained")
        usual: dict[str, Any] = {"services": ["asr", "nmt"], "wait_ms": 1_000}
        await ask(world, f"{CELL}.0", "en:zh", **usual)
        await ask(world, f"{CELL}.1", "en:fr", **usual)
        await ask(world, f"{CELL}.2", "en:zh", **usual | {"services": ["tone"]})
        await ask(world, f"{CELL}.3", "en:zh", **usual, exclude_node_ids=["n1"])
        await ask(world, f"{CELL}.4", "en:zh", **usual)
        world.now_ms += 1_000
        await sweep(world)
        first, *others, last = await self.refusals(world)
        assert first == last == Breakdown(pool=2, full=1, draining=1)
        assert others == [
            Breakdown(pool=2, full=1, no_service=1),
            Breakdown(pool=2, no_service=1, draining=1),
            Breakdown(pool=2, draining=1, excluded=1),
        ]

    async def test_fifty_cost_hardly_more_than_one(self, world: World) -> None:
        """However many kinds of nodes there are to be counted."""
        await self.fill(world, 20)
        costs = []
        for number in (1, 50):
            for n in range(number):
                await ask(world, f"{CELL}.{n}", wait_ms=1_000)
            world.now_ms += 1_000
            before = await calls(world)
            await sweep(world)
            costs.append(await calls(world) - before)
        assert costs[0]["zcount"] == costs[1]["zcount"] > 20
        assert costs[1].total() - costs[0].total() < 49 * 12
        assert len(await self.refusals(world)) == 51
