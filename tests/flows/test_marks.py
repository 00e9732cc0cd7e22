"""A service that was seen not to work is marked: its node moves to the group of its like, and back in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.capability import SERVICES
from lingua_scheduler.core.needs import LACKS, MARKED, MUTE
from lingua_scheduler.core.records import MAX_MARKS, GroupRecord, Mark, Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.mark import Debounced, Limited, Marked, mark
from lingua_scheduler.flows.reap import Settled
from tests.support.cells import GONE, watch
from tests.support.pasts import doubt
from tests.support.stage import T0, A, code_of, join, keep_alive, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.records import Profile
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

END = T0 + 60_000


async def profile(world: World, node_id: str = "n1") -> Profile:
    return (await world.cell()).profiles[node_id]


async def last_to(world: World, now_ms: int, *node_ids: str) -> None:
    """Let these nodes live until then."""
    while world.now_ms < now_ms:
        world.now_ms = min(now_ms, world.now_ms + 30_000)
        await keep_alive(world, *node_ids)


class TestEveryAnswer:
    """What a mark is told, and all that it writes."""

    async def test_the_first_mark_moves_the_node_to_a_group_of_its_own(self, world: World) -> None:
        await join(world)
        old = (await world.cell()).groups[1].signature
        answer, changes = await watch(world, mark(world.engine, CELL, "n1", "asr-en", "asr"))
        assert answer == Marked(END)
        new = (await world.cell()).groups[2].signature
        assert changes == {
            "nodes": {"n1": {"group": 2}},
            "profiles": {"n1": {"marks": [Mark("asr-en", "asr", T0, END)], "marking_since_ms": T0, "marked": 1}},
            "standing": {"n1": 32},
            "room": {1: GONE, 2: 1},
            "groups": {1: GONE, 2: GroupRecord(new, False, [], ["en:zh"])},
            "signatures": {old: GONE, new: 2},
            "pairs": {"en:zh": [2 * LACKS + MARKED["asr"] + MUTE]},
            "due": {"m:n1": END},
            "counts": {"group": 2},
        }

    async def test_a_mark_of_the_same_type_changes_no_group(self, world: World) -> None:
        await join(world)
        await mark(world.engine, CELL, "n1", "asr-en", "asr")
        world.now_ms += 7
        answer, changes = await watch(world, mark(world.engine, CELL, "n1", "asr-zh", "asr"))
        assert answer == Marked(END + 7)
        marks = [Mark("asr-en", "asr", T0, END), Mark("asr-zh", "asr", T0 + 7, END + 7)]
        assert changes == {"profiles": {"n1": {"marks": marks, "marked": 2}}}

    @pytest.mark.parametrize("after_ms", [0, 4_999])
    async def test_the_same_within_a_moment_is_not_counted(self, world: World, after_ms: int) -> None:
        await join(world)
        await mark(world.engine, CELL, "n1", "", "asr")
        world.now_ms += after_ms
        answer, changes = await watch(world, mark(world.engine, CELL, "n1", "", "asr"))
        assert (answer, changes) == (Debounced(END), {})

    async def test_the_same_after_that_moment_prolongs_the_mark(self, world: World) -> None:
        await join(world)
        await mark(world.engine, CELL, "n1", "", "asr")
        world.now_ms += 5_000
        answer, changes = await watch(world, mark(world.engine, CELL, "n1", "", "asr"))
        assert answer == Marked(END + 5_000)
        assert changes == {
            "profiles": {"n1": {"marks": [Mark("asr", "asr", T0 + 5_000, END + 5_000)], "marked": 2}},
            "due": {"m:n1": END + 5_000},
        }

    async def test_what_is_found_to_be_of_another_type_is_marked_anew(self, world: World) -> None:
        await join(world)
        await mark(world.engine, CELL, "n1", "model", "asr")
        world.now_ms += 5_000
        await mark(world.engine, CELL, "n1", "model", "tts")
        assert (await profile(world)).marks == [Mark("model", "tts", T0 + 5_000, END + 5_000)]
        assert (await world.cell()).pairs == {"en:zh": [3 * LACKS + MARKED["tts"] + MUTE]}

    async def test_a_node_is_marked_at_most_thirty_times_in_ten_seconds(self, world: World) -> None:
        await join(world)
        for number in range(30):
            world.now_ms = T0 + 100 * number
            assert await mark(world.engine, CELL, "n1", f"model-{number}", "tone") == Marked(world.now_ms + 60_000)
        world.now_ms = T0 + 9_999
        for service in ("model-30", "model-0"):
            assert await watch(world, mark(world.engine, CELL, "n1", service, "tone")) == (Limited(), {})
        world.now_ms = T0 + 10_000
        assert await mark(world.engine, CELL, "n1", "model-0", "tone") == Marked(T0 + 70_000)
        said = await profile(world)
        assert (len(said.marks), said.marking_since_ms, said.marked) == (30, T0 + 10_000, 1)

    async def test_what_is_debounced_or_limited_is_not_counted(self, make_world: MakeWorld) -> None:
        world = await make_world(Rules(max_marked=2, mark_debounce_ms=50, mark_window_ms=100, mark_ttl_ms=1_000))
        await join(world)
        answers = []
        for now, service in ((0, "a"), (49, "a"), (50, "a"), (99, "b"), (100, "b"), (149, "b"), (150, "b"), (199, "c")):
            world.now_ms = T0 + now
            answers.append(await mark(world.engine, CELL, "n1", service, "asr"))
        assert answers == [
            Marked(T0 + 1_000),
            Debounced(T0 + 1_000),
            Marked(T0 + 1_050),
            Limited(),
            Marked(T0 + 1_100),
            Debounced(T0 + 1_100),
            Marked(T0 + 1_150),
            Limited(),
        ]

    async def test_a_node_has_at_most_32_marks_but_each_can_be_prolonged(self, world: World) -> None:
        await join(world)
        for number in range(MAX_MARKS):
            world.now_ms = T0 + 10_000 * (number // 30)
            assert isinstance(await mark(world.engine, CELL, "n1", f"model-{number}", "tone"), Marked)
        assert await watch(world, mark(world.engine, CELL, "n1", "another", "tone")) == (Limited(), {})
        assert await mark(world.engine, CELL, "n1", "model-0", "tone") == Marked(T0 + 70_000)
        assert len((await profile(world)).marks) == MAX_MARKS == 32

    async def test_by_a_connection_that_was_replaced_nobody_marks(self, world: World) -> None:
        await join(world, connection="here.older")
        await join(world, connection="here.newer", epoch="1-n1")
        late = mark(world.engine, CELL, "n1", "", "asr", connection="here.older")
        answer, changes = await watch(world, late)
        assert (code_of(answer), changes) == ("NODE_REPLACED", {})
        assert await mark(world.engine, CELL, "n1", "", "asr", connection="here.newer") == Marked(END)

    async def test_a_node_that_nobody_knows_cannot_be_marked(self, world: World) -> None:
        answer, changes = await watch(world, mark(world.engine, CELL, "n1", "", "asr"))
        assert (code_of(answer), changes) == ("UNKNOWN_NODE", {})

    @pytest.mark.parametrize(
        "said",
        [
            ("no cell", "n1"),
            (CELL, ""),
            (CELL, "n:1"),
            (CELL, "n1", 7),
            (CELL, "n1", "a" * 129),
            (CELL, "n1", "\ud800"),
            (CELL, "n1", "", "gpu"),
            (CELL, "n1", "", None),
            (CELL, "n1", "", ["asr"]),
        ],
    )
    async def test_what_cannot_be_right_is_refused(self, world: World, said: Any) -> None:
        await join(world)
        answer, changes = await watch(world, mark(world.engine, *said))
        assert isinstance(answer, Refusal)
        assert (answer.code, changes) == ("INVALID_MESSAGE", {})

    async def test_marks_of_one_tick_are_answered_one_by_one(self, world: World) -> None:
        await asyncio.gather(join(world, "n1"), join(world, "n2"))
        calls = [("n1", "", "asr"), ("n2", "", "asr"), ("n1", "", "asr"), ("n3", "", "asr"), ("n1", "", "tts")]
        answers, changes = await watch(world, asyncio.gather(*(mark(world.engine, CELL, *call) for call in calls)))
        assert [code_of(answer) or answer for answer in answers] == [
            Marked(END),
            Marked(END),
            Debounced(END),
            "UNKNOWN_NODE",
            Marked(END),
        ]
        # n1 made group 2, n2 joined it and had it to itself when n1 went on to group 3.
        assert changes["nodes"] == {"n1": {"group": 3}, "n2": {"group": 2}}
        assert changes["room"] == {1: GONE, 2: 1, 3: 1}
        assert changes["due"] == {"m:n1": END, "m:n2": END}


class TestTheGroupFollows:
    """A node is where its like are, however it stands."""

    @pytest.mark.parametrize("service", SERVICES)
    async def test_each_type_is_a_bit_of_its_own(self, world: World, service: str) -> None:
        await join(world)
        await mark(world.engine, CELL, "n1", "", service)
        assert (await profile(world)).marks == [Mark(service, service, T0, END)]
        assert (await world.cell()).pairs == {"en:zh": [2 * LACKS + MARKED[service] + MUTE]}

    async def test_a_mark_without_a_type_is_one_of_the_whole_node(self, world: World) -> None:
        await join(world)
        assert await mark(world.engine, CELL, "n1") == Marked(END)
        assert (await profile(world)).marks == [Mark("", "", T0, END)]
        assert (await world.cell()).pairs == {"en:zh": [2 * LACKS + sum(MARKED.values()) + MUTE]}
        # Whatever is marked beside it makes no difference.
        await mark(world.engine, CELL, "n1", "", "asr")
        assert (await world.cell()).nodes["n1"].group == 2

    async def test_nodes_with_the_same_services_marked_are_one_group(self, world: World) -> None:
        for number in range(3):
            await join(world, f"n{number}")
        await mark(world.engine, CELL, "n0", "one", "asr")
        await mark(world.engine, CELL, "n1", "another", "asr")
        cell = await world.cell()
        assert cell.standing == {"n0": 32, "n1": 32, "n2": 16}
        assert cell.room == {1: 1, 2: 2}

    @pytest.mark.parametrize(("used", "standing"), [(1, Standing.suspect), (2, Standing.suspect_full)])
    async def test_how_a_node_stands_is_left_as_it_was(self, world: World, used: int, standing: Standing) -> None:
        await join(world)
        await doubt(world, "n1")
        for number in range(used):
            await place(world, f"{CELL}.{number}")
        _, changes = await watch(world, mark(world.engine, CELL, "n1", "", "asr"))
        assert changes["nodes"] == {"n1": {"group": 2}}
        assert changes["standing"] == {"n1": 32 + standing}

    async def test_a_node_without_a_pool_can_be_marked_and_has_none_afterwards(self, world: World) -> None:
        await join(world, nmt_pairs=[])
        answer, changes = await watch(world, mark(world.engine, CELL, "n1", "", "asr"))
        assert answer == Marked(END)
        assert changes.keys() == {"profiles", "due"}

    async def test_a_lost_node_can_be_marked(self, world: World) -> None:
        await join(world, connection="x")
        await disconnect(world.engine, CELL, "n1", "x")
        world.now_ms += 500
        await sweep(world)
        _, changes = await watch(world, mark(world.engine, CELL, "n1", "", "asr"))
        assert changes["standing"] == {"n1": 32 + Standing.lost}
        assert changes["room"] == {1: GONE}


class TestTheMarkEnds:
    """By time, by a new process, or with the node."""

    async def test_the_node_goes_back_to_its_like(self, world: World) -> None:
        await join(world, "n1")
        await join(world, "n2")
        await mark(world.engine, CELL, "n1", "", "asr")
        new = (await world.cell()).groups[2].signature
        await last_to(world, END - 1, "n1", "n2")
        assert await watch(world, sweep(world)) == (Settled(0, False), {})
        world.now_ms = END
        answer, changes = await watch(world, sweep(world))
        assert answer == Settled(1, False)
        assert changes == {
            "nodes": {"n1": {"group": 1}},
            "profiles": {"n1": {"marks": []}},
            "standing": {"n1": 16},
            "room": {1: 2, 2: GONE},
            "groups": {2: GONE},
            "signatures": {new: GONE},
            "pairs": {"en:zh": [LACKS + MUTE]},
            "ends": {"en:": 1, ":zh": 1},
            "due": {"m:n1": GONE},
        }

    async def test_a_node_alone_makes_its_group_anew(self, world: World) -> None:
        await join(world)
        first = (await world.cell()).groups[1].signature
        await mark(world.engine, CELL, "n1", "", "asr")
        await last_to(world, END, "n1")
        await sweep(world)
        cell = await world.cell()
        assert (cell.nodes["n1"].group, list(cell.groups), cell.signatures) == (3, [3], {first: 3})

    async def test_marks_end_one_by_one(self, world: World) -> None:
        """Two of asr and one of tts: it lacks asr until the second of those is over."""
        await join(world)
        marks = {0: ("asr-1", "asr"), 10: ("asr-2", "asr"), 20: ("tts", "tts")}
        for after_ms, (service, kind) in marks.items():
            world.now_ms = T0 + after_ms
            await mark(world.engine, CELL, "n1", service, kind)
        await last_to(world, END, "n1")
        _, changes = await watch(world, sweep(world))
        left = [Mark("asr-2", "asr", T0 + 10, END + 10), Mark("tts", "tts", T0 + 20, END + 20)]
        assert changes == {"profiles": {"n1": {"marks": left}}, "due": {"m:n1": END + 10}}
        for after_ms, lacks, due in ((10, MARKED["tts"], END + 20), (20, 0, None)):
            world.now_ms = END + after_ms
            await sweep(world)
            cell = await world.cell()
            group = cell.nodes["n1"].group
            assert cell.pairs == {"en:zh": [group * LACKS + lacks + MUTE]}
            assert cell.due.get("m:n1") == due

    async def test_a_look_that_comes_late_ends_all_that_are_over(self, world: World) -> None:
        await join(world)
        for after_ms, service in enumerate(SERVICES):
            world.now_ms = T0 + after_ms
            await mark(world.engine, CELL, "n1", "", service)
        await last_to(world, END + 1_000, "n1")
        assert await sweep(world) == Settled(1, False)
        cell = await world.cell()
        assert (cell.profiles["n1"].marks, list(cell.due)) == ([], ["n:n1"])

    async def test_the_count_of_marks_outlives_them(self, make_world: MakeWorld) -> None:
        world = await make_world(Rules(max_marked=1, mark_ttl_ms=10, mark_debounce_ms=0))
        await join(world)
        await mark(world.engine, CELL, "n1", "", "asr")
        world.now_ms += 10
        await sweep(world)
        assert await mark(world.engine, CELL, "n1", "", "asr") == Limited()

    async def test_a_node_that_leaves_takes_its_marks_with_it(self, world: World) -> None:
        await join(world)
        await mark(world.engine, CELL, "n1", "", "asr")
        _, changes = await watch(world, leave(world.engine, CELL, "n1"))
        assert changes["due"] == {"n:n1": GONE, "m:n1": GONE}
        await join(world)
        assert (await profile(world)).marks == []

    async def test_a_node_that_is_forgotten_takes_its_marks_with_it(self, make_world: MakeWorld) -> None:
        world = await make_world(Rules(node_record_ttl_ms=100))
        await join(world, connection="x")
        await disconnect(world.engine, CELL, "n1", "x")
        world.now_ms += 500
        await sweep(world)
        await mark(world.engine, CELL, "n1", "", "asr")
        world.now_ms += 100
        await sweep(world)
        cell = await world.cell()
        assert (cell.nodes, cell.groups, cell.due) == ({}, {}, {})


async def test_what_runs_stays_with_a_marked_node(world: World) -> None:
    await join(world)
    await place(world)
    _, changes = await watch(world, mark(world.engine, CELL, "n1"))
    assert not changes.keys() & {"jobs", "leases", "limbo"}
    await heartbeat(world.engine, CELL, "n1", running=[(A, 1)])
    assert (await world.cell()).jobs[A].node == "n1"
