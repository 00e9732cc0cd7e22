from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lingua_scheduler.core.records import Event
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.leave import Left, leave
from tests.support.cells import GONE, HELD, watch
from tests.support.stage import ONE_TRY, T0, A, B, C, bring, code_of, join, mute, past, place
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


async def test_the_last_node_leaves_nothing_behind_but_counts(world: World) -> None:
    await join(world)
    answer, changes = await watch(world, leave(world.engine, CELL, "n1", "1-n1"))
    assert answer == Left(0)
    cell = await world.cell()
    assert changes == {
        "nodes": {"n1": GONE},
        "profiles": {"n1": GONE},
        "standing": {"n1": GONE},
        "room": {1: GONE},
        "groups": {1: GONE},
        "signatures": dict.fromkeys(changes["signatures"], GONE),
        "pairs": {"en:zh": GONE},
        "ends": {"en:": GONE, ":zh": GONE},
        "due": {"n:n1": GONE},
    }
    assert cell.counts == {"epoch": 1, "group": 1}
    assert await world.keys() == 1


async def test_one_of_two_nodes_leaves_the_other_s_group_alone(world: World) -> None:
    await join(world, "n1")
    await join(world, "n2")
    _, changes = await watch(world, leave(world.engine, CELL, "n1"))
    assert changes == {
        "nodes": {"n1": GONE},
        "profiles": {"n1": GONE},
        "standing": {"n1": GONE},
        "room": {1: 1},
        "due": {"n:n1": GONE},
    }


async def test_a_group_that_ends_leaves_the_pairs_of_others_alone(world: World) -> None:
    await join(world, "n1", nmt_pairs=[["en", "zh"], ["zh", "en"]])
    await join(world, "n2")
    await join(world, "n3", nmt_pairs=[["en", "zh"], ["en", "en"]])
    _, changes = await watch(world, leave(world.engine, CELL, "n1"))
    assert changes["pairs"] == {"en:zh": mute(2, 3), "zh:en": GONE}
    assert changes["ends"] == {"en:": 2, ":zh": 2, "zh:": GONE, ":en": 1}
    assert changes["groups"] == {1: GONE}
    assert changes["room"] == {1: GONE}
    assert len(changes["signatures"]) == 1


async def test_a_node_without_any_pool_can_leave(world: World) -> None:
    await join(world, nmt_pairs=[], health="registering")
    _, changes = await watch(world, leave(world.engine, CELL, "n1"))
    assert changes == {
        "nodes": {"n1": GONE},
        "profiles": {"n1": GONE},
        "standing": {"n1": GONE},
        "due": {"n:n1": GONE},
    }


async def test_what_a_leaving_node_had_goes_to_others_and_its_word_ends_its_limbo(world: World) -> None:
    """What it had not accepted costs nothing, what it had accepted costs a try."""
    await join(world, "n1", max_concurrent_jobs=3)
    await bring(world, "DISPATCHED", A, limits=ONE_TRY)
    await bring(world, "RUNNING", B)
    await bring(world, "CANCELLED", C)
    await join(world, "n2")
    world.now_ms += 7
    now = T0 + 7
    answer, changes = await watch(world, leave(world.engine, CELL, "n1"))
    assert answer == Left(2)
    assert changes["nodes"] == {"n1": GONE, "n2": {"used": 2, "standing": 2}}
    assert changes["jobs"][A]["past"] == past((1, "n1", "left_early", now, "RETRYING"))
    assert changes["jobs"][B]["past"] == past((1, "n1", "left", now, "RETRYING"), tries=1)
    assert changes["leases"] == {
        f"n1:{A}:1": GONE,
        f"n1:{B}:1": GONE,
        f"n1:{C}:1": GONE,
        f"n2:{A}:2": HELD,
        f"n2:{B}:2": HELD,
    }
    assert changes["limbo"] == {f"n1:{C}:1": GONE}
    assert changes["due"] == {
        "n:n1": GONE,
        f"l:n1:{C}:1": GONE,
        f"j:{A}": now + 5_000,
        f"j:{B}": now + 5_000,
    }
    assert changes["outbox"] == {Event("reserved", job_id, 2, "n2", "2-n2", "", now): now for job_id in (A, B)}
    assert changes["room"] == {1: 0}
    assert changes.keys() == {
        "nodes",
        "profiles",
        "standing",
        "room",
        "jobs",
        "leases",
        "limbo",
        "due",
        "outbox",
    }


async def test_the_last_try_of_a_job_ends_with_its_node(world: World) -> None:
    await join(world, "n1")
    await bring(world, "RUNNING", limits=ONE_TRY)
    _, changes = await watch(world, leave(world.engine, CELL, "n1"))
    assert changes["jobs"][A]["state"] == "FAILED"
    assert changes["counts"] == {"FAILED": 1}
    assert changes["outbox"] == {Event("ended", A, 1, "n1", "1-n1", "left", T0): T0}


async def test_a_late_word_of_a_node_that_left_is_stale(world: World) -> None:
    await join(world)
    await bring(world, "RUNNING")
    await leave(world.engine, CELL, "n1")
    answer, changes = await watch(world, done(world.engine, A, 1, "n1"))
    assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


async def test_an_old_epoch_cannot_take_the_node_away(world: World) -> None:
    await join(world)
    answer, changes = await watch(world, leave(world.engine, CELL, "n1", "1-n0"))
    assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


async def test_an_unknown_node_cannot_leave(world: World) -> None:
    answer, changes = await watch(world, leave(world.engine, CELL, "n1"))
    assert answer == Refusal("UNKNOWN_NODE", "No node n1 is registered: it has left, or must register first.")
    assert changes == {}
    assert code_of(await leave(world.engine, CELL, "n 1")) == "INVALID_MESSAGE"
    assert code_of(await leave(world.engine, "c-0", "n1")) == "INVALID_MESSAGE"


async def test_leaving_twice_in_one_tick_is_leaving_once(world: World) -> None:
    for node_id in ("n1", "n2", "n3"):
        await join(world, node_id)
    await asyncio.gather(place(world, A, seed=1), place(world, B, seed=2))
    answers, changes = await watch(
        world, asyncio.gather(*(leave(world.engine, CELL, node_id) for node_id in ("n1", "n1", "n2")))
    )
    assert [code_of(answer) for answer in answers] == ["", "UNKNOWN_NODE", ""]
    assert "groups" not in changes
    assert changes["room"] == {1: 0}
    cell = await world.cell()
    assert {job.node for job in cell.jobs.values()} == {"n3"}


async def test_a_drained_node_and_a_full_one_can_leave(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await bring(world, "RUNNING")
    await join(world, "n2")
    _, changes = await watch(world, leave(world.engine, CELL, "n1"))
    assert "room" not in changes
    assert (await world.cell()).room == {1: 1}
