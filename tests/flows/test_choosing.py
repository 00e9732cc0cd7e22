"""Of two random nodes with room the one with the lower share of its slots taken; equal: the first."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.needs import LACKS
from lingua_scheduler.core.records import Standing
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.resume import resume
from tests.support.pasts import DONE, live
from tests.support.stage import INCREMENT, MODULUS, MULTIPLIER, A, B, calls, join, place, seed_for
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


def spread(count: int) -> list[int]:
    """Seeds whose first numbers are evenly spread over all that the generator gives."""
    return [seed_for((2 * k + 1) * MODULUS // (2 * count)) for k in range(count)]


def expected(seed: int, nodes: list[tuple[str, int, int]]) -> str:
    """Who must be chosen: nodes (id, used, max) in the order of the index."""
    first = (seed * MULTIPLIER + INCREMENT) % MODULUS
    rest = list(nodes)
    one = rest.pop(first * len(rest) // MODULUS)
    if not rest:
        return one[0]
    second = (first * MULTIPLIER + INCREMENT) % MODULUS
    two = rest[second * len(rest) // MODULUS]
    return two[0] if two[1] / two[2] < one[1] / one[2] else one[0]


async def chosen(world: World, seed: int) -> str:
    """Who takes a job with this seed. The job is over at once, so that the fleet is as before."""
    placed = await place(world, f"{CELL}.{seed}", seed=seed)
    await done(world.engine, f"{CELL}.{seed}", 1, placed.node_id)
    return placed.node_id


async def busy(world: World, node_id: str, used: int, slots: int, group: int = 0) -> tuple[str, int, int]:
    """A node that joins and takes so many jobs before anybody else can."""
    tts = {"tts_langs": ["zh", "en", "fr"][:group]} if group else {}
    await join(world, node_id, max_concurrent_jobs=slots, **tts)
    await asyncio.gather(*(place(world, f"{CELL}.{node_id}-{number}") for number in range(used)))
    await drain(world.engine, CELL, node_id)
    return node_id, used, slots


@pytest.mark.parametrize("number", [1, 2, 3, 5])
async def test_equal_nodes_are_chosen_equally_often(world: World, number: int) -> None:
    for n in range(number):
        await join(world, f"n{n}")
    found = Counter([await chosen(world, seed) for seed in spread(60)])
    assert found == {f"n{n}": 60 // number for n in range(number)}


@pytest.mark.parametrize(
    ("number", "node_id"),
    [(0, "n0"), (MODULUS // 2 - 1, "n0"), (MODULUS // 2, "n1"), (MODULUS - 1, "n1")],
)
async def test_half_of_all_numbers_is_exactly_half(world: World, number: int, node_id: str) -> None:
    await join(world, "n0")
    await join(world, "n1")
    assert await chosen(world, seed_for(number)) == node_id


async def fleet(world: World, *nodes: tuple[int, int, int]) -> list[tuple[str, int, int]]:
    """Nodes with (used, max, group), in the order of the index; all of them are awake at the end."""
    found = [await busy(world, f"n{n}", used, slots, group) for n, (used, slots, group) in enumerate(nodes)]
    for node_id, _, _ in found:
        await resume(world.engine, CELL, node_id)
    groups = (await world.cell()).nodes
    order = [entry // LACKS for entry in (await world.cell()).pairs["en:zh"]]
    return sorted(found, key=lambda node: (order.index(groups[node[0]].group), node[0]))


@pytest.mark.parametrize(
    "nodes",
    [
        [(0, 1, 0), (1, 2, 0)],
        [(1, 2, 0), (0, 1, 0)],
        [(1, 3, 0), (1, 2, 0)],
        [(1, 2, 0), (2, 4, 0)],
        [(2, 3, 0), (3, 5, 0)],
        [(1, 2, 0), (1, 3, 0), (2, 3, 0), (0, 4, 0)],
        [(1, 2, 0), (1, 3, 1), (2, 3, 0), (0, 4, 1), (3, 8, 2)],
        [(0, 1, 2), (0, 1, 1), (0, 1, 0)],
    ],
)
async def test_the_lower_share_wins_and_equal_shares_leave_it_to_the_first(
    world: World, nodes: list[tuple[int, int, int]]
) -> None:
    ranked = await fleet(world, *nodes)
    seeds = spread(40)
    assert [await chosen(world, seed) for seed in seeds] == [expected(seed, ranked) for seed in seeds]


async def test_every_pair_of_nodes_is_drawn_in_every_order(world: World) -> None:
    """Two different ones: the second draw skips the first."""
    ranked = await fleet(world, (0, 4, 0), (1, 4, 0), (2, 4, 0), (3, 4, 0))
    drawn: Counter[tuple[int, int]] = Counter()
    for seed in spread(300):
        first = (seed * MULTIPLIER + INCREMENT) % MODULUS
        second = (first * MULTIPLIER + INCREMENT) % MODULUS
        one = first * 4 // MODULUS
        two = second * 3 // MODULUS
        drawn[one, two + (two >= one)] += 1
    assert set(drawn) == set(itertools.permutations(range(4), 2))
    found = Counter([await chosen(world, seed) for seed in spread(300)])
    wins: Counter[str] = Counter()
    for (one, two), number in drawn.items():
        wins[f"n{min(one, two)}"] += number
    assert found == wins
    assert ranked[0][0] == "n0"


async def test_the_busiest_of_all_is_chosen_only_when_it_is_alone(world: World) -> None:
    await fleet(world, (0, 4, 0), (1, 4, 0), (3, 4, 0))
    assert "n2" not in {await chosen(world, seed) for seed in spread(60)}
    for node_id in ("n0", "n1"):
        await drain(world.engine, CELL, node_id)
    assert await chosen(world, 7) == "n2"


async def test_nodes_that_cannot_be_chosen_are_never_drawn(world: World) -> None:
    """Before, between and after those that can, in the index and in its groups."""
    for n in range(9):
        await join(world, f"n{n}", **({"tts_langs": ["zh"]} if n % 2 else {}))
    for n in (0, 3, 4, 8):
        await drain(world.engine, CELL, f"n{n}")
    await heartbeat(world.engine, CELL, "n5", health="degraded")
    await join(world, "a-other", nmt_pairs=[["zh", "en"]])
    ranked = [(f"n{n}", 0, 2) for n in (2, 6, 1, 7)]
    seeds = spread(40)
    assert [await chosen(world, seed) for seed in seeds] == [expected(seed, ranked) for seed in seeds]


async def tried(world: World, *node_ids: str) -> None:
    """A job that these nodes have failed, one after the other."""
    await place(world, A, limits=Limits(max_retry=10))
    for attempt, node_id in enumerate(node_ids, start=1):
        assert (await world.cell()).jobs[A].node == node_id
        answer = await fail(world.engine, A, attempt, node_id, reason="")
        assert isinstance(answer, Failed)


async def test_a_retry_goes_to_a_node_that_has_not_had_the_job(world: World) -> None:
    """Any order of failures visits all nodes before one a second time. Nobody is under suspicion for it."""
    for n in range(5):
        await join(world, f"n{n}", **({"tts_langs": ["zh"]} if n % 2 else {}))
    for seed in spread(12):
        job_id = f"{CELL}.{seed}"
        await place(world, job_id, seed=seed, limits=Limits(max_retry=10))
        visited = []
        for attempt in range(1, 6):
            node_id = (await world.cell()).jobs[job_id].node
            visited.append(node_id)
            await fail(world.engine, job_id, attempt, node_id, reason="")
        assert sorted(visited) == [f"n{n}" for n in range(5)]
        job = (await world.cell()).jobs[job_id]
        assert (job.state, job.attempt) == ("RESERVED", 6)
        await done(world.engine, job_id, 6, job.node)
        await asyncio.gather(*(live(world, node_id, 2 * DONE) for node_id in visited))
        assert {node.standing for node in (await world.cell()).nodes.values()} == {Standing.available}


async def test_a_retry_chooses_among_the_others_as_a_dispatch_does(world: World) -> None:
    """All nodes that were not tried, whatever their place: exactly the two random choices among them.

    Who failed a job does two others well, so that nobody comes under suspicion.
    """
    nodes = [(f"n{n}", n % 3, 3) for n in range(7)]
    for node_id, used, slots in nodes:
        await busy(world, node_id, used, slots, group=1 if node_id in {"n1", "n4", "n6"} else 0)
    for node_id, _, _ in nodes:
        await resume(world.engine, CELL, node_id)
    ranked = [nodes[n] for n in (0, 2, 3, 5, 1, 4, 6)]
    for seed in spread(25):
        job_id = f"{CELL}.{seed}"
        placed = await place(world, job_id, seed=seed, limits=Limits(max_retry=10))
        had: list[str] = []
        node_id = placed.node_id
        for attempt in range(1, 6):
            had.append(node_id)
            before = (await world.cell()).jobs[job_id].seed
            answer = await fail(world.engine, job_id, attempt, node_id, reason="")
            assert isinstance(answer, Failed)
            assert answer.node_id == expected(before, [node for node in ranked if node[0] not in had])
            node_id = answer.node_id
        await done(world.engine, job_id, 6, node_id)
        await asyncio.gather(*(live(world, had_it, 2 * DONE) for had_it in had))


async def test_a_retry_returns_to_a_node_that_had_the_job_when_no_other_has_room(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=2)
    await place(world, A)
    await join(world, "n2", max_concurrent_jobs=1)
    await place(world, B, seed=seed_for(MODULUS - 1))
    assert (await world.cell()).jobs[B].node == "n2"
    answer = await fail(world.engine, A, 1, "n1", reason="")
    assert isinstance(answer, Failed)
    assert answer.node_id == "n1"


async def test_a_node_that_had_the_job_twice_is_avoided_once(world: World) -> None:
    """Attempts 1 and 2 on n1, 3 on n2: with both free again and n3 there, it is n3's turn."""
    await join(world, "n1")
    await tried(world, "n1", "n1")
    await live(world, "n1", 3 * DONE)
    await drain(world.engine, CELL, "n1")
    await join(world, "n2")
    await fail(world.engine, A, 3, "n1", reason="")
    await join(world, "n0")
    await resume(world.engine, CELL, "n1")
    assert (await world.cell()).nodes["n1"].standing == Standing.available
    answer = await fail(world.engine, A, 4, "n2", reason="")
    assert isinstance(answer, Failed)
    assert answer.node_id == "n0"


