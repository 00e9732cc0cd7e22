from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.needs import USUAL, needs_of
from lingua_scheduler.core.records import Choice, Event, JobRecord, Past, Ticket
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.flows import dispatch as dispatch_module
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.reap import reap
from tests.support.cells import GONE, HELD, watch
from tests.support.stage import T0, A, B, C, bring, code_of, join, place
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

LIMITS = Limits(ack_ms=100, run_ms=200, timeout_ms=300, max_retry=1)


async def test_a_job_takes_a_slot_and_is_written_down_in_full(world: World) -> None:
    await join(world)
    answer, changes = await watch(
        world,
        dispatch(
            world.engine,
            A,
            "s1",
            "en-US",
            "zh_TW",
            body="hello",
            utterance_index=7,
            trace_id="t",
            limits=LIMITS,
            seed=1,
        ),
    )
    assert answer == Placed("RESERVED", "n1", "1-n1", 1, 1, is_new=True, deadline_at_ms=T0 + 300)
    job = JobRecord(
        state="RESERVED",
        attempt=1,
        node="n1",
        epoch="1-n1",
        acks=1,
        deadline_at_ms=T0 + 300,
        run_ms=200,
        seed=(1664525 + 1013904223) % 2**32,
        created_at_ms=T0,
        reserved_at_ms=T0,
        dispatched_at_ms=0,
        accepted_at_ms=0,
        started_at_ms=0,
        ended_at_ms=0,
        past=Past(),
        chosen=0,
    )
    assert changes == {
        "nodes": {"n1": {"used": 1}},
        "jobs": {A: job},
        "tickets": {A: Ticket(A, "s1", 7, "en:zh", "", 100, 200, 300, 1, 1, "t", needs_of(USUAL), 0, 0, [])},
        "bodies": {f"{A}:payload": "hello"},
        "leases": {f"n1:{A}:1": HELD},
        "due": {f"j:{A}": T0 + 100},
        "counts": {"accepted": 1},
    }
    assert (await world.cell()).jobs[A].choice == Choice(group=1, candidates=1)


async def test_a_job_without_a_body_keeps_none(world: World) -> None:
    await join(world)
    _, changes = await watch(world, place(world))
    assert "bodies" not in changes


async def test_the_ack_is_awaited_no_longer_than_the_job(world: World) -> None:
    await join(world)
    await place(world, limits=Limits(ack_ms=500, timeout_ms=300))
    assert (await world.cell()).due[f"j:{A}"] == T0 + 300


async def test_a_job_for_a_node_that_never_acks_says_so(world: World) -> None:
    await join(world, acks=False)
    assert (await place(world)).acks == 0
    assert (await world.cell()).jobs[A].acks == 0


async def test_the_last_slot_makes_the_node_full(world: World) -> None:
    await join(world)
    await place(world)
    answer, changes = await watch(world, place(world, B))
    assert answer.node_id == "n1"
    assert changes.keys() == {"nodes", "standing", "room", "jobs", "tickets", "leases", "due", "counts"}
    assert changes["nodes"] == {"n1": {"used": 2, "standing": 2}}
    assert changes["standing"] == {"n1": 18}
    assert changes["room"] == {1: 0}
    assert changes["counts"] == {"accepted": 2}


async def test_a_full_fleet_refuses_and_changes_nothing(world: World) -> None:
    await join(world)
    await asyncio.gather(place(world), place(world, B))
    answer, changes = await watch(world, dispatch(world.engine, C, "s1", "en", "zh"))
    assert answer == Refusal(
        "ALL_CANDIDATES_FULL_OR_FAILED",
        "1 in the pool of en:zh; none can take a job now.",
        Breakdown(pool=1, full=1),
    )
    assert changes == {}


@pytest.mark.parametrize(
    ("src", "tgt", "missing"),
    [
        ("de", "zh", "none takes de, which needs semantic repair (and asr) for it and a pair from it"),
        ("en", "fr", "none translates into fr"),
        ("en", "en", "none translates into en"),
        ("zh", "zh", "some take zh and some give zh, but none does both"),
        ("yue", "en", "none takes yue, which needs semantic repair (and asr) for it and a pair from it"),
    ],
)
async def test_a_pair_that_nobody_serves_is_refused_by_what_is_missing(
    world: World, src: str, tgt: str, missing: str
) -> None:
    await join(world, "n1")
    await join(world, "n2", nmt_pairs=[["zh", "pt"]])
    answer, changes = await watch(world, dispatch(world.engine, A, "s1", src, tgt))
    assert answer == Refusal("NO_CAPABLE_NODE", f"No registered node can serve {src}:{tgt}: {missing}.")
    assert changes == {}


