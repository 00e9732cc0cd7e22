"""How a node is chosen among those with room: random, spread, sticky_pool, least_loaded."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Choice
from lingua_scheduler.core.wanted import Hints, Policy, Wanted
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.resume import resume
from tests.support.stage import A, B, join, place
from tests.support.wishes import ask, asking, choice, drawn, failed, given, hinder, none_free, spread_seeds
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


async def fleet(world: World, *nodes: tuple[int, int], **said: Any) -> list[tuple[str, int, int]]:
    """Nodes of one group with (used, max), in the order of the index."""
    found = [(f"n{n:02}", used, slots) for n, (used, slots) in enumerate(nodes)]
    await asyncio.gather(*(join(world, node_id, max_concurrent_jobs=slots, **said) for node_id, _, slots in found))
    jobs = [(node_id, number) for node_id, used, _ in found for number in range(used)]
    at = [asking(preferred_node_id=node_id, strict=True) for node_id, _ in jobs]
    names = [f"{CELL}.{node_id}-{number}" for node_id, number in jobs]
    await asyncio.gather(*(place(world, name, **there) for name, there in zip(names, at, strict=True)))
    return found


async def predicted(world: World, nodes: list[tuple[str, int, int]], most: int, **what: Any) -> None:
    """Jobs with seeds all over the place go exactly where the generator says, each to the fleet as it was."""
    for seed in spread_seeds(30):
        node_id = drawn(seed, nodes, most)
        assert (await place(world, f"{CELL}.{seed}", **asking(seed=seed, **what))).node_id == node_id
        why = await choice(world, f"{CELL}.{seed}")
        assert (why.candidates, why.reasons) == (len(nodes), [])
        await done(world.engine, f"{CELL}.{seed}", 1, node_id)


LOADS = [(1, 2), (1, 3), (2, 3), (0, 4), (3, 8), (0, 1), (2, 4), (5, 8), (1, 4), (7, 8), (0, 2), (3, 4)]


# Which policy a job has.


@pytest.mark.parametrize("policy", Policy.__members__)
async def test_the_policy_of_a_job_is_written_down_with_the_choice(world: World, policy: str) -> None:
    await join(world)
    assert await given(world, policy=policy) == ("n1", [])
    assert await choice(world) == Choice(group=1, candidates=1, policy=Policy[policy], reasons=[])
    assert (await world.cell()).tickets[A].policy == Policy[policy]


@pytest.mark.parametrize("policy", ["random", "spread", "sticky_pool"])
async def test_without_anything_remembered_it_is_the_less_loaded_of_two(world: World, policy: str) -> None:
    nodes = await fleet(world, *LOADS)
    await predicted(world, nodes, 2, policy=policy)


@pytest.mark.parametrize("policy", ["random", "least_loaded"])
async def test_what_is_remembered_changes_nothing_for_who_did_not_ask(world: World, policy: str) -> None:
    nodes = [*await fleet(world, *LOADS[:6]), ("x", 0, 2)]
    await join(world, "x", labels={"group": "blue"})
    remembered = {"last_node_id": "n01", "last_pool": "blue"}
    await predicted(world, nodes, 8 if policy == "least_loaded" else 2, policy=policy, **remembered)


# spread


async def test_spread_avoids_the_last_node_while_another_can(world: World) -> None:
    nodes = await fleet(world, *LOADS)
    others = [node for node in nodes if node[0] != "n05"]
    await predicted(world, others, 2, policy="spread", last_node_id="n05")


async def test_spread_takes_the_last_node_when_no_other_can(world: World) -> None:
    await fleet(world, (0, 4), (1, 1))
    assert await given(world, policy="spread", last_node_id="n00") == ("n00", ["last node"])
    assert await choice(world) == Choice(group=1, candidates=1, policy=Policy.spread, reasons=["last node"])
    await join(world, "n02")
    answer = await given(world, B, policy="spread", last_node_id="n00", exclude_node_ids=["n02"])
    assert answer == ("n00", ["last node"])


async def test_spread_avoids_no_pool(world: World) -> None:
    nodes = await fleet(world, (0, 2), (0, 2), labels={"group": "blue"})
    await predicted(world, nodes, 2, policy="spread", last_pool="blue")


async def test_a_session_that_spreads_never_has_the_same_node_twice_in_a_row(world: World) -> None:
    await fleet(world, *[(0, 2)] * 3)
    last, random = "", Random(1)
    for number in range(40):
        what: dict[str, Any] = {"seed": random.randrange(2**32), "last_node_id": last, "policy": "spread"}
        node_id, _ = await given(world, f"{CELL}.{number}", **what)
        assert node_id != last
        await done(world.engine, f"{CELL}.{number}", 1, node_id)
        last = node_id


# sticky_pool


async def pools(world: World) -> None:
    """Two nodes of one blue group, one of another, one red, one that says nothing and one that says it elsewhere."""
    await join(world, "n1", labels={"group": "blue"})
    await join(world, "n2", labels={"group": "red"})
    await join(world, "n3", labels={"group": "blue", "region": "eu"})
    await join(world, "n4", labels={"group": "blue"})
    await join(world, "n5")
    await join(world, "n6", labels={"pool": "blue"})


async def test_sticky_pool_stays_in_the_last_pool_while_it_has_room(world: World) -> None:
    await pools(world)
    blue = [("n1", 0, 2), ("n4", 0, 2), ("n3", 0, 2)]
    await predicted(world, blue, 2, policy="sticky_pool", last_pool="blue")


async def test_sticky_pool_leaves_a_pool_without_room_and_says_so(world: World) -> None:
    """Its nodes are full to the last slot before any other has a job."""
    await pools(world)
    sticky: dict[str, Any] = {"policy": "sticky_pool", "last_pool": "blue"}
    answers = await asyncio.gather(*(place(world, f"{CELL}.{n}", **asking(**sticky)) for n in range(6)))
    assert Counter(answer.node_id for answer in answers) == {"n1": 2, "n3": 2, "n4": 2}
    node_id, reasons = await given(world, A, **sticky)
    assert (node_id in {"n2", "n5", "n6"}, reasons) == (True, ["pool full"])
    assert await choice(world) == Choice((await world.cell()).nodes[node_id].group, 3, 2, ["pool full"])


async def test_who_had_no_pool_leaves_none(world: World) -> None:
    """Nodes that carry no such label are no pool."""
    await pools(world)
    assert (await given(world, A, policy="sticky_pool", last_node_id="n1", seen_node_ids=["n2"]))[1] == []
    assert (await choice(world)).candidates == 5


@pytest.mark.parametrize("last_pool", ["green", "Blue", "blue ", "group"])
async def test_a_pool_that_nobody_is_in_is_full(world: World, last_pool: str) -> None:
    await pools(world)
    _, reasons = await given(world, policy="sticky_pool", last_pool=last_pool)
    assert reasons == ["pool full"]
    assert (await choice(world)).candidates == 6


async def test_sticky_pool_knows_only_nodes_that_can_have_the_job(world: World) -> None:
    """Excluded ones, other pairs and other services have no room for it; seen ones only while another has."""
    await join(world, "n1", labels={"group": "blue"})
    await join(world, "n2", labels={"group": "blue"}, services={"asr": False})
    await join(world, "n3", labels={"group": "blue"}, nmt_pairs=[["zh", "en"]])
    await join(world, "n4", labels={"group": "blue"})
    await join(world, "n5")
    sticky: dict[str, Any] = {"policy": "sticky_pool", "last_pool": "blue"}
    assert await given(world, f"{CELL}.1", **sticky, exclude_node_ids=["n1"]) == ("n4", [])
    assert await given(world, f"{CELL}.2", **sticky, seen_node_ids=["n4"]) == ("n1", [])
    assert await given(world, f"{CELL}.3", **sticky, exclude_node_ids=["n1", "n4"]) == ("n5", ["pool full"])
    assert await given(world, f"{CELL}.4", **sticky, labels={"group": "blue"}, seen_node_ids=["n1"]) == ("n4", [])


async def test_a_pool_that_is_drained_is_full_and_comes_back(world: World) -> None:
    await pools(world)
    sticky: dict[str, Any] = {"policy": "sticky_pool", "last_pool": "red"}
    await drain(world.engine, CELL, "n2")
    assert (await given(world, A, **sticky))[1] == ["pool full"]
    await resume(world.engine, CELL, "n2")
    assert await given(world, B, **sticky) == ("n2", [])


async def test_sticky_pool_says_nothing_of_a_pool_when_there_is_nobody_at_all(world: World) -> None:
    await join(world, "n1", labels={"group": "blue"}, max_concurrent_jobs=1)
    await hinder(world, "n1", "full")
    assert await ask(world, policy="sticky_pool", last_pool="blue") == none_free(pool=1, full=1)


async def test_a_retry_stays_in_the_pool_while_another_node_of_it_can(world: World) -> None:
    await pools(world)
    sticky: dict[str, Any] = {"policy": "sticky_pool", "last_pool": "blue"}
    first, _ = await given(world, **sticky, limits=Limits(max_retry=10))
    visited = [first, await failed(world), await failed(world)]
    assert sorted(visited) == ["n1", "n3", "n4"]
    assert (await choice(world)).candidates == 1


async def test_a_retry_leaves_the_pool_when_only_nodes_that_had_the_job_are_in_it(world: World) -> None:
    await join(world, "n1", labels={"group": "blue"})
    await join(world, "n2")
    assert await given(world, policy="sticky_pool", last_pool="blue") == ("n1", [])
    assert await failed(world) == "n2"


# least_loaded


async def test_least_loaded_is_the_best_of_eight_when_there_are_more(world: World) -> None:
    nodes = await fleet(world, *LOADS)
    await predicted(world, nodes, 8, policy="least_loaded")


async def test_the_best_of_eight_of_many_equal_ones_is_the_first_drawn(world: World) -> None:
    nodes = await fleet(world, *[(0, 2)] * 30)
    await predicted(world, nodes, 8, policy="least_loaded")


async def test_the_best_of_eight_leaves_out_who_is_excluded(world: World) -> None:
    nodes = await fleet(world, *LOADS)
    named = ["n00", "n03", "n05"]
    others = [node for node in nodes if node[0] not in named]
    await predicted(world, others, 8, policy="least_loaded", exclude_node_ids=named)


@pytest.mark.parametrize(
    ("loads", "least"),
    [
        ([(1, 4)], {"n00"}),
        ([(1, 2), (1, 3), (2, 3)], {"n01"}),
        ([(3, 4), (2, 3), (5, 8), (7, 8), (1, 2), (2, 4), (6, 8), (4, 7)], {"n04", "n05"}),
        ([(3, 4), (2, 3), (5, 8), (7, 8), (1, 2), (3, 7), (6, 8), (4, 7)], {"n05"}),
        ([(0, 1), (0, 9), (1, 9)], {"n00", "n01"}),
    ],
)
async def test_of_eight_or_fewer_it_is_the_least_loaded_of_all(
    world: World, loads: list[tuple[int, int]], least: set[str]
) -> None:
    """Equal: whichever is drawn first, so that each has its turn."""
    nodes = await fleet(world, *loads)
    assert {drawn(seed, nodes, 8) for seed in spread_seeds(30)} == least
    await predicted(world, nodes, 8, policy="least_loaded")


async def test_least_loaded_looks_at_all_groups(world: World) -> None:
    await join(world, "n1", tts_langs=["zh"])
    await join(world, "n2", tts_langs=["en"])
    await join(world, "n3")
    await asyncio.gather(*(place(world, f"{CELL}.{n}", **asking(policy="least_loaded", seed=n)) for n in range(5)))
    used = {node_id: node.used for node_id, node in (await world.cell()).nodes.items()}
    spare = next(node_id for node_id, number in used.items() if number == 1)
    assert sorted(used.values()) == [1, 2, 2]
    assert await given(world, policy="least_loaded") == (spare, [])


async def test_a_retry_is_the_best_of_eight_that_have_not_had_it(world: World) -> None:
    nodes = await fleet(world, *LOADS)
    await given(world, policy="least_loaded", limits=Limits(max_retry=10))
    had = [(await world.cell()).jobs[A].node]
    for _ in range(6):
        seed = (await world.cell()).jobs[A].seed
        had.append(await failed(world))
        assert had[-1] == drawn(seed, [node for node in nodes if node[0] not in had[:-1]], 8)


@pytest.mark.parametrize("number", [2, 5, 8])
async def test_least_loaded_keeps_a_small_fleet_balanced_within_one_job(world: World, number: int) -> None:
    """A steady stream: whichever job is done, the next one comes."""
    await fleet(world, *[(0, 20)] * number)
    random, running = Random(number), list[tuple[str, str]]()

    async def arrive(job_id: str) -> None:
        stream: dict[str, Any] = {"policy": "least_loaded", "seed": random.randrange(2**32)}
        running.append((job_id, (await place(world, job_id, **asking(**stream))).node_id))
        used = [node.used for node in (await world.cell()).nodes.values()]
        assert max(used) - min(used) <= 1, used

    for step in range(120):
        if step >= 3 * number:
            job_id, node_id = running.pop(random.randrange(len(running)))
            await done(world.engine, job_id, 1, node_id)
        await arrive(f"{CELL}.{step}")
    assert len(running) == 3 * number


# Chance. The seeds are fixed: what is found is found every time.


async def test_random_is_uniform_over_equally_loaded_nodes(world: World) -> None:
    """Each job is over when the next one comes."""
    await fleet(world, *[(0, 2)] * 10)
    random, found = Random(7), Counter[str]()
    last: list[Any] = []
    for number in range(1_000):
        what = asking(seed=random.randrange(2**32))
        answer, *_ = await asyncio.gather(place(world, f"{CELL}.{number}", **what), *last)
        last = [done(world.engine, f"{CELL}.{number}", 1, answer.node_id)]
        found[answer.node_id] += 1
    await asyncio.gather(*last)
    assert found.total() == 1_000
    chi_square = sum((count - 100) ** 2 / 100 for count in found.values())
    assert len(found) == 10
    assert chi_square < 27.88  # the 99.9 % quantile for nine degrees of freedom


@pytest.mark.parametrize("number", [2, 5, 10])
async def test_two_utterances_of_a_session_meet_the_same_node_as_often_as_by_chance(world: World, number: int) -> None:
    """Nothing is remembered of a session: one in `number`, within 3.29 standard deviations (99.9 %)."""
    sessions = 1_000
    await fleet(world, *[(0, 1_000)] * number)
    random, visited = Random(number), list[list[str]]()
    for utterance in range(2):
        names = [f"{CELL}.{session}-{utterance}" for session in range(sessions)]
        asked = [asking(seed=random.randrange(2**32)) for _ in names]
        placed = await asyncio.gather(*(place(world, name, **what) for name, what in zip(names, asked, strict=True)))
        visited.append([answer.node_id for answer in placed])
        await asyncio.gather(*(done(world.engine, *at) for at in zip(names, [1] * sessions, visited[-1], strict=True)))
    same = sum(first == second for first, second in zip(*visited, strict=True))
    chance = 1 / number
    assert abs(same - sessions * chance) < 3.29 * (sessions * chance * (1 - chance)) ** 0.5


async def test_what_is_drawn_in_one_tick_is_what_is_drawn_one_by_one(world: World) -> None:
    nodes = await fleet(world, *[(0, 100)] * 12)
    loads = {node_id: 0 for node_id, _, _ in nodes}
    random, expected, asked = Random(3), list[str](), list[dict[str, Any]]()
    for number in range(200):
        policy, seed = ("least_loaded", "random")[number % 2], random.randrange(2**32)
        ranked = [(node_id, loads[node_id], 100) for node_id, _, _ in nodes]
        expected.append(drawn(seed, ranked, 8 if policy == "least_loaded" else 2))
        loads[expected[-1]] += 1
        asked.append(asking(policy=policy, seed=seed))
    names = [f"{CELL}.{number}" for number in range(200)]
    placed = await asyncio.gather(*(place(world, name, **what) for name, what in zip(names, asked, strict=True)))
    assert [answer.node_id for answer in placed] == expected


@pytest.mark.parametrize("seed", range(8))
async def test_a_retry_goes_to_the_session_s_last_node_rather_than_back(world: World, seed: int) -> None:
    """To spread is a wish; not to go back is a promise."""
    for node_id in ("n1", "n2"):
        await join(world, node_id)
    wanted, hints = Wanted(policy="spread"), Hints(last_node_id="n2")
    placed = await dispatch(world.engine, A, "s1", "en", "zh", wanted=wanted, hints=hints, seed=seed)
    assert isinstance(placed, Placed)
    assert placed.node_id == "n1"
    await fail(world.engine, A, 1, "n1", reason="broken")
    assert (await world.cell()).jobs[A].node == "n2"


@pytest.mark.parametrize("seed", range(8))
async def test_a_node_that_has_seen_the_utterance_is_avoided_before_the_last_one(world: World, seed: int) -> None:
    for node_id in ("n1", "n2"):
        await join(world, node_id)
    wanted, hints = Wanted(policy="spread"), Hints(last_node_id="n2", seen_node_ids=["n1"])
    placed = await dispatch(world.engine, A, "s1", "en", "zh", wanted=wanted, hints=hints, seed=seed)
    assert isinstance(placed, Placed)
    assert placed.node_id == "n2"
