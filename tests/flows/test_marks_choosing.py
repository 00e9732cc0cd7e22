"""While a service of a node is marked, no job that needs it goes there; who waits for the node waits for the mark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.capability import CROWDED, SERVICES
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.needs import USUAL
from lingua_scheduler.core.records import Event, Mark
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import Placed, Waiting, dispatch
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.mark import Marked, mark
from tests.support.cells import GONE, HELD, watch
from tests.support.pasts import give
from tests.support.stage import T0, A, B, code_of, join, keep_alive, place, queued, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

END = T0 + 60_000


async def ask(world: World, job_id: str = A, **wanted: Any) -> Placed | Waiting | Refusal:
    limits = Limits(timeout_ms=120_000)
    answer = await dispatch(world.engine, job_id, "s1", "en", "zh", seed=1, limits=limits, wanted=Wanted(**wanted))
    assert isinstance(answer, Placed | Waiting | Refusal), answer
    return answer


def counted(answer: object) -> Breakdown | None:
    assert isinstance(answer, Refusal)
    assert answer.code == "ALL_CANDIDATES_FULL_OR_FAILED"
    return answer.breakdown


class TestWhoIsChosen:
    """Services that are marked are the node's only while nobody needs them."""

    @pytest.mark.parametrize("needed", SERVICES)
    @pytest.mark.parametrize("marked", SERVICES)
    async def test_only_jobs_that_need_the_service_are_kept_away(self, world: World, marked: str, needed: str) -> None:
        await join(world, tts_langs=["zh"])
        await mark(world.engine, CELL, "n1", "", marked)
        answer = await ask(world, services=[needed])
        if needed == marked:
            assert counted(answer) == Breakdown(pool=1, marked=1)
        else:
            assert isinstance(answer, Placed)

    @pytest.mark.parametrize("needed", SERVICES)
    async def test_a_mark_of_the_whole_node_keeps_every_job_away(self, world: World, needed: str) -> None:
        await join(world, tts_langs=["zh"])
        await mark(world.engine, CELL, "n1", "model")
        assert counted(await ask(world, services=[needed])) == Breakdown(pool=1, marked=1)

    async def test_the_others_of_the_pool_take_it(self, world: World) -> None:
        for number in range(3):
            await join(world, f"n{number}", max_concurrent_jobs=4)
        await mark(world.engine, CELL, "n0", "", "nmt")
        await mark(world.engine, CELL, "n1", "", "tts")
        taken = {(await place(world, f"{CELL}.{number}", seed=number << 29)).node_id for number in range(8)}
        assert taken == {"n1", "n2"}

    async def test_a_retry_does_not_go_to_a_marked_node(self, world: World) -> None:
        """`MODEL_NOT_AVAILABLE` of a node with room: the job moves on, and the next one does not come back."""
        await join(world, "n1")
        await place(world)
        await join(world, "n2", max_concurrent_jobs=1)
        await mark(world.engine, CELL, "n1", "asr-en", "asr")
        answer = await fail(world.engine, A, 1, "n1", reason="MODEL_NOT_AVAILABLE")
        assert isinstance(answer, Failed)
        assert answer.node_id == "n2"
        assert counted(await ask(world, B)) == Breakdown(pool=2, full=1, marked=1)

    async def test_a_job_that_insists_on_a_marked_node_is_told_why_it_cannot_have_it(self, world: World) -> None:
        await join(world, "n1")
        await join(world, "n2")
        await mark(world.engine, CELL, "n1", "", "asr")
        answer = await ask(world, preferred_node_id="n1", strict=True)
        assert isinstance(answer, Refusal)
        assert (answer.code, "it is marked" in answer.detail) == ("PREFERRED_NODE_UNAVAILABLE", True)
        answer = await ask(world, preferred_node_id="n1")
        assert isinstance(answer, Placed)
        assert answer.node_id == "n2"

    async def test_nobody_is_told_that_no_node_could_ever_do_it(self, world: World) -> None:
        """A mark passes; a service that a node has not got does not."""
        await join(world, "n1")
        await join(world, "n2", services={"nmt": False})
        await mark(world.engine, CELL, "n1", "", "nmt")
        assert counted(await ask(world)) == Breakdown(pool=2, marked=1, no_service=1)
        await leave(world.engine, CELL, "n1")
        assert code_of(await ask(world)) == "NO_CAPABLE_NODE"

    @pytest.mark.parametrize(
        ("said", "first"),
        [({"services": {"nmt": False}}, "no_service"), ({"accept_public_jobs": False}, "not_permitted")],
    )
    async def test_what_will_not_pass_is_the_first_reason(self, world: World, said: dict[str, Any], first: str) -> None:
        await join(world, "n0")
        await give(world, "n0")
        await give(world, "n0")
        await join(world, "n1", **said)
        await mark(world.engine, CELL, "n1", "", "asr")
        assert counted(await ask(world)) == Breakdown(**{"pool": 2, "full": 1, first: 1})

    async def test_how_it_stands_is_a_later_reason(self, world: World) -> None:
        await join(world, "n1")
        await drain(world.engine, CELL, "n1")
        await mark(world.engine, CELL, "n1", "", "asr")
        assert counted(await ask(world)) == Breakdown(pool=1, marked=1)
        assert counted(await ask(world, services=["nmt"])) == Breakdown(pool=1, draining=1)