async def test_a_language_that_is_known_but_begins_no_pair_is_taken_by_nobody(world: World) -> None:
    """A node has all that it takes to hear `la`, and translates only into it."""
    await join(world, "n1", semantic_langs=["eo", "la"], asr_langs=["eo", "la"], nmt_pairs=[["eo", "la"]])
    answer = await dispatch(world.engine, A, "s1", "la", "eo")
    needs = "none takes la, which needs semantic repair (and asr) for it and a pair from it"
    assert answer == Refusal("NO_CAPABLE_NODE", f"No registered node can serve la:eo: {needs}.")


async def test_a_node_for_any_target_gives_every_target(world: World) -> None:
    await join(world, "n1", nmt_pairs="any", asr_langs=["en"])
    await join(world, "n2", nmt_pairs=[["zh", "pt"]])
    answer = await dispatch(world.engine, A, "s1", "zh", "fr")
    assert isinstance(answer, Refusal)
    assert answer.detail.endswith(": some take zh and some give fr, but none does both.")


async def test_a_refusal_counts_each_node_once_under_its_first_reason(world: World) -> None:
    """Nodes of two groups, each made unfit before the next one joins; one more serves another pair."""

    async def crowd(why: str, number: int) -> None:
        for n in range(number):
            node_id = f"{why}{n}"
            tts = {"tts_langs": ["zh"]} if n % 2 else {}
            await join(world, node_id, max_concurrent_jobs=1, connection="x", **tts)
            if why == "full":
                await place(world, f"{CELL}.{node_id}")
            elif why == "resting":
                await place(world, f"{CELL}.{node_id}")
                attempt = (f"{CELL}.{node_id}", 1, node_id)
                await fail(world.engine, *attempt, reason="", overloaded=True, retry_after_ms=50_000)
                await cancel(world.engine, f"{CELL}.{node_id}")
            elif why == "draining":
                await drain(world.engine, CELL, node_id)
            elif why == "ill":
                await heartbeat(world.engine, CELL, node_id, health="degraded")
            elif why == "away":
                await disconnect(world.engine, CELL, node_id, "x", "handover")

    await crowd("stale", 3)
    world.now_ms += 35_000
    await crowd("full", 2)
    await crowd("resting", 4)
    await crowd("ill", 2)
    await crowd("away", 3)
    await crowd("draining", 6)
    await join(world, "other", nmt_pairs=[["zh", "en"]])
    answer = await dispatch(world.engine, A, "s1", "en", "zh")
    assert isinstance(answer, Refusal)
    assert answer.breakdown == Breakdown(pool=20, full=2, stale=3, not_ready=5, draining=6, resting=4)


async def test_a_group_that_never_had_room_has_none(world: World) -> None:
    await join(world, "n1", health="registering")
    await join(world, "n2", health="registering", tts_langs=["zh"])
    answer, changes = await watch(world, dispatch(world.engine, A, "s1", "en", "zh"))
    assert isinstance(answer, Refusal)
    assert answer.breakdown == Breakdown(pool=2, not_ready=2)
    assert changes == {}
    await heartbeat(world.engine, CELL, "n2", health="ready")
    assert (await place(world)).node_id == "n2"


async def test_stale_nodes_are_found_out_before_choosing(world: World) -> None:
    await join(world)
    world.now_ms += 34_999
    await place(world)
    world.now_ms += 1
    answer, changes = await watch(world, dispatch(world.engine, B, "s1", "en", "zh"))
    assert isinstance(answer, Refusal)
    assert answer.breakdown == Breakdown(pool=1, stale=1)
    assert changes == {
        "nodes": {"n1": {"standing": 7}},
        "standing": {"n1": 23},
        "room": {1: 0},
        "due": {"n:n1": T0 + 45_000},
    }


async def test_a_slot_that_falls_due_at_this_very_moment_is_settled_first(world: World) -> None:
    """What had rested enough serves again, and nobody waits for it."""
    await join(world, max_concurrent_jobs=1)
    await place(world)
    await fail(world.engine, A, 1, "n1", reason="", overloaded=True, retry_after_ms=20)
    await cancel(world.engine, A)
    world.now_ms += 19
    assert code_of(await dispatch(world.engine, B, "s1", "en", "zh")) == "ALL_CANDIDATES_FULL_OR_FAILED"
    world.now_ms += 1
    answer, changes = await watch(world, place(world, B))
    assert answer == Placed("RESERVED", "n1", "1-n1", 1, 1, is_new=True, deadline_at_ms=T0 + 60_020)
    assert changes["due"] == {"n:n1": T0 + 35_000, f"j:{B}": T0 + 5_020}