async def test_a_node_that_is_gone_is_avoided_without_harm(world: World) -> None:
    await join(world, "n1")
    await tried(world, "n1")
    await join(world, "n2")
    await leave(world.engine, CELL, "n1")
    job = (await world.cell()).jobs[A]
    assert (job.node, job.attempt) == ("n2", 3)
    await join(world, "n3")
    answer = await fail(world.engine, A, 3, "n2", reason="")
    assert isinstance(answer, Failed)
    assert answer.node_id == "n3"


async def test_choosing_costs_the_same_however_many_nodes_there_are(world: World) -> None:
    """The index is counted, never walked: the same commands among 3 nodes and among 100."""
    dispatches: list[Counter[str]] = []
    retries: list[Counter[str]] = []
    joined = 0
    for number in (3, 100):
        await asyncio.gather(*(join(world, f"n{n:03}") for n in range(joined, number)))
        joined = number
        job_id = f"{CELL}.{number}"
        before = await calls(world)
        placed = await place(world, job_id)
        after = await calls(world)
        await fail(world.engine, job_id, 1, placed.node_id, reason="")
        dispatches.append(after - before)
        retries.append(await calls(world) - after)
    assert dispatches[0] == dispatches[1]
    assert retries[0] == retries[1]
    assert dispatches[0]["evalsha"] == retries[0]["evalsha"] == 1


async def test_a_dispatch_reads_both_nodes_in_one_call(world: World) -> None:
    """Half of what a dispatch costs is calls: the job, its pair, the room in its groups, two nodes."""
    for n in range(3):
        await join(world, f"n{n}")
    before = await calls(world)
    await place(world)
    cost = await calls(world) - before
    assert (cost["hget"], cost["hmget"], cost["zrange"]) == (0, 4, 2)