class TestWhoWaits:
    """The end of a mark is room."""

    async def test_the_end_of_a_mark_gives_the_node_to_those_who_wait_for_it(self, world: World) -> None:
        await join(world)
        await mark(world.engine, CELL, "n1", "", "asr")
        world.now_ms = END - 1
        await keep_alive(world, "n1")
        assert await ask(world, wait_ms=2_000) == Waiting(1, END + 1_999)
        deadline = END - 1 + 120_000
        world.now_ms = END
        marked = (await world.cell()).groups[2].signature
        _, changes = await watch(world, sweep(world))
        plain = (await world.cell()).groups[3]
        fields = {"state": "RESERVED", "attempt": 1, "node": "n1", "epoch": "1-n1", "acks": 1, "reserved_at_ms": END}
        assert changes.pop("pairs").keys() == {"en:zh"}
        assert changes == {
            "nodes": {"n1": {"used": 1, "group": 3}},
            "profiles": {"n1": {"marks": []}},
            "standing": {"n1": 48},
            "room": {2: GONE, 3: 1},
            "groups": {2: GONE, 3: plain},
            "signatures": {marked: GONE, plain.signature: 3},
            "jobs": {A: fields},
            "leases": {f"n1:{A}:1": HELD},
            "queue": {queued(A, deadline): GONE},
            "due": {"m:n1": GONE, f"j:{A}": END + 5_000},
            "outbox": {Event("reserved", A, 1, "n1", "1-n1", "", END): END},
            "counts": {"accepted": 1, "group": 3},
        }

    async def test_a_dispatch_at_the_very_end_of_a_mark_finds_the_node(self, world: World) -> None:
        await join(world)
        await mark(world.engine, CELL, "n1", "", "asr")
        world.now_ms = END - 1
        await keep_alive(world, "n1")
        assert counted(await ask(world)) == Breakdown(pool=1, marked=1)
        world.now_ms = END
        assert isinstance(await ask(world), Placed)

    async def test_a_mark_that_ends_frees_the_node_for_jobs_that_need_it_and_not_for_others(self, world: World) -> None:
        """asr ends first: who needs asr is served, who needs tts still waits."""
        await join(world, tts_langs=["zh"])
        await mark(world.engine, CELL, "n1", "", "asr")
        world.now_ms += 1_000
        await mark(world.engine, CELL, "n1", "", "tts")
        world.now_ms = END - 1
        await keep_alive(world, "n1")
        for job_id, service in ((A, "asr"), (B, "tts")):
            assert isinstance(await ask(world, job_id, services=[service], wait_ms=10_000), Waiting)
        for now, states in ((END, ["RESERVED", "WAITING"]), (END + 1_000, ["RESERVED", "RESERVED"])):
            world.now_ms = now
            await sweep(world)
            jobs = (await world.cell()).jobs
            assert [jobs[job_id].state for job_id in (A, B)] == states

    async def test_who_waits_for_a_full_node_that_is_marked_waits_on_when_it_has_room(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1)
        busy = await give(world, "n1")
        assert isinstance(await ask(world, wait_ms=4_000), Waiting)
        await mark(world.engine, CELL, "n1", "", "asr")
        await fail(world.engine, busy, 1, "n1", reason="MODEL_NOT_AVAILABLE")
        assert (await world.cell()).jobs[A].state == "WAITING"

    async def test_a_node_that_is_marked_takes_those_who_do_not_need_the_service(self, world: World) -> None:
        """They stand in line for its new group too."""
        await join(world, max_concurrent_jobs=1)
        busy = await give(world, "n1")
        assert isinstance(await ask(world, services=["nmt"], wait_ms=4_000), Waiting)
        await mark(world.engine, CELL, "n1", "", "asr")
        await fail(world.engine, busy, 1, "n1", reason="MODEL_NOT_AVAILABLE")
        assert (await world.cell()).jobs[A].node == "n1"

    async def test_a_mark_that_turns_out_to_be_of_another_type_frees_the_node_for_who_waits(self, world: World) -> None:
        """It was not asr that failed: the mark itself gives the node away."""
        await join(world)
        await mark(world.engine, CELL, "n1", "model", "asr")
        await ask(world, wait_ms=10_000)
        world.now_ms += 5_000
        _, changes = await watch(world, mark(world.engine, CELL, "n1", "model", "tone"))
        assert changes["nodes"] == {"n1": {"used": 1, "group": 3}}
        assert changes["jobs"][A]["state"] == "RESERVED"
        assert changes["counts"] == {"accepted": 1, "group": 3}

    async def test_a_job_that_waited_in_vain_is_told_of_the_mark(self, world: World) -> None:
        await join(world)
        await mark(world.engine, CELL, "n1", "", "asr")
        await ask(world, wait_ms=2_000)
        world.now_ms += 2_000
        await sweep(world)
        told = [event.detail for event, _ in (await world.cell()).outbox if event.kind == "refused"]
        assert told == ["2000 ALL_CANDIDATES_FULL_OR_FAILED 1 0 0 0 0 0 1 0 0 0"]


