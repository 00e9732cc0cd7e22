"""A job that may wait for its first node: it is not accepted before it has one, and refused when it waited enough."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.needs import USUAL, needs_of
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.records import FORGET_FROM, Choice, Event, JobRecord, Past, Standing, Ticket
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.dispatch import Placed, Waiting, refused
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.reap import Settled, reap
from lingua_scheduler.flows.resume import resume
from lingua_scheduler.flows.stopped import stopped
from tests.support.cells import GONE, HELD, same, together, watch
from tests.support.stage import ONE_TRY, T0, A, B, C, D, bring, code_of, join, nodes_of, past, queued, sweep, wait
from tests.support.wishes import ask, none_free
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.cells import Changes
    from tests.support.world import World

BUSY = f"{CELL}.busy"
NOW = T0 + 7
DEADLINE = T0 + 60_000
WAIT = 20_000
UNTIL = T0 + WAIT
BOTH: list[list[str]] = [["en", "zh"], ["zh", "en"]]


async def waits(world: World, job_id: str = A, pair: str = "en:zh", **what: Any) -> Waiting:
    """Dispatch a job that has to wait."""
    answer = await ask(world, job_id, pair, **({"wait_ms": WAIT} | what))
    assert isinstance(answer, Waiting), answer
    return answer


async def full(world: World, state: Any = "RUNNING", **asked: Any) -> None:
    """n1 has one slot, and BUSY has it."""
    await join(world, "n1", max_concurrent_jobs=1)
    await bring(world, state, BUSY, **asked)


def ended(state: str, detail: str = "", **more: Any) -> Changes:
    """BUSY has ended, and its slot is free."""
    return {
        "jobs": {BUSY: {"state": state, "ended_at_ms": NOW} | more},
        "leases": {f"n1:{BUSY}:1": GONE},
        "due": {f"j:{BUSY}": FORGET_FROM + NOW + 120_000},
        "outbox": {Event("ended", BUSY, 1, "n1", "1-n1", detail, NOW): NOW},
        "counts": {state: 1},
    }


def gets(node_id: str, epoch: str, now: int = NOW, accepted: int = 2) -> Changes:
    """A has its first attempt, and is accepted. What that does to the node is not said."""
    fields = {"state": "RESERVED", "attempt": 1, "node": node_id, "epoch": epoch, "acks": 1, "reserved_at_ms": now}
    return {
        "jobs": {A: fields},
        "leases": {f"{node_id}:{A}:1": HELD},
        "queue": {queued(A, DEADLINE): GONE},
        "due": {f"j:{A}": now + 5_000},
        "outbox": {Event("reserved", A, 1, node_id, epoch, "", now): now},
        "counts": {"accepted": accepted},
    }


class TestDispatch:
    """Capable nodes, and no room."""

    @pytest.mark.parametrize("body", ["", "hello"])
    async def test_a_job_that_waits_is_written_down_in_full_and_not_counted(self, world: World, body: str) -> None:
        await full(world)
        asked: dict[str, Any] = {"body": body, "utterance_index": 7, "trace_id": "t", "limits": Limits(1, 2, 30_000, 3)}
        answer, changes = await watch(world, ask(world, wait_ms=WAIT, **asked))
        assert answer == Waiting(1, UNTIL)
        ticket = Ticket(A, "s1", 7, "en:zh", "", 1, 2, 30_000, 3, 1, "t", needs_of(USUAL), 0, WAIT, [])
        expected: Changes = {
            "jobs": {A: JobRecord("WAITING", 0, "", "", 0, T0 + 30_000, 2, 1, T0, 0, 0, 0, 0, 0, Past(), 0)},
            "tickets": {A: ticket},
            "queue": {queued(A, T0 + 30_000): HELD},
            "due": {f"j:{A}": UNTIL},
        }
        assert changes == expected | ({"bodies": {f"{A}:payload": body}} if body else {})
        cell = await world.cell()
        assert cell.queue == [queued(A, T0 + 30_000).replace("wen:zh", "g1"), queued(A, T0 + 30_000)]
        assert "refused.full" not in cell.counts

    async def test_its_place_is_by_deadline_among_those_of_its_pair(self, world: World) -> None:
        """Those who lost their node among them."""
        await wait(world, {D: 50_000}, "en:zh")
        await join(world, "n1", nmt_pairs=BOTH, health="degraded")
        asked = [(A, "en:zh", 40_000), (B, "zh:en", 10_000), (C, "en:zh", 60_000), ("c0.e", "en:zh", 30_000)]
        found = [(await waits(world, job_id, pair, limits=Limits(timeout_ms=ms))).place for job_id, pair, ms in asked]
        assert found == [1, 1, 3, 1]
        assert [(await waits(world, job_id, pair)).place for job_id, pair, _ in asked] == [2, 1, 4, 1]

    async def test_a_job_that_waits_is_told_so_again_with_its_present_place(self, world: World) -> None:
        """Whatever the second dispatch asks for."""
        await full(world)
        await waits(world)
        await waits(world, B, limits=Limits(timeout_ms=30_000))
        world.now_ms += 7
        again = ask(world, A, "zh:en", body="other")
        assert await watch(world, again) == (Waiting(2, UNTIL), {})
        await cancel(world.engine, B)
        assert await watch(world, ask(world)) == (Waiting(1, UNTIL), {})
        await done(world.engine, BUSY, 1, "n1")
        assert await watch(world, ask(world)) == (Placed("RESERVED", "n1", "1-n1", 1, 1), {})

    async def test_a_job_waits_no_longer_than_it_may_take(self, world: World) -> None:
        await full(world)
        assert await waits(world, limits=Limits(timeout_ms=300)) == Waiting(1, T0 + 300)
        world.now_ms += 300
        await sweep(world)
        assert [event.kind for event, _ in (await world.cell()).outbox] == ["refused"]

    async def test_nobody_waits_for_a_node_that_is_not_there(self, world: World) -> None:
        await full(world)
        answer, changes = await watch(world, ask(world, A, "zh:en", wait_ms=WAIT))
        assert (code_of(answer), changes) == ("NO_CAPABLE_NODE", {})

    async def test_who_may_not_wait_is_refused_beside_one_who_may(self, world: World) -> None:
        await full(world)
        one, two, three = await asyncio.gather(ask(world, B), ask(world, A, wait_ms=WAIT), ask(world, C))
        assert (one, two, three) == (none_free(pool=1, full=1), Waiting(1, UNTIL), none_free(pool=1, full=1))
        assert (await world.cell()).jobs.keys() == {BUSY, A}


class TestWhoServesIt:
    """Every flow after which a node has room."""

    @pytest.mark.parametrize(
        ("word", "said", "state", "cause", "detail"),
        [
            (done, {}, "FINISHED", "", ""),
            (fail, {"reason": "broken"}, "FAILED", "failed", "broken"),
            (stopped, {}, "FAILED", "stopped", "stopped"),
        ],
    )
    async def test_the_end_of_another_job_makes_room_for_it(
        self, world: World, word: Any, said: dict[str, Any], state: Any, cause: str, detail: str
    ) -> None:
        await full(world, limits=ONE_TRY)
        await waits(world)
        world.now_ms = NOW
        _, changes = await watch(world, word(world.engine, BUSY, 1, "n1", **said))
        blamed = {"past": past((1, "n1", cause, NOW, state), tries=1, reason=detail)} if cause else {}
        assert changes == together(ended(state, detail, **blamed), {"counts": {"accepted": 2}}, gets("n1", "1-n1"))
        assert (await world.cell()).jobs[A].choice == Choice(1, 1, 0, ["waited"])

    async def test_the_end_of_a_limbo_makes_room_for_it(self, world: World) -> None:
        await full(world, "CANCELLED")
        await waits(world)
        world.now_ms = NOW
        _, changes = await watch(world, stopped(world.engine, BUSY, 1, "n1"))
        lease = f"n1:{BUSY}:1"
        freed = {"leases": {lease: GONE}, "limbo": {lease: GONE}, "due": {f"l:{lease}": GONE}}
        assert changes == together({"nodes": {"n1": {"limbo": 0}}}, freed, gets("n1", "1-n1"))

    async def test_a_new_node_takes_it(self, world: World) -> None:
        await full(world)
        await waits(world)
        world.now_ms = NOW
        _, changes = await watch(world, join(world, "n2", max_concurrent_jobs=1))
        record = changes.pop("nodes")["n2"]
        assert (record.used, record.standing) == (1, Standing.full)
        assert changes.pop("profiles").keys() == {"n2"}
        joined: Changes = {"standing": {"n2": 18}, "due": {"n:n2": NOW + 35_000}, "counts": {"epoch": 2}}
        assert changes == together(joined, gets("n2", "2-n2"))

    async def test_another_slot_is_its_own(self, world: World) -> None:
        await full(world)
        await waits(world)
        world.now_ms = NOW
        _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", max_concurrent_jobs=2))
        grown: Changes = {
            "nodes": {"n1": {"used": 2, "max": 2, "own_max": 2, "ceiling": 2, "seen_at_ms": NOW}},
            "due": {"n:n1": NOW + 35_000},
        }
        assert changes == together(grown, gets("n1", "1-n1"))

    async def test_a_node_that_an_operator_resumes_takes_it(self, world: World) -> None:
        await join(world, "n1")
        await drain(world.engine, CELL, "n1")
        await waits(world)
        world.now_ms = NOW
        _, changes = await watch(world, resume(world.engine, CELL, "n1"))
        resumed: Changes = {
            "nodes": {"n1": {"used": 1, "intent": "active", "standing": 0}},
            "standing": {"n1": 16},
            "room": {1: 1},
        }
        assert changes == together(resumed, gets("n1", "1-n1", accepted=1))

    async def test_the_sweep_that_finds_a_node_rested_gives_it_that_one(self, world: World) -> None:
        """The job that the node refused comes later: it has more time."""
        await full(world, limits=Limits(timeout_ms=70_000))
        await fail(world.engine, BUSY, 1, "n1", reason="", overloaded=True, retry_after_ms=7)
        await waits(world)
        world.now_ms = NOW
        answer, changes = await watch(world, reap(world.engine, CELL))
        assert answer == Settled(1, False)
        rested: Changes = {
            "nodes": {"n1": {"used": 1, "standing": 2}},
            "standing": {"n1": 18},
            "due": {"n:n1": T0 + 35_000},
        }
        assert changes == together(rested, gets("n1", "1-n1"))

    async def test_nobody_overtakes_it(self, world: World) -> None:
        """Neither in the tick that frees a slot, nor where a dispatch itself finds that a node has rested."""
        await full(world)
        await waits(world)
        answers = await asyncio.gather(ask(world, B), done(world.engine, BUSY, 1, "n1"), ask(world, C))
        assert [code_of(answers[0]), code_of(answers[2])] == ["ALL_CANDIDATES_FULL_OR_FAILED"] * 2
        assert nodes_of(await world.cell(), A) == ["n1"]
        await fail(world.engine, A, 1, "n1", reason="", overloaded=True, retry_after_ms=7)
        await waits(world, D, limits=Limits(timeout_ms=1_000))
        world.now_ms = NOW
        assert code_of(await ask(world, B)) == "ALL_CANDIDATES_FULL_OR_FAILED"
        assert nodes_of(await world.cell(), A, D) == ["", "n1"]

    async def test_the_earliest_deadline_goes_first_whoever_had_a_node_before(self, world: World) -> None:
        await wait(world, {A: 40_000, B: 20_000}, "en:zh")
        await join(world, "n1", nmt_pairs=BOTH, max_concurrent_jobs=1, health="degraded")
        for job_id, pair, ms in ((C, "zh:en", 30_000), (D, "en:zh", 10_000), ("c0.e", "zh:en", 50_000)):
            await waits(world, job_id, pair, limits=Limits(timeout_ms=ms))
        await heartbeat(world.engine, CELL, "n1", health="ready")
        order = []
        for _ in range(5):
            jobs = (await world.cell()).jobs
            order += [job_id for job_id, job in jobs.items() if job.state == "RESERVED"]
            await done(world.engine, order[-1], jobs[order[-1]].attempt, "n1")
        assert order == [D, B, C, A, "c0.e"]

    async def test_a_job_that_loses_its_first_node_waits_as_long_as_it_lives(self, world: World) -> None:
        await full(world)
        await waits(world)
        await done(world.engine, BUSY, 1, "n1")
        await drain(world.engine, CELL, "n1")
        _, changes = await watch(world, fail(world.engine, A, 1, "n1", reason="broken"))
        assert changes["due"] == {f"j:{A}": DEADLINE}
        assert changes["jobs"][A]["state"] == "RETRYING"


class TestTheEndOfTheWait:
    """Refused, and gone."""

    async def test_a_job_that_waited_enough_leaves_nothing_but_the_word_that_it_is_refused(self, world: World) -> None:
        await full(world, limits=Limits(ack_ms=50_000))
        await waits(world, body="hello")
        world.now_ms = UNTIL - 1
        assert await watch(world, reap(world.engine, CELL)) == (Settled(0, False), {})
        world.now_ms = UNTIL
        answer, changes = await watch(world, reap(world.engine, CELL))
        event = Event("refused", A, 0, "", "", f"{WAIT} ALL_CANDIDATES_FULL_OR_FAILED 1 1 0 0 0 0 0 0 0 0", UNTIL)
        assert (answer, changes) == (
            Settled(1, False),
            {
                "jobs": {A: GONE},
                "tickets": {A: GONE},
                "bodies": {f"{A}:payload": GONE},
                "queue": {queued(A, DEADLINE): GONE},
                "due": {f"j:{A}": GONE},
                "outbox": {event: UNTIL},
            },
        )
        cell = await world.cell()
        assert (cell.queue, cell.counts["accepted"], cell.counts["refused.waited"]) == ([], 1, 1)
        detail = f"It waited {WAIT} ms. 1 in the pool of en:zh; none can take a job now."
        told = Refusal("ALL_CANDIDATES_FULL_OR_FAILED", detail, Breakdown(pool=1, full=1), WAIT)
        assert refused(event, Pair.of("en", "zh"), Wanted()) == told
        assert code_of(await cancel(world.engine, A)) == "UNKNOWN_JOB"
        assert await waits(world) == Waiting(1, UNTIL + WAIT)

    async def test_it_is_told_how_every_node_of_the_pool_stands(self, world: World) -> None:
        await full(world, limits=Limits(ack_ms=50_000))
        await join(world, "n2", health="degraded")
        await join(world, "n3", services={"asr": False})
        await join(world, "n4", accept_public_jobs=False)
        await asyncio.gather(join(world, "n5"), join(world, "n6"))
        await drain(world.engine, CELL, "n5")
        await waits(world, exclude_node_ids=["n6"])
        world.now_ms = UNTIL + 5
        _, changes = await watch(world, reap(world.engine, CELL))
        (event,) = changes["outbox"]
        assert event.detail == f"{WAIT + 5} ALL_CANDIDATES_FULL_OR_FAILED 6 1 0 1 1 0 0 1 1 1"
        numbers = {"full": 1, "not_ready": 1, "draining": 1, "excluded": 1, "no_service": 1, "not_permitted": 1}
        assert refused(event, Pair.of("en", "zh"), Wanted()).breakdown == Breakdown(pool=6, **numbers)

    async def test_one_that_insists_is_told_of_its_node(self, world: World) -> None:
        await full(world, limits=Limits(ack_ms=50_000))
        await join(world, "n2")
        await waits(world, preferred_node_id="n1", strict=True)
        world.now_ms = UNTIL
        _, changes = await watch(world, reap(world.engine, CELL))
        (event,) = changes["outbox"]
        told = refused(event, Pair.of("en", "zh"), Wanted(preferred_node_id="n1", strict=True))
        detail = f"It waited {WAIT} ms. Node n1 cannot take a job now: it is full."
        assert told == Refusal("PREFERRED_NODE_UNAVAILABLE", detail, None, WAIT)

    async def test_one_whose_node_is_gone_is_told_so(self, world: World) -> None:
        await full(world, limits=Limits(ack_ms=50_000))
        await join(world, "n2", max_concurrent_jobs=1, health="degraded")
        await waits(world, preferred_node_id="n2")
        await leave(world.engine, CELL, "n2")
        world.now_ms = UNTIL
        _, changes = await watch(world, reap(world.engine, CELL))
        (event,) = changes["outbox"]
        told = refused(event, Pair.of("en", "zh"), Wanted(preferred_node_id="n2"))
        assert (told.code, told.waited_ms) == ("PREFERRED_NODE_NOT_CAPABLE", WAIT)
        assert told.detail == f"It waited {WAIT} ms. Node n2 is not registered, or cannot serve en:zh as asked."

    async def test_one_for_which_nobody_is_left_is_told_what_is_missing(self, world: World) -> None:
        await join(world, "n2", health="degraded")
        await waits(world)
        await leave(world.engine, CELL, "n2")
        world.now_ms = UNTIL
        _, changes = await watch(world, reap(world.engine, CELL))
        (event,) = changes["outbox"]
        needs = "none takes en, which needs semantic repair (and asr) for it and a pair from it"
        detail = f"It waited {WAIT} ms. No registered node can serve en:zh: {needs}."
        told = refused(event, Pair.of("en", "zh"), Wanted())
        assert told == Refusal("NO_CAPABLE_NODE", detail, None, WAIT)

    async def test_the_word_says_which_end_of_the_pair_is_served(self, world: World) -> None:
        await join(world, "n2", health="degraded")
        await waits(world)
        await leave(world.engine, CELL, "n2")
        await join(world, "n3", nmt_pairs=[["en", "fr"]])
        await join(world, "n4", semantic_langs=["fr"], nmt_pairs=[["fr", "zh"]])
        world.now_ms = UNTIL
        _, changes = await watch(world, reap(world.engine, CELL))
        (event,) = changes["outbox"]
        assert event.detail.startswith(f"{WAIT} NO_CAPABLE_NODE 1 1 0 ")

    async def test_a_dispatch_finds_it_too_and_those_behind_it_wait_on(self, world: World) -> None:
        await full(world, limits=Limits(ack_ms=50_000))
        await asyncio.gather(waits(world), waits(world, B, wait_ms=WAIT + 1))
        world.now_ms = UNTIL
        assert await waits(world, C) == Waiting(2, UNTIL + WAIT)
        assert (await world.cell()).jobs.keys() == {BUSY, B, C}

    async def test_a_job_that_is_cancelled_while_it_waits_was_accepted_and_has_ended(self, world: World) -> None:
        await full(world)
        await waits(world)
        world.now_ms = NOW
        answer, changes = await watch(world, cancel(world.engine, A, "bye"))
        assert answer == Moved("CANCELLED")
        assert changes == {
            "jobs": {A: {"state": "CANCELLED", "ended_at_ms": NOW, "past": past(reason="bye")}},
            "queue": {queued(A, DEADLINE): GONE},
            "due": {f"j:{A}": FORGET_FROM + NOW + 120_000},
            "outbox": {Event("ended", A, 0, "", "", "bye", NOW): NOW},
            "counts": {"accepted": 2, "CANCELLED": 1},
        }
        assert await watch(world, ask(world, wait_ms=WAIT)) == (Placed("CANCELLED", "", "", 0, 0), {})


async def test_folded_calls_end_as_they_would_one_by_one(make_world: MakeWorld) -> None:
    """Some wait, some are cancelled, some get a slot, and one has waited enough."""
    names = [f"{CELL}.{number}" for number in range(8)]
    cells, told = [], []
    for max_batch in (1, 64):
        world = await make_world(max_batch=max_batch)
        await join(world, "n1", max_concurrent_jobs=2, nmt_pairs=BOTH)
        asked = [(name, BOTH[n % 2], 40_000 - 1_000 * n, 100 * (n % 3)) for n, name in enumerate(names)]
        answers: list[object] = await asyncio.gather(
            *(
                ask(world, name, ":".join(p), limits=Limits(timeout_ms=ms), wait_ms=wait_ms)
                for name, p, ms, wait_ms in asked
            )
        )
        answers += await asyncio.gather(*(cancel(world.engine, name) for name in names[6:]))
        answers += await asyncio.gather(*(done(world.engine, name, 1, "n1") for name in names[:1] * 2))
        world.now_ms += 100
        answers += await asyncio.gather(reap(world.engine, CELL), ask(world, names[0]), ask(world, names[4]))
        cells.append(await world.cell())
        told.append(answers)
    assert told[0] == told[1]
    assert same(*cells)
    assert {job.state for job in cells[0].jobs.values()} == {"FINISHED", "CANCELLED", "RESERVED", "WAITING"}
    assert cells[0].counts["refused.waited"] == 1
