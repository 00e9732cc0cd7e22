"""Who could take a job now, and for each other node the first thing that stands against it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.explain import Explanation, Verdict
from lingua_scheduler.core.reasons import AGAINST
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import Placed, Waiting, dispatch
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.mark import mark
from lingua_scheduler.flows.resume import resume
from lingua_scheduler.views.explain import explain_pair
from tests.support.cells import watch
from tests.support.pasts import doubt, give, live
from tests.support.stage import A, code_of, join, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

YUE: dict[str, Any] = {"semantic_langs": ["yue", "en"], "nmt_pairs": [["yue", "en"]]}
ZH: dict[str, Any] = {"semantic_langs": ["zh", "en"], "nmt_pairs": [["zh", "en"]]}

#: Nodes of the fleet below that could take a job.
ABLE = {"could", "doubtful"}
#: How a refusal counts those that could not; "" is not at all.
COUNTED = {reason.word: reason.counted for reason in AGAINST}
#: Whom nobody could have in a fleet: one that is not there, the spare of another pair, and those that a job had or
#: could have.
ELSEWHERE = {"unknown", "fallback", "had", "not_named", "seen"}


async def explain(world: World, pair: str = "en:zh", **wanted: Any) -> dict[str, str]:
    """Each node's reason, of the whole fleet."""
    told = await explain_pair(world.engine, [CELL], *pair.split(":"), wanted=Wanted(**wanted))
    assert isinstance(told, Explanation)
    nodes = told.nodes or []
    assert told == Explanation(pair, "", "", "", [], None, nodes, "")
    assert [verdict.node_id for verdict in nodes] == sorted({verdict.node_id for verdict in nodes})
    return {verdict.node_id: verdict.reason for verdict in nodes}


async def fleet(world: World) -> None:
    """A node for every reason, which is its name; and two that could take a job."""
    await join(world, "stale")
    world.now_ms += 34_000
    plain = ("could", "doubtful", "excluded", "full", "suspect_full", "resting", "draining", "marked")
    await asyncio.gather(
        *(join(world, node_id) for node_id in plain),
        join(world, "lost", connection="x"),
        join(world, "not_ready", health="degraded"),
        join(world, "no_pool", nmt_pairs=[["zh", "en"]]),
        join(world, "no_service", services={"nmt": False}),
        join(world, "not_permitted", accept_public_jobs=False),
    )
    await disconnect(world.engine, CELL, "lost", "x")
    await doubt(world, "doubtful", "suspect_full")
    for node_id in ("full", "full", "suspect_full", "suspect_full"):
        await give(world, node_id)
    rests = await give(world, "resting")
    await fail(world.engine, rests, 1, "resting", reason="", overloaded=True, retry_after_ms=60_000)
    await drain(world.engine, CELL, "draining")
    await mark(world.engine, CELL, "marked", "", "asr")
    world.now_ms += 1_000
    await sweep(world)


async def test_each_node_has_its_reason(world: World) -> None:
    await fleet(world)
    found = await explain(world, exclude_node_ids=["excluded"])
    nodes = (await world.cell()).nodes
    assert found == {node_id: "" if node_id in ABLE else node_id for node_id in nodes}
    assert {reason for reason in found.values() if reason} == COUNTED.keys() - ELSEWHERE


async def test_a_refusal_counts_what_is_explained(world: World) -> None:
    """And before that, the job goes to those who could take it and to nobody else."""
    await fleet(world)
    wanted = Wanted(exclude_node_ids=["excluded"])
    for number in range(2 * len(ABLE)):
        answer = await dispatch(world.engine, f"{CELL}.{number}", "s1", "en", "zh", wanted=wanted)
        assert isinstance(answer, Placed)
        assert answer.node_id in ABLE
    answer = await dispatch(world.engine, A, "s1", "en", "zh", wanted=wanted)
    assert isinstance(answer, Refusal)
    reasons = await explain(world, exclude_node_ids=["excluded"])
    found = Counter(COUNTED[reason] for reason in reasons.values() if reason != "no_pool")
    assert answer.breakdown == Breakdown(pool=found.total(), **found)


