from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.capability import CROWDED
from lingua_scheduler.core.needs import LACKS
from lingua_scheduler.core.records import GroupRecord, Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import Beaten, heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.flows.undeliver import undeliver
from tests.support.cells import GONE, HELD, watch
from tests.support.stage import T0, A, B, C, bring, code_of, join, mute, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World


async def test_a_beat_is_a_sign_of_life_and_nothing_else(world: World) -> None:
    await join(world)
    world.now_ms += 7
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", "1-n1"))
    assert answer == Beaten("1-n1", Standing.available, [])
    assert changes == {"nodes": {"n1": {"seen_at_ms": T0 + 7}}, "due": {"n:n1": T0 + 35_007}}


@pytest.mark.parametrize("health", ["registering", "degraded", "draining", "offline"])
async def test_only_a_ready_node_is_chosen(world: World, health: str) -> None:
    await join(world)
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", health=health))
    assert answer == Beaten("1-n1", Standing.not_ready, [])
    assert changes == {
        "nodes": {"n1": {"reported": health, "standing": 5}},
        "standing": {"n1": 21},
        "room": {1: 0},
    }
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", health="ready"))
    assert answer == Beaten("1-n1", Standing.available, [])
    assert changes == {
        "nodes": {"n1": {"reported": "ready", "standing": 0}},
        "standing": {"n1": 16},
        "room": {1: 1},
    }


async def test_a_beat_wakes_a_stale_node(world: World) -> None:
    await join(world)
    world.now_ms += 35_000
    await sweep(world)
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1"))
    assert answer == Beaten("1-n1", Standing.available, [])
    assert changes == {
        "nodes": {"n1": {"standing": 0, "seen_at_ms": T0 + 35_000}},
        "standing": {"n1": 16},
        "room": {1: 1},
        "due": {"n:n1": T0 + 70_000},
    }


async def test_the_slots_of_a_node_can_be_raised_and_lowered(world: World) -> None:
    """Lowered below what it holds: nothing is taken from it, and it gets nothing more."""
    await join(world)
    await asyncio.gather(place(world), place(world, B))
    _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", max_concurrent_jobs=3))
    assert changes == {
        "nodes": {"n1": {"max": 3, "own_max": 3, "ceiling": 3, "standing": 0}},
        "standing": {"n1": 16},
        "room": {1: 1},
    }
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", max_concurrent_jobs=1))
    assert answer == Beaten("1-n1", Standing.full, [])
    assert changes["nodes"] == {"n1": {"max": 1, "own_max": 1, "ceiling": 2, "standing": 2}}


async def test_a_node_s_load_is_kept_for_show(world: World) -> None:
    await join(world)
    _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", current_load={"gpu": 0.5, "cpu": 1}))
    assert changes == {"profiles": {"n1": {"load": [("cpu", 1.0), ("gpu", 0.5)]}}}
    assert await watch(world, heartbeat(world.engine, CELL, "n1")) == (Beaten("1-n1", Standing.available, []), {})


async def test_a_capability_that_comes_with_a_beat_moves_the_node_to_its_group(world: World) -> None:
    await join(world)
    old = (await world.cell()).groups[1].signature
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", tts_langs=["zh"]))
    assert answer == Beaten("1-n1", Standing.available, [], serves_more=True)
    new = (await world.cell()).groups[2].signature
    update = changes["profiles"]["n1"].pop("update")
    assert changes == {
        "nodes": {"n1": {"group": 2}},
        "profiles": {"n1": {"tts": ["zh"]}},
        "standing": {"n1": 32},
        "room": {1: GONE, 2: 1},
        "groups": {1: GONE, 2: GroupRecord(new, ["zh"], [], ["en:zh"])},
        "signatures": {old: GONE, new: 2},
        "pairs": {"en:zh": [2 * LACKS]},
        "counts": {"group": 2},
    }
    assert len(update) == 40


