"""Nodes that a job names, insists on, or is bound to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Choice, PastAttempt
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.dispatch import Placed, Waiting, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.mark import mark
from lingua_scheduler.flows.resume import resume
from tests.support.cells import watch
from tests.support.stage import T0, A, B, C, join, place
from tests.support.wishes import (
    HINDRANCES,
    SPOKEN,
    ask,
    choice,
    failed,
    given,
    hinder,
    incapable,
    none_free,
    not_capable,
    spread_seeds,
    unavailable,
)
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

PERSISTENT = Limits(max_retry=10)


async def pair_of_nodes(world: World, **said: Any) -> None:
    """n1, of which a test says more, and n2, which has a free slot."""
    await join(world, "n1", max_concurrent_jobs=1, **said)
    await join(world, "n2", max_concurrent_jobs=1)


# The node that a job names.


async def test_a_preferred_node_is_taken_whatever_its_load(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=4)
    await asyncio.gather(*(place(world, f"{CELL}.{number}") for number in range(3)))
    await join(world, "n2")
    assert await given(world, preferred_node_id="n1") == ("n1", [])
    assert await choice(world) == Choice(group=1, candidates=1, policy=0, reasons=[])


@pytest.mark.parametrize("policy", ["random", "spread", "sticky_pool", "least_loaded"])
async def test_a_preferred_node_comes_before_every_policy(world: World, policy: str) -> None:
    await join(world, "n1")
    await join(world, "n2", labels={"group": "blue"})
    for number, seed in enumerate(spread_seeds(8)):
        what: dict[str, Any] = {"policy": policy, "seed": seed, "last_node_id": "n1", "last_pool": "blue"}
        assert await given(world, f"{CELL}.{number}", preferred_node_id="n1", **what) == ("n1", [])
        await done(world.engine, f"{CELL}.{number}", 1, "n1")


@pytest.mark.parametrize("why", HINDRANCES)
async def test_a_preferred_node_that_cannot_gives_way_to_another_with_the_reason(world: World, why: str) -> None:
    await pair_of_nodes(world)
    await join(world, "n3", tts_langs=["zh"])
    await hinder(world, "n1", why)
    node_id, reasons = await given(world, preferred_node_id="n1")
    assert (node_id in {"n2", "n3"}, reasons) == (True, [f"preferred {why}"])
    assert (await choice(world)).candidates == 2


@pytest.mark.parametrize("why", HINDRANCES)
async def test_a_preferred_node_that_cannot_and_no_other_is_a_refusal_with_every_number(world: World, why: str) -> None:
    await pair_of_nodes(world)
    await hinder(world, "n1", why)
    await drain(world.engine, CELL, "n2")
    numbers = {"draining": 1} | {why: 2 if why == "draining" else 1}
    refused = ask(world, preferred_node_id="n1")
    assert await watch(world, refused) == (none_free(pool=2, **numbers), {})


#: What a node says of itself and a job asks for, so that the one can never do the other.
NEVER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another pair": ({"nmt_pairs": [["zh", "en"]]}, {}),
    "no pair": ({"nmt_pairs": []}, {}),
    "no asr": ({"services": {"asr": False}}, {}),
    "no tone": ({"services": {"tone": False}}, {"services": ("tone",)}),
    "no voice": ({"tts_langs": ["en"]}, {"services": SPOKEN}),
    "one way": ({"semantic_langs": ["en"]}, {"two_way": True}),
    "no such label": ({"labels": {"region": "us"}}, {"labels": {"region": "eu"}}),
}


@pytest.mark.parametrize("never", NEVER)
@pytest.mark.parametrize("more", [{}, {"strict": True}, {"wait_ms": 1_000}], ids=str)
async def test_a_preferred_node_that_never_could_is_a_refusal_whoever_else_can(
    world: World, never: str, more: dict[str, Any]
) -> None:
    said, wanted = NEVER[never]
    await join(world, "n1", **said)
    able = {"nmt_pairs": "any", "tts_langs": ["zh", "en"], "labels": {"region": "eu"}}
    await join(world, "n2", **able)
    refused = ask(world, preferred_node_id="n1", **wanted, **more)
    assert await watch(world, refused) == (not_capable("n1"), {})
    assert await given(world, preferred_node_id="n2", **wanted) == ("n2", [])


@pytest.mark.parametrize("more", [{}, {"strict": True}, {"wait_ms": 1_000}, {"bound_node_id": "n1"}], ids=str)
async def test_a_preferred_node_that_nobody_knows_is_a_refusal(world: World, more: dict[str, Any]) -> None:
    await join(world, "n1")
    assert await watch(world, ask(world, preferred_node_id="n9", **more)) == (not_capable("n9"), {})


async def test_a_preferred_node_of_the_fallback_counts_only_while_nobody_serves_the_pair(world: World) -> None:
    await join(world, "zh", semantic_langs=["zh"], nmt_pairs=[["zh", "en"]])
    assert await given(world, A, "yue:en", preferred_node_id="zh") == ("zh", ["fell back"])
    await join(world, "yue", semantic_langs=["yue"], nmt_pairs=[["yue", "en"]])
    refused = ask(world, B, "yue:en", preferred_node_id="zh")
    assert await watch(world, refused) == (not_capable("zh", "yue:en"), {})


@pytest.mark.parametrize("strict", [False, True])
async def test_a_preferred_node_that_is_stale_is_still_in_the_pool_when_the_fallback_serves(
    world: World, strict: bool
) -> None:
    await join(world, "yue", semantic_langs=["yue"], nmt_pairs=[["yue", "en"]], max_concurrent_jobs=1)
    await join(world, "zh", semantic_langs=["zh"], nmt_pairs=[["zh", "en"]])
    await hinder(world, "yue", "stale", "yue:en")
    if strict:
        assert await ask(world, A, "yue:en", preferred_node_id="yue", strict=True) == unavailable("yue", "stale")
    else:
        assert await given(world, A, "yue:en", preferred_node_id="yue") == ("zh", ["preferred stale", "fell back"])


# Strictly.


@pytest.mark.parametrize("why", HINDRANCES)
async def test_a_job_that_insists_is_told_why_its_node_cannot(world: World, why: str) -> None:
    await pair_of_nodes(world)
    await hinder(world, "n1", why)
    refused = ask(world, preferred_node_id="n1", strict=True)
    assert await watch(world, refused) == (unavailable("n1", why), {})


async def test_a_job_that_insists_takes_no_other_node(world: World) -> None:
    await join(world, "n1")
    await join(world, "n2")
    for number, seed in enumerate(spread_seeds(2)):
        insists: dict[str, Any] = {"preferred_node_id": "n1", "strict": True, "seed": seed}
        assert await given(world, f"{CELL}.{number}", **insists) == ("n1", [])
    refused = ask(world, preferred_node_id="n1", strict=True)
    assert await watch(world, refused) == (unavailable("n1", "full"), {})


async def test_a_private_node_that_is_named_and_marked_could_have_it_later(world: World) -> None:
    await join(world, "n1", accept_public_jobs=False)
    await mark(world.engine, CELL, "n1", "", "asr")
    refused = ask(world, preferred_node_id="n1", strict=True)
    assert await watch(world, refused) == (unavailable("n1", "marked"), {})


async def test_a_job_that_insists_can_wait_for_its_node_and_takes_no_other_meanwhile(world: World) -> None:
    await pair_of_nodes(world)
    await hinder(world, "n1", "draining")
    await hinder(world, "n2", "full")
    answer = await ask(world, preferred_node_id="n1", strict=True, wait_ms=1_000)
    assert answer == Waiting(1, T0 + 1_000)
    await done(world.engine, f"{CELL}.at-n2", 1, "n2")
    assert (await world.cell()).jobs[A].state == "WAITING"
    await resume(world.engine, CELL, "n1")
    assert (await world.cell()).jobs[A].node == "n1"
    assert await choice(world) == Choice(1, 1, 0, ["preferred draining", "waited"])


async def test_a_job_that_insists_and_fails_is_tried_again_only_on_its_node(world: World) -> None:
    await pair_of_nodes(world)
    await given(world, preferred_node_id="n1", strict=True, limits=PERSISTENT)
    assert await failed(world) == "n1"
    await drain(world.engine, CELL, "n1")
    assert await failed(world) == ""
    assert (await world.cell()).jobs[A].state == "RETRYING"
    await heartbeat(world.engine, CELL, "n2")
    assert (await world.cell()).jobs[A].state == "RETRYING"
    await resume(world.engine, CELL, "n1")
    job = (await world.cell()).jobs[A]
    assert (job.state, job.node, job.attempt) == ("RESERVED", "n1", 3)
    assert job.choice.reasons == ["preferred draining", "waited", "again"]


async def test_a_job_that_insists_on_a_node_that_leaves_waits_for_it(world: World) -> None:
    await pair_of_nodes(world)
    await given(world, preferred_node_id="n1", strict=True)
    await leave(world.engine, CELL, "n1")
    assert (await world.cell()).jobs[A].state == "RETRYING"
    await join(world, "n1")
    assert (await world.cell()).jobs[A].node == "n1"


# Trying again.


async def test_a_job_whose_preferred_node_was_full_goes_there_when_the_other_fails_it(world: World) -> None:
    """Each attempt keeps its own choice."""
    await pair_of_nodes(world)
    await hinder(world, "n1", "full")
    await given(world, preferred_node_id="n1")
    await done(world.engine, f"{CELL}.at-n1", 1, "n1")
    assert await failed(world) == "n1"
    job = (await world.cell()).jobs[A]
    assert job.choice == Choice(1, 1, 0, [])
    first = PastAttempt(1, "n2", "failed", T0, "RETRYING", 2, T0, Choice(1, 1, 0).packed(), ["preferred full"])
    assert job.past.attempts == [first]


@pytest.mark.parametrize("wish", ["preferred_node_id", "bound_node_id"])
async def test_a_wished_node_that_failed_the_job_is_avoided_while_another_can(world: World, wish: str) -> None:
    await join(world, "n1")
    await join(world, "n2")
    assert await given(world, **{wish: "n1"}) == ("n1", [])
    assert await failed(world) == "n2"
    assert (await choice(world)).reasons == [f"{wish.removesuffix('_node_id')} seen"]


@pytest.mark.parametrize("wish", ["preferred_node_id", "bound_node_id"])
async def test_a_wished_node_that_failed_the_job_has_it_again_when_no_other_can(world: World, wish: str) -> None:
    await pair_of_nodes(world)
    await hinder(world, "n2", "draining")
    assert await given(world, **{wish: "n1"}) == ("n1", [])
    assert await failed(world) == "n1"


# The node that has the rest of the turn.


async def test_a_bound_node_comes_first_before_the_preferred_one(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=4)
    await asyncio.gather(*(place(world, f"{CELL}.{number}") for number in range(3)))
    await join(world, "n2")
    assert await given(world, bound_node_id="n1", preferred_node_id="n2") == ("n1", [])
    assert await choice(world) == Choice(group=1, candidates=1, policy=0, reasons=[])


@pytest.mark.parametrize("why", HINDRANCES)
async def test_a_bound_node_that_cannot_gives_way_with_the_reason(world: World, why: str) -> None:
    await pair_of_nodes(world)
    await join(world, "n3")
    await hinder(world, "n1", why)
    assert await given(world, A, bound_node_id="n1", preferred_node_id="n3") == ("n3", [f"bound {why}"])
    assert await given(world, B, bound_node_id="n1", exclude_node_ids=["n3"]) == ("n2", [f"bound {why}"])


@pytest.mark.parametrize("never", NEVER)
async def test_a_bound_node_that_never_could_is_no_obstacle(world: World, never: str) -> None:
    said, wanted = NEVER[never]
    await join(world, "n1", **said)
    await join(world, "n2", nmt_pairs="any", tts_langs=["zh", "en"], labels={"region": "eu"})
    why = "no_pool" if never in {"another pair", "no pair"} else "no_service"
    assert await given(world, bound_node_id="n1", **wanted) == ("n2", [f"bound {why}"])


async def test_a_bound_node_that_is_gone_private_or_excluded_is_no_obstacle(world: World) -> None:
    await join(world, "n1", accept_public_jobs=False)
    await join(world, "n2")
    await join(world, "n3")
    assert await given(world, A, bound_node_id="n9", exclude_node_ids=["n3"]) == ("n2", ["bound unknown"])
    assert await given(world, B, bound_node_id="n1", exclude_node_ids=["n3"]) == ("n2", ["bound not_permitted"])
    assert await given(world, C, bound_node_id="n2", exclude_node_ids=["n2"]) == ("n3", ["bound excluded"])


async def test_a_job_that_insists_is_bound_to_nobody_else(world: World) -> None:
    await pair_of_nodes(world)
    assert await given(world, bound_node_id="n2", preferred_node_id="n1", strict=True) == ("n1", [])
    refused = ask(world, B, bound_node_id="n2", preferred_node_id="n1", strict=True)
    assert await watch(world, refused) == (unavailable("n1", "full"), {})
    assert await given(world, C, bound_node_id="n2", preferred_node_id="n2", strict=True) == ("n2", [])


async def test_all_wishes_that_could_not_be_met_are_told_in_order(world: World) -> None:
    await pair_of_nodes(world)
    await hinder(world, "n1", "full")
    await join(world, "n3")
    await drain(world.engine, CELL, "n2")
    wishes = {"bound_node_id": "n2", "preferred_node_id": "n1", "policy": "sticky_pool", "last_pool": "blue"}
    assert await given(world, **wishes) == ("n3", ["bound draining", "preferred full", "pool full"])
    assert await given(world, B, bound_node_id="n1", preferred_node_id="n1") == ("n3", ["bound full", "preferred full"])


# Folded.


async def test_whoever_asks_in_one_tick_is_answered_as_one_by_one(make_world: MakeWorld) -> None:
    jobs: list[dict[str, Any]] = [
        {"preferred_node_id": "n1"},
        {"preferred_node_id": "n1"},
        {"preferred_node_id": "n1", "strict": True},
        {"preferred_node_id": "n9"},
        {},
        {"services": ("tone",)},
        {"bound_node_id": "n3", "seen_node_ids": ["n2"]},
        {"bound_node_id": "n3", "exclude_node_ids": ["n2", "n4"]},
        {"preferred_node_id": "p1"},
        {"preferred_node_id": "p1", "exclude_node_ids": ["n4"]},
        {"labels": {"region": "eu"}, "policy": "least_loaded"},
        {"labels": {"region": "us"}},
        {"services": SPOKEN, "two_way": True},
        {"policy": "sticky_pool", "last_pool": "blue"},
        {"policy": "spread", "last_node_id": "n2"},
        {"preferred_node_id": "n3", "strict": True, "wait_ms": 500},
        {"exclude_node_ids": ["n2"], "wait_ms": 500},
        *[{}] * 6,
        {"services": ("tone",)},
        {"exclude_node_ids": ["n1", "n2", "n3", "n4"]},
        {"labels": {"region": "eu"}},
        {},
    ]

    async def world_with_nodes() -> World:
        world = await make_world()
        await join(world, "n1", max_concurrent_jobs=1)
        await join(world, "n2", labels={"group": "blue", "region": "eu"})
        await join(world, "n3", nmt_pairs=[["en", "zh"], ["zh", "en"]], tts_langs=["en", "zh"])
        await join(world, "n4", services={"tone": False})
        await join(world, "p1", accept_public_jobs=False, max_concurrent_jobs=1)
        return world

    folded, alone = await world_with_nodes(), await world_with_nodes()
    asked = [(f"{CELL}.{n}", {**what, "seed": 1_000_003 * n}) for n, what in enumerate(jobs)]
    answers = await asyncio.gather(*(ask(folded, job_id, **what) for job_id, what in asked))
    assert answers == [await ask(alone, job_id, **what) for job_id, what in asked]
    assert await folded.cell() == await alone.cell()
    codes = {type(answer).__name__ if not hasattr(answer, "code") else answer.code for answer in answers}
    assert codes == {
        "Placed",
        "Waiting",
        "ALL_CANDIDATES_FULL_OR_FAILED",
        "NO_CAPABLE_NODE",
        "PREFERRED_NODE_NOT_CAPABLE",
        "PREFERRED_NODE_UNAVAILABLE",
    }


async def test_a_refusal_of_one_tick_is_not_that_of_another_wish(world: World) -> None:
    await pair_of_nodes(world, services={"tone": False}, labels={"region": "eu"})
    await hinder(world, "n1", "full")
    await hinder(world, "n2", "draining")
    wanted: list[dict[str, Any]] = [
        {},
        {"services": ("tone",)},
        {"exclude_node_ids": ["n1"]},
        {"services": SPOKEN},
        {"labels": {"region": "eu"}},
        {},
    ]
    answers = await asyncio.gather(*(ask(world, f"{CELL}.{n}", **what) for n, what in enumerate(wanted)))
    assert answers == [
        none_free(pool=2, full=1, draining=1),
        none_free(pool=2, no_service=1, draining=1),
        none_free(pool=2, excluded=1, draining=1),
        incapable("2 serve the pair, but none speaks zh"),
        none_free(pool=2, full=1, no_service=1),
        none_free(pool=2, full=1, draining=1),
    ]


@pytest.mark.parametrize("other", ["", "full"])
async def test_a_private_node_that_has_seen_the_utterance_is_taken_when_nobody_else_can(
    world: World, other: str
) -> None:
    """Where there is no public node, and where there is one without room."""
    await join(world, "mine", accept_public_jobs=False)
    if other:
        await join(world, "public", max_concurrent_jobs=1)
        await place(world, B)
    answer = await given(world, preferred_node_id="mine", seen_node_ids=["mine"])
    assert answer == ("mine", ["preferred seen", "again"])


async def test_a_job_that_may_wait_a_millisecond_waits(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await place(world, B)
    assert await ask(world, wait_ms=1) == Waiting(1, T0 + 1)


async def test_a_private_node_of_the_fallback_is_asked_by_who_names_it(world: World) -> None:
    """That only jobs which name it may have it does not keep them from falling back to it."""
    await join(world, "zh", semantic_langs=["zh"], nmt_pairs=[["zh", "en"]], accept_public_jobs=False)
    wanted = Wanted(preferred_node_id="zh")
    answer = await dispatch(world.engine, A, "s1", "yue", "en", seed=1, wanted=wanted)
    assert isinstance(answer, Placed)
    assert answer.node_id == "zh"