class TestACrowdedCell:
    """Marks make groups, but no kinds: a mark never costs a node its pools, and takes nobody else's place."""

    @pytest.fixture
    async def world(self, make_world: MakeWorld) -> World:
        """A cell of one kind, and there may be no more."""
        world = await make_world(Rules(max_groups=1))
        await join(world, "n1")
        await join(world, "n2")
        return world

    async def test_a_marked_node_stays_in_its_pools_and_returns_with_the_end_of_its_mark(self, world: World) -> None:
        assert await mark(world.engine, CELL, "n1", "", "tone") == Marked(END)
        assert {n: node.group for n, node in (await world.cell()).nodes.items()} == {"n1": 2, "n2": 1}
        assert isinstance(await ask(world, preferred_node_id="n1", strict=True), Placed)
        world.now_ms = END
        await keep_alive(world, "n1", "n2")
        await sweep(world)
        cell = await world.cell()
        assert {n: node.group for n, node in cell.nodes.items()} == {"n1": 1, "n2": 1}
        assert set(cell.groups) == {1}

    async def test_it_is_marked_and_not_incapable(self, world: World) -> None:
        await leave(world.engine, CELL, "n2")
        await mark(world.engine, CELL, "n1", "", "asr")
        assert counted(await ask(world)) == Breakdown(pool=1, marked=1)

    async def test_a_kind_of_which_all_are_marked_is_still_there(self, world: World) -> None:
        for node_id in ("n1", "n2"):
            await mark(world.engine, CELL, node_id, "", "tone")
        assert (await join(world, "n1", process_id="p2")).warnings == []
        assert (await join(world, "n3")).warnings == []
        assert {n: node.group for n, node in (await world.cell()).nodes.items()} == {"n1": 3, "n2": 2, "n3": 3}

    async def test_another_kind_is_refused_as_before(self, world: World) -> None:
        await mark(world.engine, CELL, "n1", "", "tone")
        assert (await join(world, "n3", labels={"region": "eu"})).warnings == [CROWDED]
        await leave(world.engine, CELL, "n2")
        # A kind that is left makes room only if nobody else is of it, marked or not.
        assert (await join(world, "n1", labels={"region": "eu"})).warnings == []
        await join(world, "n2", labels={"region": "eu"})
        await mark(world.engine, CELL, "n2", "", "asr")
        assert (await join(world, "n1", labels={"region": "us"})).warnings == [CROWDED]

    async def test_a_marked_node_that_says_the_same_again_stays_where_it_is(self, world: World) -> None:
        await mark(world.engine, CELL, "n1", "", "tone")
        assert (await join(world, "n1")).warnings == []
        assert (await world.cell()).nodes["n1"].group == 2
        await mark(world.engine, CELL, "n2", "", "asr")
        assert (await join(world, "n2", connection="y")).warnings == []

    async def test_a_marked_kind_counts_once(self, make_world: MakeWorld) -> None:
        world = await make_world(Rules(max_groups=2))
        await join(world, "n1")
        await join(world, "n2")
        await mark(world.engine, CELL, "n1", "", "tone")
        assert (await join(world, "n3", labels={"region": "eu"})).warnings == []
        assert (await join(world, "n4", labels={"region": "us"})).warnings == [CROWDED]

    async def test_a_node_that_serves_nothing_needs_no_room(self, world: World) -> None:
        answer = await join(world, "n3", services={"semantic": False}, lenient=True)
        assert CROWDED not in answer.warnings

    async def test_a_node_that_the_cell_has_no_room_for_does_not_get_in_by_a_mark(self, world: World) -> None:
        await join(world, "n3", labels={"region": "eu"})
        await mark(world.engine, CELL, "n3", "", "tone")
        assert (await world.cell()).nodes["n3"].group == 0
        world.now_ms = END
        await keep_alive(world, "n1", "n2", "n3")
        await sweep(world)
        cell = await world.cell()
        assert (cell.nodes["n3"].group, cell.profiles["n3"].marks) == (0, [])