async def test_the_refusal_of_a_job_that_insists_and_has_waited_says_what_is_explained(world: World) -> None:
    await fleet(world)
    wanted: dict[str, Any] = {"preferred_node_id": "full", "strict": True, "exclude_node_ids": ["excluded"]}
    answer = await dispatch(world.engine, A, "s1", "en", "zh", wanted=Wanted(**wanted, wait_ms=1))
    assert isinstance(answer, Waiting)
    reasons = await explain(world, **wanted)
    assert {node_id for node_id, reason in reasons.items() if reason == "not_named"} == ABLE
    world.now_ms += 1
    await sweep(world)
    (told,) = [event.detail for event, _ in (await world.cell()).outbox if event.kind == "refused"]
    assert told == f"1 PREFERRED_NODE_UNAVAILABLE {reasons['full']}"


async def test_a_verdict_says_how_the_node_does(world: World) -> None:
    await join(world, max_concurrent_jobs=4)
    await live(world, "n1", "x")
    await give(world, "n1")
    told = await explain_pair(world.engine, [CELL], "en", "zh")
    assert told == Explanation("en:zh", nodes=[Verdict("n1", "", used=1, max=4, health=83, suspect=False, seen=False)])
    await live(world, "n1", "xx")
    told = await explain_pair(world.engine, [CELL], "en", "zh")
    assert told == Explanation("en:zh", nodes=[Verdict("n1", "", used=1, max=4, health=59, suspect=True, seen=False)])


async def test_the_first_of_many_reasons_is_given(world: World) -> None:
    """Everything stands against this node; what is taken away brings the next to light."""
    said: dict[str, Any] = {"services": {"nmt": False}, "accept_public_jobs": False, "nmt_pairs": [["zh", "en"]]}
    await join(world, **said)
    await mark(world.engine, CELL, "n1", "", "asr")
    await drain(world.engine, CELL, "n1")
    assert await explain(world, exclude_node_ids=["n1"]) == {"n1": "excluded"}
    found = [(await explain(world))["n1"]]
    for better in (
        {"nmt_pairs": [["en", "zh"]]},
        {"services": {"nmt": True}},
        {"accept_public_jobs": True},
    ):
        await heartbeat(world.engine, CELL, "n1", **better)
        found.append((await explain(world))["n1"])
    assert await explain(world, services=["nmt"]) == {"n1": "draining"}
    await resume(world.engine, CELL, "n1")
    found.append((await explain(world, services=["nmt"]))["n1"])
    assert found == ["no_pool", "no_service", "not_permitted", "marked", ""]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({}, {"services": ["tts"]}),
        ({"tts_langs": ["en"]}, {"services": ["tts"]}),
        ({"services": {"asr": False}}, {"services": ["asr"]}),
        ({"labels": {"region": "eu"}}, {"labels": {"region": "us"}}),
        ({}, {"two_way": True}),
    ],
)
async def test_a_node_of_the_pool_that_lacks_what_is_asked_for_has_no_service(
    world: World, said: dict[str, Any], wanted: dict[str, Any]
) -> None:
    await join(world, **said)
    assert await explain(world, **wanted) == {"n1": "no_service"}


class TestAJobThatNamesANode:
    async def test_it_may_have_a_private_node_that_it_names_and_no_other(self, world: World) -> None:
        for node_id in ("n1", "n2"):
            await join(world, node_id, accept_public_jobs=False)
        assert await explain(world) == {"n1": "not_permitted", "n2": "not_permitted"}
        assert await explain(world, preferred_node_id="n1") == {"n1": "", "n2": "not_permitted"}

    async def test_a_private_node_that_it_names_can_be_marked(self, world: World) -> None:
        await join(world, accept_public_jobs=False)
        await mark(world.engine, CELL, "n1", "", "asr")
        assert await explain(world) == {"n1": "not_permitted"}
        assert await explain(world, preferred_node_id="n1") == {"n1": "marked"}

    async def test_a_private_node_that_it_names_can_be_full(self, world: World) -> None:
        await join(world, accept_public_jobs=False, max_concurrent_jobs=1)
        await give(world, "n1")
        assert await explain(world, preferred_node_id="n1") == {"n1": "full"}


