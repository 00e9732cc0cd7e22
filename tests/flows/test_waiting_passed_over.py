"""A fall looks at each pair until it finds nobody; what one job alone wishes does not count against the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from tests.support.cells import GONE, watch
from tests.support.falls import asks, yue_node, zh_node
from tests.support.pasts import doubt, give
from tests.support.stage import T0, A, B, C, calls, join, nodes_of, queued, wait, waiting
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


async def test_a_pair_for_which_there_is_no_room_does_not_stop_another(world: World) -> None:
    await zh_node(world, health="degraded")
    await zh_node(world, "fr", nmt_pairs=[["zh", "fr"]])
    await yue_node(world, nmt_pairs=[["yue", "en"], ["yue", "fr"]], health="degraded")
    await wait(world, {A: 50_000, B: 60_000}, "yue:en")
    await wait(world, {C: 60_000}, "yue:fr")
    await heartbeat(world.engine, CELL, "yue", nmt_pairs=[])
    assert nodes_of(await world.cell(), A, B, C) == ["", "", "fr"]


async def test_a_pair_that_somebody_serves_does_not_stop_another(world: World) -> None:
    await zh_node(world, nmt_pairs=[["zh", "en"], ["zh", "fr"]])
    await yue_node(world, health="degraded")
    await yue_node(world, "fr", nmt_pairs=[["yue", "fr"]], health="degraded")
    await wait(world, {A: 60_000}, "yue:en")
    await wait(world, {C: 60_000}, "yue:fr")
    await heartbeat(world.engine, CELL, "fr", nmt_pairs=[])
    assert nodes_of(await world.cell(), A, C) == ["", "zh"]


async def test_those_of_a_pair_for_whose_fallback_there_is_no_room_cost_nothing(world: World) -> None:
    await zh_node(world, health="degraded", max_concurrent_jobs=20)
    names = [f"{CELL}.j{n:03}" for n in range(13)]
    costs = []
    for some in (names[:3], names[3:]):
        await yue_node(world, health="degraded")
        for name in some:
            await asks(world, name, wanted=Wanted(wait_ms=60_000))
        before = await calls(world)
        await heartbeat(world.engine, CELL, "yue", nmt_pairs=[])
        costs.append(await calls(world) - before)
    assert costs[1] == costs[0]
    assert len(waiting(await world.cell())) == 13
    await heartbeat(world.engine, CELL, "zh", health="ready")
    assert nodes_of(await world.cell(), *names) == ["zh"] * 13


async def test_those_whose_pair_somebody_serves_cost_nothing(world: World) -> None:
    """Whatever they wish."""
    await yue_node(world, health="degraded")
    names = [f"{CELL}.j{n:03}" for n in range(13)]
    costs = []
    for some in (names[:3], names[3:]):
        await yue_node(world, "yue2", health="degraded")
        for name in some:
            await asks(world, name, wanted=Wanted(wait_ms=60_000, exclude_node_ids=["n9"]))
        before = await calls(world)
        await heartbeat(world.engine, CELL, "yue2", nmt_pairs=[])
        costs.append(await calls(world) - before)
    assert costs[1] == costs[0]


@pytest.mark.parametrize(
    "wanted",
    [
        {"exclude_node_ids": ["zh"]},
        {"labels": {"region": "eu"}},
        {"preferred_node_id": "yue", "strict": True},
    ],
)
async def test_a_job_with_wishes_that_finds_no_node_does_not_stop_the_others(
    world: World, wanted: dict[str, Any]
) -> None:
    await yue_node(world, health="degraded", labels={"region": "eu"})
    await zh_node(world)
    await asks(world, A, wanted=Wanted(wait_ms=60_000, **wanted), limits=Limits(timeout_ms=50_000))
    await asks(world, B, wanted=Wanted(wait_ms=60_000))
    await heartbeat(world.engine, CELL, "yue", nmt_pairs=[])
    assert nodes_of(await world.cell(), A, B) == ["", "zh"]


async def test_a_job_that_needs_more_and_finds_no_node_does_not_stop_the_others(world: World) -> None:
    await yue_node(world, health="degraded", tts_langs=["en"])
    await zh_node(world)
    spoken = Wanted(services=["asr", "nmt", "semantic", "tts"], wait_ms=60_000)
    await asks(world, A, wanted=spoken, limits=Limits(timeout_ms=50_000))
    await asks(world, B, wanted=Wanted(wait_ms=60_000))
    _, _ = await watch(world, heartbeat(world.engine, CELL, "yue", nmt_pairs=[]))
    assert nodes_of(await world.cell(), A, B) == ["", "zh"]


async def test_one_of_two_is_cancelled_and_the_other_is_served(world: World) -> None:
    await zh_node(world)
    await yue_node(world, health="degraded")
    await wait(world, {A: 60_000, B: 50_000}, "yue:en")
    _, changes = await watch(world, cancel(world.engine, B))
    assert changes["queue"] == {queued(B, T0 + 50_000, "yue:en"): GONE}
    await heartbeat(world.engine, CELL, "yue", nmt_pairs=[])
    assert nodes_of(await world.cell(), A) == ["zh"]


async def test_those_who_need_what_the_fallback_lacks_cost_a_look_each(world: World) -> None:
    """The first of them finds out for all."""
    await zh_node(world)
    await yue_node(world, health="degraded", tts_langs=["en"])
    wanted = Wanted(services=["asr", "nmt", "semantic", "tts"], wait_ms=60_000)
    costs = []
    for number in (2, 10):
        for n in range(number):
            await asks(world, f"{CELL}.{number}-{n}", wanted=wanted)
        before = await calls(world)
        await heartbeat(world.engine, CELL, "yue", nmt_pairs=[])
        costs.append(await calls(world) - before)
        await yue_node(world, health="degraded", tts_langs=["en"])
    assert len(waiting(await world.cell())) == 12
    assert costs[1] - costs[0] == {"hget": 10}


async def test_a_job_that_the_suspect_fallback_had_does_not_stop_a_new_one(world: World) -> None:
    """And a suspect is room enough for a fall."""
    both = {"nmt_pairs": [["en", "zh"], ["zh", "en"]], "semantic_langs": ["en", "zh"]}
    await join(world, "n1", **both)
    await doubt(world, "n1")
    for node_id in ("n2", "n3"):
        await join(world, node_id, max_concurrent_jobs=1, **both)
        await give(world, node_id)
    await asks(world, A, limits=Limits(timeout_ms=50_000))
    await yue_node(world, health="degraded")
    await fail(world.engine, A, 1, "n1", reason="broken")
    await asks(world, B, wanted=Wanted(wait_ms=60_000))
    assert nodes_of(await world.cell(), A, B) == ["", ""]
    await heartbeat(world.engine, CELL, "yue", nmt_pairs=[])
    assert nodes_of(await world.cell(), A, B) == ["", "n1"]