class TestMarksAndRegistrations:
    """A mark is about a process; a new one has not been seen to fail."""

    @pytest.mark.parametrize("how", ["RESYNC", "CONTINUED", "RENEWED"])
    async def test_a_node_that_comes_back_as_itself_is_still_marked(self, world: World, how: str) -> None:
        await join(world, connection="x", process_id="p1")
        await mark(world.engine, CELL, "n1", "", "asr")
        if how == "RENEWED":
            await disconnect(world.engine, CELL, "n1", "x")
            world.now_ms += 500
            await sweep(world)
        said = {"epoch": "1-n1"} if how == "RESYNC" else {}
        answer, changes = await watch(world, join(world, connection="y", process_id="p1", **said))
        assert (answer.how, answer.pairs) == (how, ["en:zh"])
        assert not changes.keys() & {"groups", "signatures", "pairs"}
        cell = await world.cell()
        assert (cell.profiles["n1"].marks, cell.due["m:n1"]) == ([Mark("asr", "asr", T0, END)], END)
        assert (cell.profiles["n1"].marked, cell.profiles["n1"].marking_since_ms) == (1, T0)
        assert counted(await ask(world)) == Breakdown(pool=1, marked=1)

    @pytest.mark.parametrize("lost", [False, True])
    async def test_a_new_process_has_no_marks(self, world: World, lost: bool) -> None:
        await join(world, connection="x", process_id="p1")
        await mark(world.engine, CELL, "n1", "", "asr")
        if lost:
            await disconnect(world.engine, CELL, "n1", "x")
            world.now_ms += 500
            await sweep(world)
        assert (await join(world, connection="y", process_id="p2")).how == "NEW_PROCESS"
        cell = await world.cell()
        assert (cell.profiles["n1"].marks, "m:n1" in cell.due) == ([], False)
        # How often it was marked lately is still known: a crash loop does not get round the limit.
        assert (cell.profiles["n1"].marked, cell.profiles["n1"].marking_since_ms) == (1, T0)
        assert isinstance(await ask(world), Placed)

    async def test_a_new_process_takes_those_who_waited_for_the_end_of_the_mark(self, world: World) -> None:
        await join(world, process_id="p1")
        await mark(world.engine, CELL, "n1", "", "asr")
        await ask(world, wait_ms=4_000)
        await join(world, process_id="p2")
        assert (await world.cell()).jobs[A].node == "n1"

    async def test_a_beat_with_another_capability_keeps_the_marks(self, world: World) -> None:
        await join(world)
        await mark(world.engine, CELL, "n1", "", "asr")
        await heartbeat(world.engine, CELL, "n1", tts_langs=["zh"])
        assert len((await world.cell()).profiles["n1"].marks) == 1
        assert counted(await ask(world, services=USUAL)) == Breakdown(pool=1, marked=1)
        assert isinstance(await ask(world, services=["nmt", "tts"]), Placed)