async def test_a_capability_that_is_repeated_with_every_beat_changes_nothing(world: World) -> None:
    await join(world)
    said: dict[str, Any] = {"tts_langs": ["zh"], "labels": {"region": "eu"}}
    await heartbeat(world.engine, CELL, "n1", **said)
    assert await watch(world, heartbeat(world.engine, CELL, "n1", **said)) == (
        Beaten("1-n1", Standing.available, []),
        {},
    )
    await heartbeat(world.engine, CELL, "n1", tts_langs=["en"])
    _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", **said))
    assert changes["profiles"]["n1"]["tts"] == ["zh"]


async def test_a_beat_with_what_the_node_registered_with_keeps_its_group(world: World) -> None:
    await join(world)
    said: dict[str, Any] = {"semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]]}
    _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", **said))
    assert changes.keys() == {"profiles"}
    assert changes["profiles"]["n1"].keys() == {"update"}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"semantic_langs": ["en"]}, {"semantic": ["en"]}),
        ({"asr_langs": ["en"]}, {"asr": ["en"]}),
        ({"nmt_pairs": "any"}, {"nmt": True}),
        ({"tts_langs": []}, {"tts": []}),
        ({"services": {"tone": False}}, {"services": [("tone", False)]}),
        ({"labels": {"region": "eu"}}, {"labels": [("region", "eu")]}),
        ({"accept_public_jobs": False}, {"public": False}),
    ],
)
async def test_a_field_left_out_keeps_its_value(world: World, said: dict[str, Any], kept: dict[str, Any]) -> None:
    await join(world)
    _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", **said))
    assert changes["profiles"]["n1"].pop("update")
    assert changes["profiles"] == {"n1": kept}


async def test_a_node_can_lose_all_its_pools_and_get_them_back(world: World) -> None:
    await join(world)
    await place(world)
    _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", nmt_pairs=[]))
    assert changes["nodes"] == {"n1": {"group": 0}}
    assert changes["standing"] == {"n1": 0}
    assert changes["pairs"] == {"en:zh": GONE}
    assert "counts" not in changes
    _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", nmt_pairs=[["en", "zh"]]))
    assert changes["nodes"] == {"n1": {"group": 2}}
    assert changes["pairs"] == {"en:zh": mute(2)}


async def test_one_kind_of_node_more_than_the_cell_may_have_serves_nothing_and_is_told(make_world: MakeWorld) -> None:
    """What it served before it has taken back; the rest of its word counts."""
    world = await make_world(Rules(max_groups=2))
    for number in range(3):
        await join(world, f"n{number}")
    await heartbeat(world.engine, CELL, "n1", tts_langs=["zh"])
    world.now_ms += 1
    late: dict[str, Any] = {"tts_langs": ["en"], "health": "degraded", "max_concurrent_jobs": 9}
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n2", **late))
    assert answer == Beaten("3-n2", Standing.not_ready, [], [CROWDED])
    slots = {"max": 9, "own_max": 9, "ceiling": 9}
    seen = {"seen_at_ms": T0 + 1, "group": 0, "standing": 5, "reported": "degraded"} | slots
    assert changes == {
        "nodes": {"n2": seen},
        "profiles": {"n2": {"tts": ["en"]}},
        "standing": {"n2": 5},
        "room": {1: 1},
        "due": {"n:n2": T0 + 35_001},
    }


async def test_a_node_that_the_cell_had_no_room_for_is_taken_when_there_is_some(make_world: MakeWorld) -> None:
    """It need not say anything else: what it repeats with every beat is looked at anew."""
    world = await make_world(Rules(max_groups=1))
    for node_id in ("n1", "n2"):
        await join(world, node_id)
    assert (await beat(world, "n2", tts_langs=["zh"])).warnings == [CROWDED]
    assert (await beat(world, "n2", tts_langs=["zh"])).warnings == [CROWDED]
    await leave(world.engine, CELL, "n1")
    assert (await beat(world, "n2", tts_langs=["zh"])).warnings == []
    assert (await world.cell()).nodes["n2"].group == 2