class TestAPairWithAFallback:
    async def test_while_one_of_its_own_lives_the_others_are_only_a_fallback(self, world: World) -> None:
        await join(world, "yue", **YUE)
        await join(world, "zh", **ZH)
        await join(world, "en")
        await drain(world.engine, CELL, "yue")
        assert await explain(world, "yue:en") == {"yue": "draining", "zh": "fallback", "en": "no_pool"}
        assert await explain(world, "zh:en") == {"yue": "no_pool", "zh": "", "en": "no_pool"}

    async def test_where_nobody_is_its_own_the_fallback_could_take_it(self, world: World) -> None:
        await join(world, "zh", **ZH)
        assert await explain(world, "yue:en") == {"zh": ""}
        await drain(world.engine, CELL, "zh")
        assert await explain(world, "yue:en") == {"zh": "draining"}

    async def test_when_its_own_are_dead_the_fallback_could_take_it(self, world: World) -> None:
        await join(world, "yue", **YUE)
        world.now_ms += 35_000
        await join(world, "zh", **ZH)
        await sweep(world)
        await join(world, "deaf", **ZH, services={"asr": False})
        await join(world, "private", **ZH, accept_public_jobs=False)
        assert await explain(world, "yue:en") == {
            "yue": "stale",
            "zh": "",
            "deaf": "no_service",
            "private": "not_permitted",
        }
        answer = await dispatch(world.engine, A, "s1", "yue", "en")
        assert isinstance(answer, Placed)
        assert answer.node_id == "zh"

    async def test_where_no_fallback_could_ever_take_it_its_own_are_asked(self, world: World) -> None:
        await join(world, "yue", **YUE)
        world.now_ms += 35_000
        await join(world, "deaf", **ZH, services={"asr": False})
        await sweep(world)
        assert await explain(world, "yue:en") == {"yue": "stale", "deaf": "fallback"}

    async def test_a_pair_that_must_be_served_both_ways_has_no_fallback(self, world: World) -> None:
        await join(world, "zh", semantic_langs=["zh", "en"], nmt_pairs="any")
        assert await explain(world, "yue:en", two_way=True) == {"zh": "no_pool"}


async def test_a_dry_run_changes_nothing_and_settles_nothing(world: World) -> None:
    """It tells of the fleet as it was last looked at."""
    await fleet(world)
    world.now_ms += 100_000
    found, changes = await watch(world, explain(world))
    assert changes == {}
    assert {node_id for node_id, reason in found.items() if not reason} == {*ABLE, "excluded"}


async def test_nobody_is_there(world: World) -> None:
    assert await explain_pair(world.engine, [CELL], "en", "zh") == Explanation("en:zh", nodes=[])


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ((["no cell"], "en", "zh"), {}),
        (([CELL], "", "zh"), {}),
        (([CELL], "en", "klingon"), {}),
        (([CELL], "en", "zh"), {"cursor": "a b"}),
        (([CELL], "en", "zh"), {"cursor": None}),
        (([CELL], "en", "zh"), {"count": 0}),
        (([CELL], "en", "zh"), {"count": 1_001}),
        (([CELL], "en", "zh"), {"wanted": None}),
        (([CELL], "en", "zh"), {"wanted": Wanted(policy="best")}),
        (([CELL], "en", "zh"), {"wanted": Wanted(strict=True)}),
    ],
)
async def test_what_cannot_be_right_is_refused(
    world: World, args: tuple[list[str], str, str], named: dict[str, Any]
) -> None:
    assert code_of(await explain_pair(world.engine, *args, **named)) == "INVALID_MESSAGE"


async def test_who_is_not_the_node_that_a_job_insists_on_is_not_named(world: World) -> None:
    for node_id in ("n1", "n2"):
        await join(world, node_id)
    assert await explain(world, preferred_node_id="n1", strict=True) == {"n1": "", "n2": "not_named"}
