"""A node joins, and comes back as itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.capability import CROWDED, capability, served_pairs
from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.needs import LACKING, LACKS, MUTE, PRIVATE
from lingua_scheduler.core.records import GroupRecord, NodeRecord, Profile, Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.register import Registered, register
from tests.support.cells import GONE, watch
from tests.support.stage import PLAIN, T0, A, B, bring, code_of, join, mute, place, signature, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World


async def test_a_node_joins_and_is_written_down_in_full(world: World) -> None:
    answer, changes = await watch(
        world,
        register(
            world.engine,
            CELL,
            "n1",
            semantic_langs=["zh-Hans", "en"],
            asr_langs=["en"],
            nmt_pairs=[["en", "zh"]],
            tts_langs=["zh"],
            services={"tts": True, "asr": False},
            labels={"region": "eu"},
            accept_public_jobs=False,
            max_concurrent_jobs=3,
            process_id="p",
            connection="x",
            credential="secret",
            acks=True,
            tells=False,
            about="{}",
            nonce="abc",
        ),
    )
    assert answer == Registered("NEW", "1-abc", Standing.available, ["en:zh"], [], [])
    named = signature(["en:zh"], ["zh"], [("asr", False), ("tts", True)], [("region", "eu")], public=False)
    assert changes == {
        "nodes": {
            "n1": NodeRecord(
                used=0,
                max=3,
                recent=0,
                ack_ms=0,
                typical_ms=0,
                limbo=0,
                group=1,
                standing=0,
                epoch="1-abc",
                reported="ready",
                intent="active",
                lost_at_ms=0,
                seen_at_ms=T0,
                away_until_ms=0,
                rest_until_ms=0,
                cut_off=0,
                acks=1,
                tells=0,
                ceiling=3,
                probe_at_ms=0,
                flaps=0,
                flapped_at_ms=0,
                own_max=3,
                limit=0,
                nonce="x",
            )
        },
        "profiles": {
            "n1": Profile(
                credential="secret",
                process="p",
                connection="x",
                registered_at_ms=T0,
                semantic=["en", "zh"],
                asr=["en"],
                nmt=["en:zh"],
                tts=["zh"],
                services=[("asr", False), ("tts", True)],
                labels=[("region", "eu")],
                public=False,
                load=[],
                about="{}",
                update="",
                marks=[],
                marking_since_ms=0,
                marked=0,
                legacy=False,
                opened_ms=T0,
            )
        },
        "standing": {"n1": 16},
        "room": {1: 1},
        "groups": {1: GroupRecord(named, ["zh"], [("region", "eu")], ["en:zh"])},
        "signatures": {named: 1},
        "pairs": {"en:zh": [LACKS + LACKING["asr"] + PRIVATE]},
        "ends": {"en:": 1, ":zh": 1},
        "due": {"n:n1": T0 + 35_000},
        "counts": {"epoch": 1, "group": 1},
    }


async def test_what_a_node_leaves_out_is_undeclared(world: World) -> None:
    answer, changes = await watch(world, register(world.engine, CELL, "n1", semantic_langs=["en"], acks=False))
    assert isinstance(answer, Registered)
    assert answer.pairs == ["en:en"]
    profile = Profile("", "", "", T0, ["en"], False, False, False, [], [], True, [], "", "", [], 0, 0, False, T0)
    assert changes["profiles"] == {"n1": profile}
    node = changes["nodes"]["n1"]
    assert (node.max, node.reported, node.acks, node.tells) == (4, "ready", 0, 1)
    assert changes["signatures"] == {signature(["en:en"]): 1}


async def test_every_registration_draws_another_epoch(world: World) -> None:
    epochs = [(await join(world, f"n{number}", nonce=None)).epoch for number in range(3)]
    assert [epoch.split("-")[0] for epoch in epochs] == ["1", "2", "3"]
    assert len({epoch.split("-")[1] for epoch in epochs}) == 3
    assert {len(epoch) for epoch in epochs} == {10}


async def test_nodes_of_one_capability_share_a_group(world: World) -> None:
    await join(world, "n1")
    _, changes = await watch(world, join(world, "n2"))
    assert changes.keys() == {"nodes", "profiles", "standing", "room", "due", "counts"}
    assert changes["room"] == {1: 2}
    assert changes["standing"] == {"n2": 16}
    assert changes["counts"] == {"epoch": 2}


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ({"tts_langs": ["zh"]}, 0),
        ({"services": {"tts": False}}, LACKING["tts"] + MUTE),
        ({"labels": {"region": "eu"}}, MUTE),
        ({"accept_public_jobs": False}, MUTE + PRIVATE),
        ({"nmt_pairs": [["en", "zh"], ["zh", "en"]]}, MUTE),
    ],
)
async def test_nodes_of_another_capability_are_another_group_of_the_same_pair(
    world: World, said: dict[str, Any], lacks: int
) -> None:
    await join(world, "n1")
    _, changes = await watch(world, join(world, "n2", **said))
    assert changes["standing"] == {"n2": 32}
    assert changes["room"] == {2: 1}
    assert changes["pairs"]["en:zh"] == [*mute(1), 2 * LACKS + lacks]
    assert changes["counts"] == {"epoch": 2, "group": 2}
    assert changes["groups"].keys() == {2}


async def test_what_does_not_matter_to_any_job_makes_no_group_of_its_own(world: World) -> None:
    """The same pairs by another way, another number of slots, another process."""
    await join(world, "n1")
    await join(world, "n2", semantic_langs=["en"], max_concurrent_jobs=9, process_id="p", about="x")
    cell = await world.cell()
    assert cell.groups.keys() == {1}
    assert cell.standing == {"n1": 16, "n2": 16}


@pytest.mark.parametrize(("health", "standing"), [("registering", Standing.not_ready), ("ready", Standing.available)])
async def test_a_node_in_no_pool_joins_with_a_warning(world: World, health: str, standing: Standing) -> None:
    answer, changes = await watch(world, join(world, nmt_pairs=[], health=health))
    assert answer == Registered("NEW", "1-n1", standing, [], [], ["no pool: nmt_pairs is empty"])
    assert changes.keys() == {"nodes", "profiles", "standing", "due", "counts"}
    assert changes["standing"] == {"n1": standing}
    assert changes["counts"] == {"epoch": 1}


async def test_a_node_that_is_not_ready_joins_its_pools_but_is_not_chosen(world: World) -> None:
    answer, changes = await watch(world, join(world, health="registering"))
    assert answer.standing == Standing.not_ready
    assert answer.pairs == ["en:zh"]
    assert changes["standing"] == {"n1": 16 + Standing.not_ready}
    assert "room" not in changes


async def test_a_field_node_s_unknown_languages_are_dropped_with_a_warning(world: World) -> None:
    answer = await join(world, semantic_langs=["en", "klingon"], lenient=True)
    assert answer.warnings == ["semantic_langs: 'klingon' is not a known language; dropped"]
    assert answer.pairs == ["en:zh"]


async def test_the_same_epoch_only_compares_notes(world: World) -> None:
    await join(world, connection="x")
    await bring(world, "RUNNING")
    world.now_ms += 7
    answer, changes = await watch(world, join(world, epoch="1-n1", connection="y", process_id="new"))
    assert answer == Registered("RESYNC", "1-n1", Standing.available, ["en:zh"], [], [], "x")
    assert changes == {
        "nodes": {"n1": {"seen_at_ms": T0 + 7, "nonce": "y"}},
        "profiles": {
            "n1": {"process": "new", "connection": "y", "registered_at_ms": T0 + 7, "opened_ms": T0 + 7},
        },
        "due": {"n:n1": T0 + 35_007},
    }


async def test_a_node_that_comes_back_is_taken_at_its_new_word(world: World) -> None:
    await join(world, "n0")
    await join(world, "n1", tts_langs=["zh"], acks=True, tells=True)
    old = signature(["en:zh"], ["zh"])
    world.now_ms += 7
    said: dict[str, Any] = {"max_concurrent_jobs": 1, "health": "degraded", "acks": False, "tells": False}
    _, changes = await watch(world, join(world, "n1", epoch="2-n1", **said))
    assert changes == {
        "nodes": {
            "n1": {
                "max": 1,
                "own_max": 1,
                "ceiling": 1,
                "group": 1,
                "standing": 5,
                "reported": "degraded",
                "acks": 0,
                "tells": 0,
                "seen_at_ms": T0 + 7,
            }
        },
        "profiles": {"n1": {"tts": False, "registered_at_ms": T0 + 7, "opened_ms": T0 + 7}},
        "standing": {"n1": 21},
        "room": {2: GONE},
        "groups": {2: GONE},
        "signatures": {old: GONE},
        "pairs": {"en:zh": mute(1)},
        "ends": {"en:": 1, ":zh": 1},
        "due": {"n:n1": T0 + 35_007},
    }


async def test_slots_lowered_below_what_the_node_holds_take_nothing_from_it(world: World) -> None:
    await join(world)
    await asyncio.gather(place(world), place(world, B))
    answer, changes = await watch(world, join(world, epoch="1-n1", max_concurrent_jobs=1))
    assert answer.standing == 2
    assert changes["nodes"] == {"n1": {"max": 1, "own_max": 1}}
    assert (await world.cell()).nodes["n1"].ceiling == 2


@pytest.mark.parametrize("said", [{}, {"epoch": "0-old"}, {"process_id": "p"}])
async def test_a_legacy_node_that_is_alive_continues(world: World, said: dict[str, Any]) -> None:
    await join(world, process_id="p")
    await bring(world, "RUNNING")
    world.now_ms += 7
    answer, changes = await watch(world, join(world, **({"process_id": ""} | said)))
    assert answer == Registered("CONTINUED", "1-n1", Standing.available, ["en:zh"], [], [])
    assert changes["nodes"] == {"n1": {"seen_at_ms": T0 + 7}}
    assert changes.keys() == {"nodes", "profiles", "due"}


@pytest.mark.parametrize(("late_ms", "how"), [(499, "CONTINUED"), (500, "RENEWED"), (501, "RENEWED")])
async def test_a_legacy_node_continues_within_its_grace_and_not_after(world: World, late_ms: int, how: str) -> None:
    await join(world, connection="x")
    await disconnect(world.engine, CELL, "n1", "x")
    world.now_ms += late_ms
    answer = await join(world, connection="y")
    assert (answer.how, answer.epoch) == (how, "1-n1" if how == "CONTINUED" else "2-n1")
    node = (await world.cell()).nodes["n1"]
    assert (node.away_until_ms, node.standing, node.epoch) == (0, 0, answer.epoch)


async def test_a_legacy_node_that_was_lost_gets_a_new_epoch(world: World) -> None:
    await join(world)
    world.now_ms += 45_000
    for _ in range(2):
        await sweep(world)
    answer, changes = await watch(world, join(world))
    assert answer == Registered("RENEWED", "2-n1", Standing.available, ["en:zh"], [], [])
    assert changes["nodes"] == {"n1": {"epoch": "2-n1", "standing": 0, "lost_at_ms": 0, "seen_at_ms": T0 + 45_000}}
    assert changes["counts"] == {"epoch": 2}
    assert changes["due"] == {"n:n1": T0 + 80_000}


async def test_a_live_node_s_id_cannot_be_taken_with_another_credential(world: World) -> None:
    await join(world, credential="mine", connection="x")
    said = PLAIN | {"credential": "yours", "tts_langs": ["zh"], "epoch": "1-n1", "process_id": "p"}
    answer, changes = await watch(world, register(world.engine, CELL, "n1", **said))
    assert answer == Refusal(
        "NODE_ID_CONFLICT", "A live node with another credential holds the id n1; take another id."
    )
    assert changes == {}
    await disconnect(world.engine, CELL, "n1", "x")
    assert code_of(await register(world.engine, CELL, "n1", **said)) == "NODE_ID_CONFLICT"


async def test_a_lost_node_s_id_can_be_taken_and_is_a_new_process(world: World) -> None:
    await join(world, credential="mine")
    world.now_ms += 45_000
    for _ in range(2):
        await sweep(world)
    answer, changes = await watch(world, join(world, credential="yours", epoch="1-n1"))
    assert answer.how == "NEW_PROCESS"
    assert answer.epoch == "2-n1"
    assert changes["profiles"]["n1"]["credential"] == "yours"


async def test_a_cell_takes_no_more_nodes_than_it_may(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=2))
    await join(world, "n1")
    await join(world, "n2")
    answer, changes = await watch(world, register(world.engine, CELL, "n3", **PLAIN))
    assert answer == Refusal("CELL_FULL", "Cell c0 has no room for another node.")
    assert changes == {}
    assert (await join(world, "n2", process_id="p")).how == "NEW_PROCESS"


async def test_a_cell_takes_no_more_kinds_of_nodes_than_it_may(make_world: MakeWorld) -> None:
    world = await make_world(Rules(max_groups=2))
    await join(world, "n1")
    await join(world, "n2", tts_langs=["zh"])
    await join(world, "n0")
    for node_id in ("n3", "n1"):
        another = await join(world, node_id, tts_langs=["en"])
        assert (another.pairs, another.warnings) == ([], [CROWDED])
        assert (await world.cell()).nodes[node_id].group == 0
    assert (await join(world, "n4", tts_langs=["zh"])).how == "NEW"
    assert (await join(world, "n5", nmt_pairs=[])).how == "NEW"


async def test_a_node_alone_in_its_group_may_come_back_as_another_kind_where_there_is_no_room_for_one(
    make_world: MakeWorld,
) -> None:
    world = await make_world(Rules(max_groups=2))
    await join(world, "n1")
    await join(world, "n2", tts_langs=["zh"])
    await join(world, "n3", nmt_pairs=[])
    answer, changes = await watch(world, join(world, "n1", tts_langs=["en"]))
    assert (answer.how, answer.standing) == ("CONTINUED", 0)
    assert changes["groups"].keys() == {1, 3}
    assert changes["room"] == {1: GONE, 3: 1}
    assert changes["pairs"] == {"en:zh": [2 * LACKS, *mute(3)]}
    for node_id in ("n3", "n4"):
        assert (await join(world, node_id, tts_langs=["fr"])).warnings == [CROWDED]


@pytest.mark.parametrize("said", [{"epoch": "1-n1"}, {}])
async def test_a_node_that_goes_on_without_naming_its_process_keeps_the_one_we_know(
    world: World, said: dict[str, Any]
) -> None:
    await join(world, process_id="p")
    world.now_ms += 7
    _, changes = await watch(world, join(world, **said))
    assert changes["profiles"] == {"n1": {"registered_at_ms": T0 + 7, "opened_ms": T0 + 7}}
    assert (await join(world, process_id="p")).how == "CONTINUED"
    assert (await join(world, process_id="q")).how == "NEW_PROCESS"


async def test_a_node_that_is_renewed_without_naming_its_process_has_none_that_we_know(world: World) -> None:
    await join(world, process_id="p")
    world.now_ms += 45_000
    for _ in range(2):
        await sweep(world)
    answer, changes = await watch(world, join(world))
    assert answer.how == "RENEWED"
    assert changes["profiles"]["n1"] == {
        "process": "",
        "registered_at_ms": T0 + 45_000,
        "opened_ms": T0 + 45_000,
    }


async def test_a_node_may_come_back_when_memory_is_full(world: World) -> None:
    """Everything that frees something must work then, and without nodes nothing is freed."""
    await join(world)
    await asyncio.gather(*world.engine.everywhere("CONFIG", "SET", "maxmemory", "1").values())
    try:
        answers = (await join(world, process_id="p"), await join(world, "n2"))
        with pytest.raises(DependencyDown, match="OOM"):
            await place(world)
    finally:
        await asyncio.gather(*world.engine.everywhere("CONFIG", "SET", "maxmemory", "0").values())
    assert [answer.how for answer in answers] == ["NEW_PROCESS", "NEW"]


async def test_registrations_of_one_tick_see_each_other(world: World) -> None:
    """The same node twice, a node with the same capability, and one with another."""
    answers = await asyncio.gather(
        join(world, "n1", nonce="a"),
        join(world, "n2"),
        join(world, "n1", nonce="b", process_id="p", tts_langs=["zh"]),
        join(world, "n3", tts_langs=["zh"]),
    )
    assert [(answer.how, answer.epoch) for answer in answers] == [
        ("NEW", "1-a"),
        ("NEW", "2-n2"),
        ("NEW_PROCESS", "3-b"),
        ("NEW", "4-n3"),
    ]
    cell = await world.cell()
    assert cell.standing == {"n1": 32, "n2": 16, "n3": 32}
    assert cell.room == {1: 1, 2: 2}
    assert {group: record.signature for group, record in cell.groups.items()} == {
        1: signature(["en:zh"]),
        2: signature(["en:zh"], ["zh"]),
    }


async def test_a_refused_registration_of_a_tick_does_not_harm_the_others(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=1))
    said = [register(world.engine, CELL, node_id, **PLAIN) for node_id in ("n1", "n2", "n1")]
    answers = await asyncio.gather(*said)
    assert [code_of(answer) for answer in answers] == ["", "CELL_FULL", ""]
    assert (await world.cell()).nodes.keys() == {"n1"}
    assert A not in (await world.cell()).jobs


@pytest.mark.parametrize(
    "wrong",
    [
        {"cell": "{c0}"},
        {"node_id": "n{1}"},
        {"node_id": "x" * 129},
        {"semantic_langs": ["xx"]},
        {"semantic_langs": "en"},
        {"max_concurrent_jobs": 0},
        {"max_concurrent_jobs": 1025},
        {"max_concurrent_jobs": True},
        {"health": "fine"},
        {"credential": "x" * 129},
        {"epoch": "x" * 65},
        {"process_id": "x" * 129},
        {"connection": "x" * 65},
        {"running": [(A, 0)]},
        {"acks": 1},
        {"tells": None},
        {"about": "x" * 16_385},
        {"nonce": "{}"},
    ],
)
async def test_a_registration_that_cannot_be_right_never_reaches_the_engine(
    world: World, wrong: dict[str, Any]
) -> None:
    answer, changes = await watch(world, register(world.engine, **({"cell": CELL, "node_id": "n1"} | PLAIN | wrong)))
    assert (code_of(answer), changes) == ("INVALID_MESSAGE", {})


@pytest.mark.parametrize("said", [{}, {"semantic_langs": []}, {"semantic_langs": ["en"] * 65}])
async def test_a_registration_without_semantic_repair_or_with_everything_is_refused(
    world: World, said: dict[str, Any]
) -> None:
    assert code_of(await register(world.engine, CELL, "n1", **said)) == "INVALID_CAPABILITY_SCHEMA"


@pytest.mark.parametrize(
    "said",
    [
        {"semantic_langs": ["en", "zh"]},
        {"semantic_langs": ["en", "zh"], "tts_langs": ["de"]},
        {"semantic_langs": ["en", "zh"], "asr_langs": ["zh"], "nmt_pairs": "any"},
        {"semantic_langs": ["en", "zh"], "nmt_pairs": [["*", "ja"], ["en", "*"], ["en", "fr"], ["de", "fr"]]},
        {"semantic_langs": ["en"], "asr_langs": ["zh"]},
        {"semantic_langs": ["en"], "services": {"semantic": False}, "lenient": True},
        {"semantic_langs": ["en"], "services": {"semantic": False}},
        {"semantic_langs": [], "services": {"semantic": False}, "lenient": True},
    ],
)
async def test_which_pairs_a_word_means_is_known_before_the_node_is_in(world: World, said: dict[str, Any]) -> None:
    answer = await register(world.engine, CELL, "n1", **said)
    assert isinstance(answer, Registered), answer
    assert served_pairs(capability(**said)[0]) == answer.pairs