async def test_a_beat_that_leaves_no_pool_says_what_is_missing(world: World) -> None:
    await join(world, lenient=True)
    assert (await beat(world, "n1", nmt_pairs=[])).warnings == ["no pool: nmt_pairs is empty"]
    assert (await beat(world, "n1")).warnings == []
    assert (await beat(world, "n1", services={"semantic": False}, nmt_pairs=[["en", "zh"]])).warnings == [
        "no pool: the service semantic is not ready"
    ]
    assert (await beat(world, "n1", labels={"at": "eu"})).warnings == [
        "no pool: what is declared now and before leaves no pair"
    ]


async def beat(world: World, node_id: str, **said: Any) -> Beaten:
    answer = await heartbeat(world.engine, CELL, node_id, **said)
    assert isinstance(answer, Beaten), answer
    return answer


async def test_a_node_alone_in_its_group_may_change_where_there_is_no_room_for_another_group(
    make_world: MakeWorld,
) -> None:
    world = await make_world(Rules(max_groups=2))
    await join(world, "n1")
    await join(world, "n2", tts_langs=["zh"])
    await join(world, "n3", nmt_pairs=[])
    assert await heartbeat(world.engine, CELL, "n1", tts_langs=["en"]) == Beaten(
        "1-n1", Standing.available, [], serves_more=True
    )
    cell = await world.cell()
    assert cell.groups.keys() == {2, 3}
    assert cell.nodes["n1"].group == 3
    # A node without any group leaves none behind.
    assert (await beat(world, "n3", nmt_pairs=[["zh", "en"]])).warnings == [CROWDED]
    assert isinstance(await heartbeat(world.engine, CELL, "n3", nmt_pairs=[["en", "zh"]], tts_langs=["zh"]), Beaten)
    assert (await beat(world, "n2", tts_langs=["fr"])).warnings == [CROWDED]


@pytest.mark.parametrize("running_jobs", [0, 1, 2, 3])
async def test_a_low_enough_number_of_running_jobs_ends_the_oldest_names_limbo(world: World, running_jobs: int) -> None:
    """Of three fenced attempts and one current, only what exceeds the number is certainly over."""
    await join(world, max_concurrent_jobs=4)
    for job_id in (C, B, A):
        await bring(world, "CANCELLED", job_id)
    await bring(world, "RUNNING", "c0.d")
    world.now_ms += 2_000
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", running_jobs=running_jobs))
    over = [f"n1:{job_id}:1" for job_id in (A, B, C)][: 3 - running_jobs]
    assert answer == Beaten("1-n1", Standing.available if over else Standing.full, [])
    if over:
        assert changes == {
            "nodes": {
                "n1": {
                    "used": running_jobs + 1,
                    "limbo": running_jobs,
                    "standing": 0,
                    "seen_at_ms": T0 + 2_000,
                }
            },
            "standing": {"n1": 16},
            "room": {1: 1},
            "leases": dict.fromkeys(over, GONE),
            "limbo": dict.fromkeys(over, GONE),
            "due": dict.fromkeys([f"l:{lease}" for lease in over], GONE) | {"n:n1": T0 + 37_000},
        }
    else:
        assert changes.keys() == {"nodes", "due"}


async def test_a_number_that_may_be_older_than_the_fence_confirms_nothing(world: World) -> None:
    await join(world)
    await place(world)
    await place(world, B)
    await cancel(world.engine, A)
    world.now_ms += 1
    await cancel(world.engine, B)
    world.now_ms += 1_999
    _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", running_jobs=0))
    assert changes["limbo"] == {f"n1:{A}:1": GONE}
    world.now_ms += 1
    _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", running_jobs=0))
    assert changes["limbo"] == {f"n1:{B}:1": GONE}


