"""Nodes that a job excludes are left out exactly; nodes that have seen it, while another can."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from tests.support.cells import watch
from tests.support.stage import A, B, C, D, join
from tests.support.wishes import ask, choice, drawn, failed, given, hinder, none_free, spread_seeds
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

PERSISTENT = Limits(max_retry=10)
#: Seventeen nodes of two groups, in the order of the index.
EVEN, ODD = [f"n{n:02}" for n in range(0, 17, 2)], [f"n{n:02}" for n in range(1, 17, 2)]
SEVENTEEN = [(node_id, 0, 2) for node_id in EVEN + ODD]
#: Some at both ends and side by side.
SOME = [[0], [16], [3, 4, 5], list(range(1, 16)), list(range(15)), list(range(16)), list(range(1, 17))]


async def pair_of_nodes(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await join(world, "n2", max_concurrent_jobs=1)


async def seventeen(world: World) -> None:
    await asyncio.gather(*(join(world, node_id) for node_id in EVEN))
    await asyncio.gather(*(join(world, node_id, tts_langs=["zh"]) for node_id in ODD))


@pytest.mark.parametrize("which", ["exclude_node_ids", "seen_node_ids"])
@pytest.mark.parametrize("some", SOME, ids=lambda some: f"{len(some)} from {some[0]}")
async def test_nodes_that_are_named_are_left_out_exactly(world: World, which: str, some: list[int]) -> None:
    """Among the others the choice is as if they were all there are."""
    await seventeen(world)
    named = [SEVENTEEN[n][0] for n in some]
    others = [node for node in SEVENTEEN if node[0] not in named]
    for seed in spread_seeds(12):
        what: dict[str, Any] = {which: named, "seed": seed}
        assert await given(world, f"{CELL}.{seed}", **what) == (drawn(seed, others), [])
        assert (await choice(world, f"{CELL}.{seed}")).candidates == len(others)
        await done(world.engine, f"{CELL}.{seed}", 1, drawn(seed, others))


async def test_when_every_node_is_excluded_there_is_none(world: World) -> None:
    await join(world, "n1")
    await join(world, "n2", tts_langs=["zh"])
    refused = ask(world, exclude_node_ids=["n2", "n1"])
    assert await watch(world, refused) == (none_free(pool=2, excluded=2), {})


async def test_when_every_node_has_seen_it_any_will_do(world: World) -> None:
    nodes = [(f"n{n}", 0, 2) for n in range(3)]
    for node_id, _, _ in nodes:
        await join(world, node_id)
    for seed in spread_seeds(9):
        what: dict[str, Any] = {"seen_node_ids": ["n2", "n0", "n1"], "seed": seed}
        assert await given(world, f"{CELL}.{seed}", **what) == (drawn(seed, nodes), ["again"])
        assert (await choice(world, f"{CELL}.{seed}")).candidates == 3
        await done(world.engine, f"{CELL}.{seed}", 1, drawn(seed, nodes))


async def test_a_node_that_has_seen_it_is_taken_when_the_others_are_full_or_excluded(world: World) -> None:
    await pair_of_nodes(world)
    await join(world, "n3")
    await hinder(world, "n1", "full")
    assert await given(world, exclude_node_ids=["n2"], seen_node_ids=["n3"]) == ("n3", ["again"])
    assert (await choice(world)).candidates == 1


async def test_names_that_nobody_has_and_nodes_of_other_pairs_leave_nothing_out(world: World) -> None:
    await join(world, "n1")
    await join(world, "other", nmt_pairs=[["zh", "en"]])
    await join(world, "none", nmt_pairs=[])
    names = ["n9", "other", "none", "n"]
    assert await given(world, A, exclude_node_ids=names) == ("n1", [])
    assert await given(world, B, seen_node_ids=[*names, "n1"]) == ("n1", ["again"])
    refused = ask(world, C, exclude_node_ids=[*names, "n1"])
    assert await watch(world, refused) == (none_free(pool=1, excluded=1), {})


@pytest.mark.parametrize("which", ["exclude_node_ids", "seen_node_ids"])
async def test_a_node_that_cannot_be_chosen_anyway_leaves_nothing_else_out(world: World, which: str) -> None:
    what: dict[str, Any] = {which: ["n1"]}
    await pair_of_nodes(world)
    await join(world, "n3")
    await hinder(world, "n1", "full")
    for seed in spread_seeds(4):
        expected = drawn(seed, [("n2", 0, 1), ("n3", 0, 2)])
        assert await given(world, f"{CELL}.{seed}", seed=seed, **what) == (expected, [])
        assert (await choice(world, f"{CELL}.{seed}")).candidates == 2
        await done(world.engine, f"{CELL}.{seed}", 1, expected)


async def test_a_retry_never_goes_to_a_node_that_is_excluded(world: World) -> None:
    await pair_of_nodes(world)
    assert await given(world, exclude_node_ids=["n2"], limits=PERSISTENT) == ("n1", [])
    assert await failed(world) == "n1"
    await drain(world.engine, CELL, "n1")
    assert await failed(world) == ""
    await join(world, "n3")
    assert (await world.cell()).jobs[A].node == "n3"


@pytest.mark.parametrize("seed", spread_seeds(6))
async def test_a_retry_avoids_the_nodes_that_had_the_job_and_those_that_saw_it(world: World, seed: int) -> None:
    """Five nodes, two of which saw it: the other three get it, each once; then any."""
    for n in range(5):
        await join(world, f"n{n}", **({"tts_langs": ["zh"]} if n % 2 else {}))
    visited = [(await given(world, seed=seed, seen_node_ids=["n1", "n2"], limits=PERSISTENT))[0]]
    numbers = [(await choice(world)).candidates]
    for _ in range(3):
        visited.append(await failed(world))
        numbers.append((await choice(world)).candidates)
    assert (sorted(visited[:3]), numbers) == (["n0", "n3", "n4"], [3, 2, 1, 5])


async def test_a_node_may_stand_in_several_lists_and_several_times(world: World) -> None:
    for n in range(1, 5):
        await join(world, f"n{n}")
    twice: dict[str, Any] = {
        "exclude_node_ids": ["n1", "n2", "n1"],
        "seen_node_ids": ["n3", "n2", "n2"],
        "bound_node_id": "n1",
        "last_node_id": "n3",
        "policy": "spread",
    }
    assert await given(world, **twice) == ("n4", ["bound excluded"])
    assert (await choice(world)).candidates == 1


async def test_what_was_seen_comes_before_a_wish_while_another_can(world: World) -> None:
    """Unless the job insists."""
    await join(world, "n1", max_concurrent_jobs=3)
    await join(world, "n2")
    seen: dict[str, Any] = {"seen_node_ids": ["n1"], "last_node_id": "n1", "policy": "spread"}
    assert await given(world, A, preferred_node_id="n1", **seen) == ("n2", ["preferred seen"])
    assert await given(world, B, bound_node_id="n1", **seen) == ("n2", ["bound seen"])
    assert await given(world, C, preferred_node_id="n1", **seen) == ("n1", ["preferred seen", "last node", "again"])
    assert await given(world, D, bound_node_id="n1", **seen) == ("n1", ["bound seen", "last node", "again"])
    await done(world.engine, A, 1, "n2")
    assert await given(world, f"{CELL}.e", preferred_node_id="n1", strict=True, **seen) == ("n1", ["again"])