async def test_what_dispatch_settles_on_its_way_is_counted_and_told(world: World) -> None:
    await join(world)
    await place(world, limits=Limits(timeout_ms=10))
    world.now_ms += 10
    _, changes = await watch(world, place(world, B))
    assert changes["counts"] == {"EXPIRED": 1, "accepted": 2}
    assert changes["outbox"] == {
        Event("fenced", A, 1, "n1", "1-n1", "expired", T0 + 10): T0 + 10,
        Event("ended", A, 1, "n1", "1-n1", "deadline", T0 + 10): T0 + 10,
    }


async def test_the_same_job_id_answers_where_that_job_is_and_creates_nothing(world: World) -> None:
    await join(world)
    await bring(world, "ACCEPTED")
    world.now_ms += 1
    again = dispatch(world.engine, A, "s2", "en", "zh", body="other", seed=9)
    assert await watch(world, again) == (Placed("ACCEPTED", "n1", "1-n1", 1, 1), {})
    await done(world.engine, A, 1, "n1")
    unserved = dispatch(world.engine, A, "s1", "de", "fr")
    assert await watch(world, unserved) == (Placed("FINISHED", "n1", "1-n1", 1, 1), {})


async def test_the_same_job_twice_in_one_tick_is_one_job(world: World) -> None:
    await join(world)
    (one, two), changes = await watch(world, asyncio.gather(place(world), place(world)))
    assert two == msgspec.structs.replace(one, is_new=False, deadline_at_ms=0)
    assert changes["counts"] == {"accepted": 1}
    assert changes["leases"] == {f"n1:{A}:1": HELD}


async def test_jobs_of_one_tick_see_each_other(world: World) -> None:
    """Three slots for four jobs: exactly one is refused, and no slot is given twice."""
    await join(world, "n1")
    await join(world, "n2", max_concurrent_jobs=1)
    answers, changes = await watch(
        world, asyncio.gather(*(dispatch(world.engine, f"{CELL}.{i}", "s1", "en", "zh", seed=i) for i in range(4)))
    )
    assert [code_of(answer) for answer in answers] == ["", "", "", "ALL_CANDIDATES_FULL_OR_FAILED"]
    assert changes["nodes"] == {"n1": {"used": 2, "standing": 2}, "n2": {"used": 1, "standing": 2}}
    assert changes["room"] == {1: 0}
    assert changes["counts"] == {"accepted": 3}


async def test_more_overdue_than_one_run_may_settle_is_settled_over_several(world: World) -> None:
    await join(world, max_concurrent_jobs=200, tells=False)
    names = [f"{CELL}.j{number:03}" for number in range(130)]
    await asyncio.gather(*(place(world, name, limits=Limits(timeout_ms=10)) for name in names))
    world.now_ms += 10
    assert (await place(world)).state == "RESERVED"
    cell = await world.cell()
    assert [cell.jobs[name].state for name in names] == ["EXPIRED"] * 130
    assert cell.counts == {"accepted": 131, "EXPIRED": 130, "attempt.expired": 130, "epoch": 1, "group": 1}


async def test_a_dispatch_behind_too_much_overdue_places_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_module, "_PATIENCE_S", 0.000001)
    await join(world, max_concurrent_jobs=200)
    await asyncio.gather(*(place(world, f"{CELL}.j{number:03}", limits=Limits(timeout_ms=10)) for number in range(65)))
    world.now_ms += 10
    with pytest.raises(DependencyDown, match="BEHIND"):
        await dispatch(world.engine, A, "s1", "en", "zh")
    cell = await world.cell()
    assert A not in cell.jobs
    assert cell.counts == {"accepted": 65, "EXPIRED": 64, "attempt.expired": 64, "epoch": 1, "group": 1}
    assert (await place(world)).state == "RESERVED"


async def test_exactly_as_much_overdue_as_one_run_may_settle_is_no_obstacle(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch_module, "_PATIENCE_S", 0.000001)
    await join(world, max_concurrent_jobs=200)
    await asyncio.gather(*(place(world, f"{CELL}.j{number:03}", limits=Limits(timeout_ms=10)) for number in range(64)))
    world.now_ms += 10
    assert (await place(world)).state == "RESERVED"