async def test_a_list_of_what_runs_ends_the_limbo_of_what_it_leaves_out(world: World) -> None:
    """A is current and named, B fenced and named, C fenced and left out, d current and left out, y and z unknown."""
    await join(world, max_concurrent_jobs=4)
    await bring(world, "RUNNING", A)
    await bring(world, "CANCELLED", B)
    await bring(world, "CANCELLED", C)
    await bring(world, "RUNNING", "c0.d")
    world.now_ms += 2_000
    answer, changes = await watch(
        world, heartbeat(world.engine, CELL, "n1", running=[(B, 1), ("c0.z", 3), (A, 1), ("c0.y", 2)])
    )
    assert answer == Beaten("1-n1", Standing.full, [(B, 1), ("c0.y", 2), ("c0.z", 3)])
    over, taken = f"n1:{C}:1", ["n1:c0.y:2", "n1:c0.z:3"]
    assert changes == {
        "nodes": {"n1": {"used": 5, "limbo": 3, "ceiling": 5, "seen_at_ms": T0 + 2_000}},
        "leases": {over: GONE} | dict.fromkeys(taken, HELD),
        "limbo": {over: GONE} | dict.fromkeys(taken, T0 + 2_000),
        "due": {f"l:{over}": GONE, "n:n1": T0 + 37_000} | {f"l:{lease}": T0 + 62_000 for lease in taken},
    }


async def test_what_runs_and_was_never_given_to_the_node_takes_slots_until_it_has_stopped(world: World) -> None:
    """Jobs that nobody knows, and attempts that another node has or that nobody had; in the order of their names."""
    await join(world, "n1", max_concurrent_jobs=2)
    await place(world, B)
    await drain(world.engine, CELL, "n1")
    await join(world, "n2")
    await place(world, A)
    world.now_ms += 7
    now = T0 + 7
    running = [("c0.z", 1), (A, 1), ("c0.y", 2), (B, 1), (B, 2), ("c0.x", 3), ("c0.y", 10)]
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", running=running))
    strangers = [(A, 1), (B, 2), ("c0.x", 3), ("c0.y", 10), ("c0.y", 2), ("c0.z", 1)]
    leases = [f"n1:{job_id}:{attempt}" for job_id, attempt in strangers]
    assert answer == Beaten("1-n1", Standing.draining, strangers)
    assert changes == {
        "nodes": {"n1": {"used": 7, "limbo": 6, "ceiling": 7, "seen_at_ms": now}},
        "leases": dict.fromkeys(leases, HELD),
        "limbo": dict.fromkeys(leases, now),
        "due": {"n:n1": now + 35_000} | {f"l:{lease}": now + 60_000 for lease in leases},
    }
    world.now_ms += 2_000
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", running=[(B, 1), ("c0.z", 1)]))
    assert answer == Beaten("1-n1", Standing.draining, [("c0.z", 1)])
    assert changes["nodes"] == {"n1": {"used": 2, "limbo": 1, "ceiling": 2, "seen_at_ms": now + 2_000}}


@pytest.mark.parametrize("state", ["FINISHED", "FAILED", "CANCELLED", "RETRYING"])
async def test_what_the_node_once_had_and_names_late_is_cancelled_and_takes_no_slot(world: World, state: State) -> None:
    """Its word was only slower on the way than what it said of the attempt."""
    await join(world)
    await bring(world, "RESERVED" if state == "RETRYING" else state)
    if state == "RETRYING":
        await drain(world.engine, CELL, "n1")
        await fail(world.engine, A, 1, "n1", reason="broken")
    if state == "CANCELLED":
        await stopped(world.engine, A, 1, "n1")
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", running=[(A, 1)]))
    assert isinstance(answer, Beaten)
    assert (answer.cancel, changes) == ([(A, 1)], {})


