"""A job without a node stands in the queue, and the very call that frees a slot gives it to the one who must hurry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, Event, Standing
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.evict import evict
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.heartbeat import Beaten, heartbeat
from lingua_scheduler.flows.intents import Intended
from lingua_scheduler.flows.leave import Left, leave
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.register import Registered
from lingua_scheduler.flows.resume import resume
from lingua_scheduler.flows.stopped import Stopped, stopped
from lingua_scheduler.flows.undeliver import undeliver
from tests.support.cells import GONE, HELD, together, watch
from tests.support.stage import (
    ONE_TRY,
    T0,
    A,
    B,
    C,
    D,
    bring,
    code_of,
    join,
    keep_alive,
    nodes_of,
    past,
    place,
    queued,
    served,
    sweep,
    wait,
    waiting,
)
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.cells import Changes
    from tests.support.world import World

BUSY = f"{CELL}.busy"
BUSY_LEASE = f"n1:{BUSY}:1"
NOW = T0 + 7
DEADLINE = T0 + 60_000

NOTHING: tuple[Settled, Changes] = (Settled(0, False), {})


def ended(state: str, detail: str, **more: Any) -> Changes:
    """BUSY has ended, and its slot is free."""
    return {
        "jobs": {BUSY: {"state": state, "ended_at_ms": NOW} | more},
        "leases": {BUSY_LEASE: GONE},
        "due": {f"j:{BUSY}": FORGET_FROM + NOW + 120_000},
        "outbox": {Event("ended", BUSY, 1, "n1", "1-n1", detail, NOW): NOW},
        "counts": {state: 1},
    }


def confirmed(lease: str = BUSY_LEASE) -> Changes:
    """An attempt in limbo is over."""
    return {"leases": {lease: GONE}, "limbo": {lease: GONE}, "due": {f"l:{lease}": GONE}}


async def busy(world: World, state: Any = "RUNNING", **asked: Any) -> None:
    """n1 has one slot, BUSY has it, and A waits. 7 ms pass."""
    await join(world, "n1", max_concurrent_jobs=1)
    await bring(world, state, BUSY, **asked)
    await wait(world, {A: 60_000})
    world.now_ms = NOW


class TestWhoWakesThoseWhoWait:
    """Every flow after which a node has room gives that room away itself."""

    async def test_a_result_gives_its_slot_to_the_job_that_waits(self, world: World) -> None:
        await busy(world)
        answer, changes = await watch(world, done(world.engine, BUSY, 1, "n1"))
        assert answer == Moved("FINISHED")
        assert changes == together(ended("FINISHED", ""), served(A, "n1", "1-n1"))

    async def test_a_last_failure_gives_its_slot_to_the_job_that_waits(self, world: World) -> None:
        await busy(world, limits=ONE_TRY)
        answer, changes = await watch(world, fail(world.engine, BUSY, 1, "n1", reason="broken"))
        assert answer == Failed("FAILED", 1, False)
        blamed = past((1, "n1", "failed", NOW, "FAILED"), tries=1, reason="broken")
        assert changes == together(ended("FAILED", "broken", past=blamed), served(A, "n1", "1-n1"))

    async def test_a_stop_of_the_last_try_gives_its_slot_to_the_job_that_waits(self, world: World) -> None:
        await busy(world, limits=ONE_TRY)
        answer, changes = await watch(world, stopped(world.engine, BUSY, 1, "n1"))
        assert answer == Stopped("FAILED", 1)
        blamed = past((1, "n1", "stopped", NOW, "FAILED"), tries=1, reason="stopped")
        assert changes == together(ended("FAILED", "stopped", past=blamed), served(A, "n1", "1-n1"))

    async def test_a_cancel_frees_nothing_before_the_node_has_confirmed_it(self, world: World) -> None:
        await busy(world)
        _, changes = await watch(world, cancel(world.engine, BUSY))
        assert changes["jobs"].keys() == {BUSY}
        assert changes["nodes"] == {"n1": {"limbo": 1}}

    @pytest.mark.parametrize("word", [stopped, done])
    async def test_the_word_that_ends_a_limbo_gives_its_slot_to_the_job_that_waits(
        self, world: World, word: Any
    ) -> None:
        await busy(world, "CANCELLED")
        answer, changes = await watch(world, word(world.engine, BUSY, 1, "n1"))
        assert code_of(answer) == "STALE_ATTEMPT"
        assert changes == together({"nodes": {"n1": {"limbo": 0}}}, confirmed(), served(A, "n1", "1-n1"))

    async def test_a_late_failure_that_ends_a_limbo_gives_its_slot_to_the_job_that_waits(self, world: World) -> None:
        await busy(world, "CANCELLED")
        answer, changes = await watch(world, fail(world.engine, BUSY, 1, "n1", reason=""))
        assert code_of(answer) == "STALE_ATTEMPT"
        assert changes == together({"nodes": {"n1": {"limbo": 0}}}, confirmed(), served(A, "n1", "1-n1"))

    @pytest.mark.parametrize("said", [{"running": []}, {"running_jobs": 0}])
    async def test_a_beat_that_ends_a_limbo_gives_its_slot_to_the_job_that_waits(
        self, world: World, said: dict[str, Any]
    ) -> None:
        await busy(world, "CANCELLED")
        now = world.now_ms = T0 + 2_000
        _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", **said))
        assert changes == together(
            {"nodes": {"n1": {"limbo": 0, "seen_at_ms": now}}, "due": {"n:n1": now + 35_000}},
            confirmed(),
            served(A, "n1", "1-n1", now),
        )

    async def test_a_beat_with_another_slot_gives_it_to_the_job_that_waits(self, world: World) -> None:
        """What the beat is told is how the node stood before that."""
        await busy(world)
        answer, changes = await watch(world, heartbeat(world.engine, CELL, "n1", max_concurrent_jobs=2))
        assert answer == Beaten("1-n1", Standing.available, [])
        assert changes == together(
            {
                "nodes": {"n1": {"used": 2, "max": 2, "own_max": 2, "ceiling": 2, "seen_at_ms": NOW}},
                "due": {"n:n1": NOW + 35_000},
            },
            served(A, "n1", "1-n1"),
        )

    async def test_a_node_that_is_ready_again_takes_what_waits(self, world: World) -> None:
        await join(world, health="degraded")
        await wait(world, {A: 60_000})
        world.now_ms = NOW
        _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", health="ready"))
        assert changes == together(
            {
                "nodes": {"n1": {"used": 1, "reported": "ready", "standing": 0, "seen_at_ms": NOW}},
                "standing": {"n1": 16},
                "room": {1: 1},
                "due": {"n:n1": NOW + 35_000},
            },
            served(A, "n1", "1-n1"),
        )

    async def test_a_node_that_learns_a_pair_takes_what_waits_for_it(self, world: World) -> None:
        """It had room all the time, but for something else."""
        await join(world, nmt_pairs=[["zh", "en"]])
        await wait(world, {A: 60_000})
        world.now_ms = NOW
        _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", nmt_pairs=[["en", "zh"]]))
        assert changes["nodes"] == {"n1": {"used": 1, "group": 3, "seen_at_ms": NOW}}
        assert changes["room"] == {1: GONE, 3: 1}
        for key, entries in served(A, "n1", "1-n1").items():
            assert entries.items() <= changes[key].items()

    async def test_a_node_that_joins_takes_what_waits(self, world: World) -> None:
        await join(world, "n1", health="degraded")
        await wait(world, {A: 60_000})
        world.now_ms = NOW
        answer, changes = await watch(world, join(world, "n2", max_concurrent_jobs=1))
        assert answer == Registered("NEW", "3-n2", Standing.available, ["en:zh"], [], [])
        record = changes.pop("nodes")["n2"]
        assert (record.used, record.standing, record.limbo, record.epoch) == (1, Standing.full, 0, "3-n2")
        assert changes.pop("profiles").keys() == {"n2"}
        assert changes == together(
            {"standing": {"n2": 18}, "due": {"n:n2": NOW + 35_000}, "counts": {"epoch": 3}},
            served(A, "n2", "3-n2"),
        )

    async def test_a_node_that_comes_back_without_its_work_takes_what_waits_before(self, world: World) -> None:
        """Its own dropped job is behind."""
        await busy(world)
        answer, changes = await watch(world, join(world, "n1", max_concurrent_jobs=1, epoch="1-n1", running=[]))
        assert answer == Registered("RESYNC", "1-n1", Standing.full, ["en:zh"], [], [])
        dropped = past((1, "n1", "dropped", NOW, "RETRYING"), tries=1)
        assert changes == together(
            {
                "nodes": {"n1": {"seen_at_ms": NOW}},
                "profiles": {"n1": {"registered_at_ms": NOW, "opened_ms": NOW}},
                "jobs": {BUSY: {"state": "RETRYING", "past": dropped}},
                "leases": {BUSY_LEASE: GONE},
                "queue": {queued(BUSY, DEADLINE): HELD},
                "due": {"n:n1": NOW + 35_000, f"j:{BUSY}": DEADLINE},
            },
            served(A, "n1", "1-n1"),
        )

    async def test_a_node_that_comes_back_in_its_grace_takes_what_waits(self, world: World) -> None:
        await join(world, connection="x")
        await disconnect(world.engine, CELL, "n1", "x")
        await wait(world, {A: 60_000})
        world.now_ms = NOW
        _, changes = await watch(world, join(world, connection="y", epoch="1-n1"))
        assert changes == together(
            {
                "nodes": {"n1": {"used": 1, "standing": 0, "away_until_ms": 0, "seen_at_ms": NOW, "nonce": "y"}},
                "profiles": {"n1": {"connection": "y", "registered_at_ms": NOW, "opened_ms": NOW}},
                "standing": {"n1": 16},
                "room": {1: 1},
                "due": {"n:n1": NOW + 35_000},
            },
            served(A, "n1", "1-n1"),
        )

    async def test_a_resumed_node_takes_what_waits(self, world: World) -> None:
        await join(world)
        await drain(world.engine, CELL, "n1")
        await wait(world, {A: 60_000})
        world.now_ms = NOW
        answer, changes = await watch(world, resume(world.engine, CELL, "n1"))
        assert answer == Intended("active", Standing.available, 0)
        assert changes == together(
            {
                "nodes": {"n1": {"used": 1, "intent": "active", "standing": 0}},
                "standing": {"n1": 16},
                "room": {1: 1},
            },
            served(A, "n1", "1-n1"),
        )

    async def test_a_write_that_failed_for_the_last_time_gives_its_slot_to_the_job_that_waits(
        self, make_world: MakeWorld
    ) -> None:
        """Where a closed socket has no grace, its node need not rest."""
        world = await make_world(Rules(reconnect_grace_ms=0, max_undelivered=0))
        await busy(world, "RESERVED")
        await undeliver(world.engine, BUSY, 1, "n1")
        cell = await world.cell()
        assert cell.jobs[BUSY].state == "FAILED"
        assert nodes_of(cell, A) == ["n1"]

    async def test_a_node_that_could_not_be_written_to_takes_what_waits_after_its_rest(self, world: World) -> None:
        """First who must hurry most, whoever it was that could not be delivered."""
        await busy(world, "RESERVED")
        await undeliver(world.engine, BUSY, 1, "n1")
        assert nodes_of(await world.cell(), A, BUSY) == ["", ""]
        world.now_ms += 499
        await sweep(world)
        assert nodes_of(await world.cell(), A, BUSY) == ["", ""]
        world.now_ms += 1
        await sweep(world)
        assert nodes_of(await world.cell(), A, BUSY) == ["n1", ""]

    async def test_a_node_that_has_rested_takes_what_waits(self, world: World) -> None:
        """Even the very job that it refused."""
        await join(world)
        await place(world)
        await fail(world.engine, A, 1, "n1", reason="", overloaded=True, retry_after_ms=20)
        world.now_ms += 19
        assert await watch(world, reap(world.engine, CELL)) == NOTHING
        now = world.now_ms = T0 + 20
        answer, changes = await watch(world, reap(world.engine, CELL))
        assert answer == Settled(1, False)
        assert changes == {
            "nodes": {"n1": {"used": 1, "standing": 0}},
            "standing": {"n1": 16},
            "room": {1: 1},
            "jobs": {A: {"state": "RESERVED", "attempt": 2, "reserved_at_ms": now}},
            "leases": {f"n1:{A}:2": HELD},
            "queue": {queued(A, DEADLINE): GONE},
            "due": {"n:n1": T0 + 35_000, f"j:{A}": now + 5_000},
            "outbox": {Event("reserved", A, 2, "n1", "1-n1", "", now): now},
        }

    async def test_a_legacy_node_that_is_forgiven_takes_what_waits(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1, tells=False)
        await bring(world, "CANCELLED", BUSY)
        await wait(world, {A: 90_000})
        now = world.now_ms = T0 + 60_000
        await keep_alive(world, "n1")
        answer, changes = await watch(world, reap(world.engine, CELL))
        assert answer == Settled(1, False)
        assert changes == together(
            {
                "nodes": {"n1": {"limbo": 0}},
                "outbox": {Event("forgiven", BUSY, 1, "n1", "1-n1", "", now): now},
            },
            confirmed(),
            served(A, "n1", "1-n1", now, deadline=T0 + 90_000),
        )

    async def test_a_node_that_was_lost_in_silence_and_confirms_takes_what_waits(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1)
        await bring(world, "CANCELLED", BUSY)
        now = world.now_ms = T0 + 45_000
        await sweep(world)
        await wait(world, {A: 15_000})
        _, changes = await watch(world, stopped(world.engine, BUSY, 1, "n1"))
        gets_it = served(A, "n1", "1-n1", now)
        del gets_it["jobs"][A]["reserved_at_ms"]
        assert changes == together(
            {
                "nodes": {"n1": {"limbo": 0, "standing": 2, "lost_at_ms": 0, "seen_at_ms": now}},
                "standing": {"n1": 18},
                "due": {"n:n1": now + 35_000},
            },
            confirmed(),
            gets_it,
        )

    async def test_a_lost_node_that_beats_takes_what_waits(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1)
        now = world.now_ms = T0 + 45_000
        await sweep(world)
        await wait(world, {A: 60_000})
        assert (await world.cell()).nodes["n1"].standing == Standing.lost
        world.now_ms += 1
        await heartbeat(world.engine, CELL, "n1")
        cell = await world.cell()
        assert nodes_of(cell, A) == ["n1"]
        assert (cell.nodes["n1"].used, cell.nodes["n1"].standing) == (1, Standing.full)
        assert cell.jobs[A].reserved_at_ms == now + 1

    async def test_an_eviction_and_a_leave_count_what_they_end_and_free_nothing(self, world: World) -> None:
        """The last try of each job ends, and whoever waits goes on waiting."""
        await join(world, "n1", max_concurrent_jobs=1)
        await bring(world, "RUNNING", B, limits=ONE_TRY)
        await join(world, "n2", max_concurrent_jobs=1)
        await bring(world, "RUNNING", C, limits=Limits(timeout_ms=7))
        await wait(world, {A: 60_000})
        world.now_ms = NOW
        answer, changes = await watch(world, evict(world.engine, CELL, "n2"))
        assert (answer, changes["counts"]) == (Intended("evicted", Standing.draining, 1), {"EXPIRED": 1})
        left, changes = await watch(world, leave(world.engine, CELL, "n1"))
        assert (left, changes["counts"]) == (Left(1), {"FAILED": 1})
        assert waiting(await world.cell()) == [queued(A, DEADLINE)]


class TestWhoGoesFirst:
    """The earliest deadline, whatever it waits for; and nobody overtakes those who already wait."""

    @pytest.mark.parametrize("timeouts", [(50_000, 40_000), (40_000, 50_000)])
    async def test_the_earliest_deadline_goes_first(self, world: World, timeouts: tuple[int, int]) -> None:
        await join(world, "n1", max_concurrent_jobs=1)
        await bring(world, "RUNNING", BUSY)
        await wait(world, {A: timeouts[0], B: timeouts[1]})
        world.now_ms = NOW
        first, second = (A, B) if timeouts[0] < timeouts[1] else (B, A)
        _, changes = await watch(world, done(world.engine, BUSY, 1, "n1"))
        assert changes == together(ended("FINISHED", ""), served(first, "n1", "1-n1", deadline=T0 + 40_000))
        assert waiting(await world.cell()) == [queued(second, T0 + 50_000)]
        await done(world.engine, first, 2, "n1")
        assert nodes_of(await world.cell(), second) == ["n1"]

    async def test_deadlines_are_compared_across_what_the_jobs_wait_for(self, world: World) -> None:
        """And equal ones by the names of the jobs."""
        both = [["en", "zh"], ["zh", "en"]]
        await join(world, "n1", nmt_pairs=both, max_concurrent_jobs=1, health="degraded")
        await wait(world, {C: 30_000, D: 10_000, "c0.e": 50_000}, "en:zh")
        await wait(world, {A: 40_000, B: 30_000, "c0.f": 20_000}, "zh:en")
        assert len(waiting(await world.cell())) == 6
        await heartbeat(world.engine, CELL, "n1", health="ready")
        order = []
        for _ in range(6):
            cell = await world.cell()
            order += [job_id for job_id, job in cell.jobs.items() if job.state == "RESERVED"]
            await done(world.engine, order[-1], 2, "n1")
        assert order == [D, "c0.f", B, C, A, "c0.e"]
        cell = await world.cell()
        assert cell.queue == []

    async def test_a_node_with_several_slots_takes_several(self, world: World) -> None:
        """As many as it has slots, at once and in order; the others go on waiting."""
        await join(world, "n1", max_concurrent_jobs=3, health="degraded")
        await wait(world, {A: 40_000, B: 10_000, C: 30_000, D: 20_000})
        world.now_ms = NOW
        _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", health="ready"))
        assert changes == together(
            {
                "nodes": {"n1": {"used": 3, "reported": "ready", "standing": 2, "seen_at_ms": NOW}},
                "standing": {"n1": 18},
                "due": {"n:n1": NOW + 35_000},
            },
            *(served(job_id, "n1", "1-n1", deadline=T0 + at) for job_id, at in ((B, 10_000), (C, 30_000), (D, 20_000))),
        )

    async def test_nodes_that_come_to_have_room_together_choose_as_they_are_looked_at(self, world: World) -> None:
        """Whatever their names are."""
        for number, node_id in enumerate(("n2", "n1", "n3")):
            await join(world, node_id, max_concurrent_jobs=1)
            await place(world, f"c0.{node_id}", limits=Limits(max_retry=10))
            attempt = (f"c0.{node_id}", 1, node_id)
            await fail(world.engine, *attempt, reason="", overloaded=True, retry_after_ms=100 + number)
            await cancel(world.engine, f"c0.{node_id}")
        await wait(world, {A: 50_000, B: 40_000, C: 60_000, D: 70_000})
        world.now_ms += 102
        assert await sweep(world) == Settled(3, False)
        cell = await world.cell()
        assert nodes_of(cell, A, B, C, D) == ["n1", "n2", "n3", ""]

    async def test_a_job_that_fails_is_behind_those_who_already_wait(self, world: World) -> None:
        """Even with an earlier deadline: they were first."""
        await busy(world, limits=Limits(timeout_ms=40_000))
        answer, changes = await watch(world, fail(world.engine, BUSY, 1, "n1", reason="broken"))
        assert answer == Failed("RETRYING", 2, False)
        blamed = past((1, "n1", "failed", NOW, "RETRYING"), tries=1)
        assert changes == together(
            {
                "jobs": {BUSY: {"state": "RETRYING", "past": blamed}},
                "leases": {BUSY_LEASE: GONE},
                "queue": {queued(BUSY, T0 + 40_000): HELD},
                "due": {f"j:{BUSY}": T0 + 40_000},
            },
            served(A, "n1", "1-n1"),
        )

    async def test_a_newcomer_gets_no_slot_that_comes_free_in_the_same_tick(self, world: World) -> None:
        await busy(world)
        refusal, _ = await asyncio.gather(
            dispatch(world.engine, B, "s1", "en", "zh"), done(world.engine, BUSY, 1, "n1")
        )
        assert code_of(refusal) == "ALL_CANDIDATES_FULL_OR_FAILED"
        assert nodes_of(await world.cell(), A) == ["n1"]

    async def test_a_newcomer_gets_no_slot_of_a_node_that_has_just_rested(self, world: World) -> None:
        """The dispatch itself finds that out, and gives the slot to who waits."""
        await join(world, max_concurrent_jobs=1)
        await place(world)
        await fail(world.engine, A, 1, "n1", reason="", overloaded=True, retry_after_ms=20)
        world.now_ms += 20
        answer, changes = await watch(world, dispatch(world.engine, B, "s1", "en", "zh"))
        assert code_of(answer) == "ALL_CANDIDATES_FULL_OR_FAILED"
        assert changes == {
            "nodes": {"n1": {"used": 1, "standing": 2}},
            "standing": {"n1": 18},
            "jobs": {A: {"state": "RESERVED", "attempt": 2, "reserved_at_ms": T0 + 20}},
            "leases": {f"n1:{A}:2": HELD},
            "queue": {queued(A, DEADLINE): GONE},
            "due": {"n:n1": T0 + 35_000, f"j:{A}": T0 + 5_020},
            "outbox": {Event("reserved", A, 2, "n1", "1-n1", "", T0 + 20): T0 + 20},
        }

    async def test_jobs_that_wait_draw_no_lots(self, world: World) -> None:
        """The node that came free is the one: the next choice of the job is drawn from where it was."""
        await busy(world)
        seed = (await world.cell()).jobs[A].seed
        await done(world.engine, BUSY, 1, "n1")
        assert (await world.cell()).jobs[A].seed == seed

    async def test_the_ack_of_a_job_that_waited_is_awaited_no_longer_than_the_job(self, world: World) -> None:
        await busy(world)
        world.now_ms = DEADLINE - 30
        await keep_alive(world, "n1")
        await done(world.engine, BUSY, 1, "n1")
        assert (await world.cell()).due[f"j:{A}"] == DEADLINE

    async def test_a_number_that_the_node_claims_is_passed_over_for_a_job_that_waited_too(self, world: World) -> None:
        """What its last node was told stays as it was told."""
        await join(world, "n1", health="degraded")
        await wait(world, {A: 60_000})
        before = (await world.cell()).jobs[A].past
        await join(world, "n2", running=[(A, 2)])
        cell = await world.cell()
        assert cell.leases == [f"n2:{A}:2", f"n2:{A}:3"]
        assert (cell.jobs[A].attempt, cell.jobs[A].past) == (3, msgspec.structs.replace(before, reasons=["waited"]))
        assert [(end.attempt, end.next_attempt) for end in before.attempts] == [(1, 2)]


class TestWhoServesWhom:
    """A node serves what its pairs serve, and nothing else."""

    @pytest.mark.parametrize("pairs", [[["zh", "en"]], [["en", "de"]], [["de", "zh"]], []])
    async def test_a_node_of_other_pairs_leaves_the_job_waiting(self, world: World, pairs: list[list[str]]) -> None:
        await wait(world, {A: 60_000})
        _, changes = await watch(world, join(world, "n1", semantic_langs=["en", "zh", "de"], nmt_pairs=pairs))
        assert not changes.keys() & {"jobs", "queue", "leases", "outbox"}

    @pytest.mark.parametrize("pairs", ["any", [["en", "*"]], [["*", "zh"]], [["zh", "en"], ["en", "zh"]]])
    async def test_a_node_for_any_target_or_source_takes_the_job_that_waits(self, world: World, pairs: Any) -> None:
        await wait(world, {A: 60_000})
        await join(world, "n1", nmt_pairs=pairs)
        cell = await world.cell()
        assert nodes_of(cell, A) == ["n1"]
        assert cell.queue == []

    async def test_a_node_for_any_target_of_another_source_leaves_the_job_waiting(self, world: World) -> None:
        await wait(world, {A: 60_000})
        await join(world, "n1", semantic_langs=["zh"], nmt_pairs="any")
        assert (await world.cell()).queue == [queued(A, DEADLINE)]

    async def test_of_several_nodes_each_takes_what_it_can(self, world: World) -> None:
        await wait(world, {A: 60_000, B: 50_000}, "en:zh")
        await wait(world, {C: 40_000}, "zh:en")
        await join(world, "n1", max_concurrent_jobs=9)
        await join(world, "n2", nmt_pairs=[["zh", "en"]], max_concurrent_jobs=9)
        cell = await world.cell()
        assert nodes_of(cell, A, B, C) == ["n1", "n1", "n2"]
        assert (cell.nodes["n1"].used, cell.nodes["n2"].used) == (2, 1)

    async def test_a_job_may_wait_again_after_its_next_attempt(self, world: World) -> None:
        await busy(world)
        await done(world.engine, BUSY, 1, "n1")
        await drain(world.engine, CELL, "n1")
        world.now_ms += 7
        now = NOW + 7
        answer, changes = await watch(world, fail(world.engine, A, 2, "n1", reason="broken"))
        assert answer == Failed("RETRYING", 3, False)
        so_far = past((1, "pit", "left_early", T0, "RETRYING"), (2, "n1", "failed", now, "RETRYING"), tries=1)
        assert changes == {
            "nodes": {"n1": {"used": 0}},
            "jobs": {A: {"state": "RETRYING", "past": so_far}},
            "leases": {f"n1:{A}:2": GONE},
            "queue": {queued(A, DEADLINE): HELD},
            "due": {f"j:{A}": DEADLINE},
        }

    async def test_one_of_several_that_wait_is_cancelled_and_the_others_go_on(self, world: World) -> None:
        await wait(world, {A: 60_000, B: 50_000})
        _, changes = await watch(world, cancel(world.engine, B))
        assert changes["queue"] == {queued(B, T0 + 50_000): GONE}
        await join(world, "n1")
        cell = await world.cell()
        assert (nodes_of(cell, A), cell.jobs[B].state) == (["n1"], "CANCELLED")

    async def test_one_of_several_that_wait_expires_and_the_others_go_on(self, world: World) -> None:
        await wait(world, {A: 60_000, B: 50_000})
        world.now_ms += 50_000
        _, changes = await watch(world, reap(world.engine, CELL))
        assert changes["queue"] == {queued(B, T0 + 50_000): GONE}
        assert changes["counts"] == {"EXPIRED": 1}

    async def test_a_job_whose_deadline_has_passed_is_not_given_a_node_by_the_sweep_that_finds_both(
        self, world: World
    ) -> None:
        await join(world, max_concurrent_jobs=1)
        await place(world, limits=Limits(timeout_ms=20))
        await fail(world.engine, A, 1, "n1", reason="", overloaded=True, retry_after_ms=20)
        world.now_ms += 20
        assert await sweep(world) == Settled(2, False)
        cell = await world.cell()
        assert (cell.jobs[A].state, cell.nodes["n1"].used, cell.queue) == ("EXPIRED", 0, [])