async def test_every_caller_of_a_tick_hears_that_the_cell_is_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch_module, "_PATIENCE_S", 0.000001)
    await join(world, max_concurrent_jobs=200)
    await asyncio.gather(*(place(world, f"{CELL}.j{number:03}", limits=Limits(timeout_ms=10)) for number in range(65)))
    world.now_ms += 10
    behind = await asyncio.gather(
        *(dispatch(world.engine, job_id, "s1", "en", "zh") for job_id in (A, B, C)), return_exceptions=True
    )
    assert [type(answer) for answer in behind] == [DependencyDown] * 3


async def test_a_slot_freed_in_the_same_tick_can_be_taken(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await bring(world, "ACCEPTED")
    placed, _ = await asyncio.gather(dispatch(world.engine, B, "s1", "en", "zh"), done(world.engine, A, 1, "n1"))
    assert isinstance(placed, Placed)
    assert code_of(await ack(world.engine, B, 1, "n1")) == ""


async def test_a_finished_job_that_was_forgotten_is_a_new_job(world: World) -> None:
    await join(world)
    await bring(world, "FINISHED")
    world.now_ms += 3_600_000
    await join(world)
    await reap(world.engine, CELL)
    _, changes = await watch(world, place(world))
    assert isinstance(changes["jobs"][A], JobRecord)


@pytest.mark.parametrize(
    "wrong",
    [
        {"job_id": "a"},
        {"job_id": "c0:a"},
        {"job_id": ""},
        {"job_id": "C0.a"},
        {"session_id": "a b"},
        {"session_id": ""},
        {"src_lang": "xx"},
        {"tgt_lang": "*"},
        {"tgt_lang": "z" * 300},
        {"src_lang": 7},
        {"utterance_index": -1},
        {"utterance_index": 2**53 + 1},
        {"utterance_index": True},
        {"body": "\ud800"},
        {"body": b"x"},
        {"trace_id": "x" * 129},
        {"seed": 2**32},
        {"seed": -1},
        {"limits": Limits(ack_ms=0)},
        {"limits": Limits(run_ms=0)},
        {"limits": Limits(timeout_ms=0)},
        {"limits": Limits(timeout_ms=86_400_001)},
        {"limits": Limits(max_retry=-1)},
        {"limits": Limits(max_retry=11)},
    ],
)
async def test_what_cannot_be_right_never_reaches_the_engine(world: World, wrong: dict[str, Any]) -> None:
    await join(world)
    asked: dict[str, Any] = {"job_id": A, "session_id": "s1", "src_lang": "en", "tgt_lang": "zh"} | wrong
    answer, changes = await watch(world, dispatch(world.engine, **asked))
    assert code_of(answer) == "INVALID_MESSAGE"
    assert changes == {}


async def test_more_than_is_carried_is_refused_in_words_that_a_caller_knows(world: World) -> None:
    await join(world)
    refused, changes = await watch(world, dispatch(world.engine, A, "s1", "en", "zh", body="x" * 65_537))
    assert isinstance(refused, Refusal)
    assert refused.code == "PAYLOAD_TOO_LARGE"
    assert "features, payload" in refused.detail
    assert changes == {}
    assert isinstance(await dispatch(world.engine, A, "s1", "en", "zh", body="x" * 65_536), Placed)


async def test_a_seed_is_drawn_when_none_is_given(world: World) -> None:
    await join(world, max_concurrent_jobs=20)
    for number in range(10):
        await place(world, f"{CELL}.{number}", seed=None)
    assert len({ticket.seed for ticket in (await world.cell()).tickets.values()}) == 10


async def test_a_dispatch_leaves_it_to_the_reapers_to_forget_ended_jobs(world: World) -> None:
    await join(world)
    await place(world, body="text")
    await done(world.engine, A, 1, "n1", result="text")
    world.now_ms += 3_600_000
    await heartbeat(world.engine, CELL, "n1")
    _, changes = await watch(world, place(world, B))
    assert changes["jobs"].keys() == changes["tickets"].keys() == {B}
    assert "bodies" not in changes


async def test_nothing_but_the_counts_remains_when_everything_is_over(world: World) -> None:
    await join(world)
    await place(world, body="text")
    await done(world.engine, A, 1, "n1", result="text")
    world.now_ms += 3_600_000
    await heartbeat(world.engine, CELL, "n1")
    _, changes = await watch(world, reap(world.engine, CELL))
    assert changes["jobs"][A] == GONE
    assert changes["tickets"][A] == GONE
    assert changes["bodies"] == {f"{A}:payload": GONE, f"{A}:result": GONE}
    assert changes["due"][f"j:{A}"] == GONE