async def test_what_could_not_be_delivered_and_arrived_all_the_same_takes_a_slot(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await place(world)
    await join(world, "n2")
    await undeliver(world.engine, A, 1, "n1")
    world.now_ms += 500
    answer = await beat(world, "n1", running=[(A, 1)])
    assert answer == Beaten("1-n1", Standing.full, [(A, 1)])
    cell = await world.cell()
    assert (cell.nodes["n1"].used, cell.limbo) == (1, {f"n1:{A}:1": T0 + 500})


@pytest.mark.parametrize(
    ("state", "cause", "come_back"),
    [
        ("RUNNING", "dropped", {"epoch": "1-n1", "running": []}),
        ("RESERVED", "died_early", {"process_id": "p2"}),
        ("RUNNING", "died", {"process_id": "p2"}),
        ("RESERVED", "left_early", None),
        ("RUNNING", "left", None),
    ],
)
async def test_what_was_taken_from_a_node_without_asking_and_it_still_names_takes_a_slot(
    world: World, state: State, cause: str, come_back: dict[str, Any] | None
) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await bring(world, state)
    await join(world, "n2")
    if come_back is None:
        await leave(world.engine, CELL, "n1")
    await join(world, "n1", max_concurrent_jobs=1, **(come_back or {}))
    assert (await world.cell()).jobs[A].past.attempts[0].cause == cause
    answer = await beat(world, "n1", running=[(A, 1)])
    assert (answer.standing, answer.cancel) == (Standing.full, [(A, 1)])


async def test_a_full_node_with_unknown_work_is_more_than_full(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await place(world)
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", running=[(A, 1), (B, 1)]))
    assert answer == Beaten("1-n1", Standing.full, [(B, 1)])
    assert changes["nodes"] == {"n1": {"used": 2, "limbo": 1, "ceiling": 2}}
    _, changes = await watch(world, done(world.engine, A, 1, "n1"))
    assert changes["nodes"] == {"n1": {"used": 1}}


async def test_a_list_that_may_be_older_than_the_fence_confirms_nothing(world: World) -> None:
    await join(world)
    await bring(world, "CANCELLED")
    world.now_ms += 1_999
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", running=[]))
    assert answer == Beaten("1-n1", Standing.available, [])
    assert changes.keys() == {"nodes", "due"}
    world.now_ms += 1
    _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", running=[]))
    assert changes["limbo"] == {f"n1:{A}:1": GONE}


@pytest.mark.parametrize("words", [{"running": []}, {"running_jobs": 0}], ids=str)
@pytest.mark.parametrize(("said_ms", "is_over"), [(1, False), (T0 + 1_999, False), (T0 + 2_000, True), (0, True)])
async def test_it_counts_when_a_word_was_said_and_not_when_it_is_heard(
    world: World, words: dict[str, Any], said_ms: int, is_over: bool
) -> None:
    """It lay in an instance that slept: before it was read, the attempt was given up and the node was at work."""
    await join(world)
    await bring(world, "CANCELLED")
    world.now_ms += 30_000
    await heartbeat(world.engine, CELL, "n1", said_ms=said_ms, **words)
    cell = await world.cell()
    assert (cell.nodes["n1"].limbo, cell.nodes["n1"].seen_at_ms) == (0 if is_over else 1, T0 + 30_000)


async def test_a_word_of_time_to_come_is_said_now(world: World) -> None:
    """The server that has taken over is behind."""
    await join(world)
    await bring(world, "CANCELLED")
    world.now_ms += 1_999
    await heartbeat(world.engine, CELL, "n1", said_ms=T0 + 60_000, running=[])
    assert (await world.cell()).nodes["n1"].limbo == 1


async def test_a_list_is_worth_more_than_a_number(world: World) -> None:
    await join(world)
    await bring(world, "CANCELLED")
    world.now_ms += 2_000
    answer = await heartbeat(world.engine, CELL, "n1", running=[(A, 1)], running_jobs=0)
    assert answer == Beaten("1-n1", Standing.available, [(A, 1)])
    assert (await world.cell()).nodes["n1"].limbo == 1


async def test_a_lost_node_serves_again_once_it_has_confirmed_everything(world: World) -> None:
    await join(world, "n1")
    await bring(world, "RUNNING")
    await join(world, "n2")
    world.now_ms += 45_000
    await heartbeat(world.engine, CELL, "n2")
    for _ in range(2):
        await sweep(world)
    assert (await world.cell()).nodes["n1"].lost_at_ms == T0 + 45_000
    world.now_ms += 1_999
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", running=[]))
    assert answer == Beaten("1-n1", Standing.lost, [])
    assert changes == {"nodes": {"n1": {"seen_at_ms": T0 + 46_999}}}
    world.now_ms += 1
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", running=[]))
    assert answer == Beaten("1-n1", Standing.available, [])
    assert changes["nodes"] == {
        "n1": {"used": 0, "limbo": 0, "standing": 0, "lost_at_ms": 0, "seen_at_ms": T0 + 47_000}
    }
    assert changes["due"] == {"n:n1": T0 + 82_000, f"l:n1:{A}:1": GONE}


async def test_a_lost_node_that_held_nothing_serves_again_with_its_next_beat(world: World) -> None:
    await join(world)
    world.now_ms += 45_000
    for _ in range(2):
        await sweep(world)
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1"))
    assert answer == Beaten("1-n1", Standing.available, [])
    assert changes["nodes"] == {"n1": {"standing": 0, "lost_at_ms": 0, "seen_at_ms": T0 + 45_000}}
    assert changes["due"] == {"n:n1": T0 + 80_000}


async def test_a_beat_under_another_epoch_changes_nothing(world: World) -> None:
    await join(world)
    world.now_ms += 1
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", "1-n0", health="offline"))
    assert (code_of(answer), changes) == ("STALE_ATTEMPT", {})


@pytest.mark.parametrize("last", ["here.0123456789abcdef", ""])
async def test_by_a_connection_that_was_replaced_nothing_can_be_said(world: World, last: str) -> None:
    await join(world, connection="here.fedcba9876543210")
    await join(world, connection=last, epoch="1-n1")
    await bring(world, "CANCELLED")
    world.now_ms += 2_000
    late: dict[str, Any] = {"connection": "here.fedcba9876543210", "epoch": "1-n1"}
    words: tuple[dict[str, Any], ...]
    words = ({}, {"health": "draining"}, {"running": []}, {"tts_langs": ["fr"]}, {"current_load": {"gpu": 1.0}})
    for said in words:
        answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", **late, **said))
        assert (code_of(answer), changes) == ("NODE_REPLACED", {})
    now = await heartbeat(world.engine, CELL, "n1", "1-n1", connection=last, health="draining")
    assert isinstance(now, Beaten)


async def test_a_beat_of_an_unknown_node_is_refused(world: World) -> None:
    answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", tts_langs=["zh"], current_load={}))
    assert answer == Refusal("UNKNOWN_NODE", "No node n1 is registered: it has left, or must register first.")
    assert changes == {}


async def test_beats_of_one_tick_each_get_their_own_answer(world: World) -> None:
    await join(world, "n1")
    await join(world, "n2")
    world.now_ms += 5
    answers, changes = await watch(
        world,
        asyncio.gather(
            heartbeat(world.engine, CELL, "n2", tts_langs=["zh"]),
            heartbeat(world.engine, CELL, "n3"),
            heartbeat(world.engine, CELL, "n1", health="degraded"),
            heartbeat(world.engine, CELL, "n1", "0-x"),
            heartbeat(world.engine, CELL, "n2", max_concurrent_jobs=7),
        ),
    )
    assert [code_of(answer) for answer in answers] == ["", "UNKNOWN_NODE", "", "STALE_ATTEMPT", ""]
    assert changes["nodes"] == {
        "n1": {"reported": "degraded", "standing": 5, "seen_at_ms": T0 + 5},
        "n2": {"group": 2, "max": 7, "own_max": 7, "ceiling": 7, "seen_at_ms": T0 + 5},
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"cell": "C0"},
        {"node_id": "n:1"},
        {"epoch": "x" * 65},
        {"health": "fine"},
        {"max_concurrent_jobs": 0},
        {"max_concurrent_jobs": 1025},
        {"current_load": {"gpu": 2}},
        {"running": [("a", 1)]},
        {"running_jobs": -1},
        {"semantic_langs": ["xx"]},
        {"accept_public_jobs": 1},
    ],
)
async def test_a_beat_that_cannot_be_right_never_reaches_the_engine(world: World, wrong: dict[str, Any]) -> None:
    answer = await heartbeat(world.engine, **({"cell": CELL, "node_id": "n1"} | wrong))
    assert code_of(answer) == "INVALID_MESSAGE"
