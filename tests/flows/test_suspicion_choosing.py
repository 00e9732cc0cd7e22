"""Nodes under suspicion are the second tier: taken when no other has room, never refused for it (S19)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import SUSPECTS, Choice, Event, Standing
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.core.wanted import Hints, Policy, Wanted
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import Waiting, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.heartbeat import heartbeat
from tests.support.cells import GONE, HELD, watch
from tests.support.pasts import doubt, give
from tests.support.stage import T0, A, B, bring, join, keep_alive, place, queued, sweep
from tests.support.wishes import given
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

SEEDS = range(0, 2**32, 2**32 // 24)


async def choice_of(world: World, job_id: str = A) -> Choice:
    return (await world.cell()).jobs[job_id].choice


async def fleet(world: World, suspects: int, others: int, **said: Any) -> tuple[list[str], list[str]]:
    """So many nodes under suspicion, s0, s1, …, and so many above it, n0, n1, …"""
    names = [f"s{number}" for number in range(suspects)], [f"n{number}" for number in range(others)]
    await asyncio.gather(*(join(world, node_id, **said) for node_id in names[0] + names[1]))
    await doubt(world, *names[0])
    return names


async def take(world: World, number: int, **asked: Any) -> list[tuple[str, list[str]]]:
    """Who takes so many jobs, one after the other, and what was special about each."""
    jobs = [f"{CELL}.take-{n}" for n in range(number)]
    for n, job_id in enumerate(jobs):
        await place(world, job_id, seed=SEEDS[n], **asked)
    records = (await world.cell()).jobs
    return [(records[job_id].node, records[job_id].choice.reasons) for job_id in jobs]


async def test_a_suspect_is_taken_when_no_other_has_room_and_the_choice_says_so(world: World) -> None:
    await fleet(world, 2, 2)
    taken = await take(world, 8)
    assert sorted(taken[:4]) == [("n0", []), ("n0", []), ("n1", []), ("n1", [])]
    assert sorted(taken[4:]) == [("s0", ["suspect"]), ("s0", ["suspect"]), ("s1", ["suspect"]), ("s1", ["suspect"])]


async def test_a_reservation_on_a_suspect_is_written_down_in_full(world: World) -> None:
    await fleet(world, 1, 1, max_concurrent_jobs=2)
    await take(world, 2)
    answer, changes = await watch(world, place(world), judged=True)
    assert answer.node_id == "s0"
    assert changes.pop("tickets").keys() == changes.pop("jobs").keys() == {A}
    assert changes == {
        "nodes": {"s0": {"used": 1}},
        "leases": {f"s0:{A}:1": HELD},
        "due": {f"j:{A}": T0 + 5_000},
        "counts": {"accepted": 6},
    }
    assert await choice_of(world) == Choice(1, 1, 0, ["suspect"])


@pytest.mark.parametrize("policy", list(Policy))
async def test_no_policy_prefers_a_suspect(world: World, policy: Policy) -> None:
    await fleet(world, 2, 3, max_concurrent_jobs=4)
    taken = await take(world, 12, wanted=Wanted(policy=policy.name))
    assert {node_id for node_id, _ in taken} == {"n0", "n1", "n2"}
    await place(world, wanted=Wanted(policy=policy.name))
    assert await choice_of(world) == Choice(1, 2, policy, ["suspect"])


@pytest.mark.parametrize(
    ("suspects", "others", "panic"),
    [
        (1, 0, True),
        (1, 1, False),
        (2, 1, True),
        (2, 2, False),
        (3, 2, True),
        (2, 3, False),
        (5, 5, False),
        (6, 5, True),
    ],
)
async def test_more_than_half_under_suspicion_is_a_panic_and_exactly_half_is_none(
    world: World, suspects: int, others: int, panic: bool
) -> None:
    """In a panic nobody is suspect: all are drawn alike."""
    await fleet(world, suspects, others, max_concurrent_jobs=1)
    taken = await take(world, suspects + others)
    if panic:
        assert taken[0][1] == ["panic"]
        assert (await choice_of(world, f"{CELL}.take-0")).candidates == suspects + others
    else:
        assert [reasons for _, reasons in taken] == [[]] * others + [["suspect"]] * suspects
        assert (await choice_of(world, f"{CELL}.take-0")).candidates == others


async def test_in_a_panic_every_node_is_drawn(world: World) -> None:
    suspects, others = await fleet(world, 3, 2, max_concurrent_jobs=100)
    taken = await take(world, 24)
    assert {node_id for node_id, _ in taken} == {*suspects, *others}
    assert all(reasons == ["panic"] for _, reasons in taken)


async def _fill(world: World, node_id: str) -> None:
    for _ in range(2):
        await give(world, node_id)


async def _rest(world: World, node_id: str) -> None:
    """Not so long that the suspects are probed meanwhile."""
    job_id = await give(world, node_id)
    await fail(world.engine, job_id, 1, node_id, reason="", overloaded=True, retry_after_ms=4_000)


async def _degrade(world: World, node_id: str) -> None:
    await heartbeat(world.engine, CELL, node_id, health="degraded")


async def _drain(world: World, node_id: str) -> None:
    await drain(world.engine, CELL, node_id)


async def _lose(world: World, node_id: str) -> None:
    await disconnect(world.engine, CELL, node_id, "x")
    world.now_ms += 500
    await keep_alive(world, "s0")
    await sweep(world)


@pytest.mark.parametrize(
    ("befalls", "standing", "special"),
    [
        (_fill, Standing.full, "suspect"),
        (_rest, Standing.resting, "suspect"),
        (_degrade, Standing.not_ready, "panic"),
        (_drain, Standing.draining, "panic"),
        (_lose, Standing.lost, "panic"),
    ],
)
async def test_only_the_living_count_when_half_is_asked_for(
    world: World, befalls: Any, standing: Standing, special: str
) -> None:
    """One suspect and one other: a full or resting one lives, a node that is out of service does not count."""
    await join(world, "n0", connection="x")
    await join(world, "s0")
    await doubt(world, "s0")
    await befalls(world, "n0")
    assert (await world.cell()).nodes["n0"].standing == standing
    placed = await place(world)
    assert placed.node_id == "s0"
    assert (await choice_of(world)).reasons == [special]


async def test_a_suspect_that_is_full_is_one_of_the_suspects(world: World) -> None:
    """Two of three: s0 is full, and yet it is a panic."""
    await fleet(world, 2, 1, max_concurrent_jobs=1)
    await give(world, "s0")
    await place(world)
    assert await choice_of(world) == Choice(1, 2, 0, ["panic"])


async def test_who_is_just_being_probed_is_no_suspect(world: World) -> None:
    """Two suspects of three were a panic; one of them is due for its probe, and may be taken like any other."""
    await fleet(world, 1, 1)
    await join(world, "s1")
    world.now_ms += 1_000
    await doubt(world, "s1")
    world.now_ms += 4_000
    await place(world)
    assert await choice_of(world) == Choice(1, 2, 0, [])


async def test_only_the_pool_of_the_job_counts(world: World) -> None:
    """Many others are above suspicion, but for another pair."""
    await fleet(world, 2, 1)
    for number in range(4):
        await join(world, f"m{number}", nmt_pairs=[["zh", "en"]])
    await place(world)
    assert await choice_of(world) == Choice(1, 3, 0, ["panic"])


async def test_all_groups_of_the_pool_count_together(world: World) -> None:
    """Both nodes of one kind are suspect, both of the other are not: half of the pool, and they are not taken."""
    await fleet(world, 2, 0)
    for number in range(2):
        await join(world, f"n{number}", tts_langs=["zh"])
    taken = await take(world, 5)
    assert sorted(taken[:4]) == [("n0", []), ("n0", []), ("n1", []), ("n1", [])]
    assert taken[4][1] == ["suspect"]
    cell = await world.cell()
    assert cell.room == {1: 2 * SUSPECTS, 2: 0}


async def test_a_job_that_can_only_go_to_suspects_counts_only_them(world: World) -> None:
    """With speech it is a pool of its own: two of two."""
    for node_id in ("s0", "s1"):
        await join(world, node_id, tts_langs=["zh"])
    for node_id in ("n0", "n1", "n2"):
        await join(world, node_id)
    await doubt(world, "s0", "s1")
    await place(world, wanted=Wanted(services=["asr", "tts"]))
    assert await choice_of(world) == Choice(1, 2, 0, ["panic"])
    await place(world, B)
    assert (await choice_of(world, B)).reasons == []


async def test_a_retry_goes_to_a_suspect_rather_than_back_to_the_node_that_failed_it(world: World) -> None:
    await fleet(world, 1, 1)
    await place(world)
    answer = await fail(world.engine, A, 1, "n0", reason="")
    assert isinstance(answer, Failed)
    assert (answer.attempt_id, answer.node_id) == (2, "s0")
    assert (await choice_of(world)).reasons == ["suspect"]


@pytest.mark.parametrize(
    "asked",
    [
        {"wanted": Wanted(preferred_node_id="s0")},
        {"wanted": Wanted(preferred_node_id="s0", strict=True)},
        {"hints": Hints(bound_node_id="s0")},
    ],
)
async def test_a_suspect_that_a_job_names_takes_it_and_the_choice_says_so(world: World, asked: dict[str, Any]) -> None:
    await fleet(world, 1, 3)
    assert (await place(world, **asked)).node_id == "s0"
    assert await choice_of(world) == Choice(1, 1, 0, ["suspect"])


async def test_a_suspect_that_a_job_excludes_is_left_out(world: World) -> None:
    await fleet(world, 2, 0, max_concurrent_jobs=1)
    await place(world, wanted=Wanted(exclude_node_ids=["s0"]))
    assert (await choice_of(world)).candidates == 1
    answer = await dispatch(world.engine, B, "s1", "en", "zh", wanted=Wanted(exclude_node_ids=["s0"]))
    assert isinstance(answer, Refusal)
    assert answer.breakdown == Breakdown(pool=2, full=1, excluded=1)


async def test_a_fleet_of_suspects_is_filled_to_the_last_slot_before_anybody_is_refused(world: World) -> None:
    """S19: suspicion is no reason for a refusal; a full suspect is full."""
    await fleet(world, 3, 0)
    await take(world, 6)
    answer = await dispatch(world.engine, A, "s1", "en", "zh")
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.breakdown) == ("ALL_CANDIDATES_FULL_OR_FAILED", Breakdown(pool=3, full=3))


class TestWhoWaitsIsServedBySuspects:
    """Room is room."""

    async def _waits(self, world: World) -> None:
        """One suspect, whose only slot is taken by B; A waits."""
        await join(world, "s0", max_concurrent_jobs=1)
        await doubt(world, "s0")
        await bring(world, "RUNNING", B)
        assert isinstance(
            await dispatch(world.engine, A, "s1", "en", "zh", seed=1, wanted=Wanted(wait_ms=2_000)), Waiting
        )

    async def test_by_the_very_result_that_frees_its_slot(self, world: World) -> None:
        await self._waits(world)
        world.now_ms += 7
        answer, changes = await watch(world, done(world.engine, B, 1, "s0"), judged=True)
        assert answer == Moved("FINISHED")
        # Praised, it might have been probed: it got the job that waited, and holds it as a suspect.
        assert changes["nodes"] == {"s0": {"recent": 0b1110, "probe_at_ms": T0 + 7, "ack_ms": 1, "typical_ms": 7}}
        assert changes["leases"] == {f"s0:{B}:1": GONE, f"s0:{A}:1": HELD}
        assert changes["queue"] == {queued(A, T0 + 60_000): GONE}
        assert changes["jobs"][A]["state"] == "RESERVED"
        assert Event("reserved", A, 1, "s0", "1-s0", "", T0 + 7) in changes["outbox"]
        assert (await choice_of(world)).reasons == ["waited"]

    async def test_by_the_very_failure_that_frees_its_slot(self, world: World) -> None:
        await self._waits(world)
        await fail(world.engine, B, 1, "s0", reason="")
        cell = await world.cell()
        assert (cell.jobs[A].node, cell.jobs[B].state) == ("s0", "RETRYING")

    async def test_by_a_beat_that_brings_another_slot(self, world: World) -> None:
        await self._waits(world)
        _, changes = await watch(world, heartbeat(world.engine, CELL, "s0", max_concurrent_jobs=2), judged=True)
        assert changes["nodes"] == {"s0": {"used": 2, "max": 2, "own_max": 2, "ceiling": 2}}
        assert changes["jobs"][A]["node"] == "s0"

    async def test_by_its_probe_s_time_nothing_changes_while_it_is_full(self, world: World) -> None:
        await self._waits(world)
        world.now_ms += 1_999
        await sweep(world)
        assert (await world.cell()).jobs[A].state == "WAITING"
        world.now_ms += 1
        await sweep(world)
        assert A not in (await world.cell()).jobs


async def test_a_retry_that_waits_is_taken_by_the_first_suspect_with_room(world: World) -> None:
    await join(world, "n0", max_concurrent_jobs=1)
    await join(world, "s0", max_concurrent_jobs=1)
    await doubt(world, "s0")
    await bring(world, "RUNNING", A, limits=Limits(max_retry=1))
    await bring(world, "RUNNING", B)
    await drain(world.engine, CELL, "n0")
    await fail(world.engine, A, 1, "n0", reason="")
    assert (await world.cell()).jobs[A].state == "RETRYING"
    await done(world.engine, B, 1, "s0")
    cell = await world.cell()
    assert (cell.jobs[A].node, cell.jobs[A].attempt, cell.jobs[A].choice.reasons) == ("s0", 2, ["waited"])


async def test_a_suspect_alone_in_the_pool_of_a_session_is_no_panic(world: World) -> None:
    """Whether most are suspect is asked of all who could have the job; a policy is content with trusted nodes only."""
    names = [f"n{number}" for number in range(8)]
    for node_id in names:
        await join(world, node_id, labels={"group": "blue"})
    await join(world, "bad", labels={"group": "red"})
    await doubt(world, "bad")
    node_id, reasons = await given(world, policy="sticky_pool", last_pool="red")
    assert (node_id in names, reasons) == (True, ["pool full"])


async def test_a_session_stays_in_its_pool_of_suspects_when_most_of_all_are(world: World) -> None:
    await join(world, "n1", labels={"group": "blue"})
    suspects = ["bad1", "bad2"]
    for node_id in suspects:
        await join(world, node_id, labels={"group": "red"})
    await doubt(world, *suspects)
    node_id, reasons = await given(world, policy="sticky_pool", last_pool="red")
    assert (node_id in suspects, reasons) == (True, ["panic"])


async def test_spread_takes_the_last_node_rather_than_a_suspect(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await join(world, "n2")
    await doubt(world, "n2")
    assert await given(world, A, policy="spread", last_node_id="n1") == ("n1", ["last node"])
    assert await given(world, B, policy="spread", last_node_id="n1") == ("n2", ["last node", "suspect"])


async def test_spread_without_a_last_node_has_nobody_to_avoid(world: World) -> None:
    _, others = await fleet(world, 1, 2, max_concurrent_jobs=1)
    for node_id in others:
        await give(world, node_id)
    assert await given(world, A, policy="spread", exclude_node_ids=["n9"]) == ("s0", ["suspect"])
