"""Why a job went where it went, attempt by attempt, for as long as its record is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.explain import Attempt, Explanation, Wait
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.wanted import Hints, Wanted
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import Waiting, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.release import release
from lingua_scheduler.flows.resume import resume
from lingua_scheduler.flows.started import started
from lingua_scheduler.flows.undeliver import undeliver
from lingua_scheduler.views.explain import explain_job
from tests.support.cells import watch
from tests.support.pasts import doubt, give
from tests.support.stage import ONE_TRY, T0, A, bring, code_of, join, keep_alive, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


async def explain(world: World, job_id: str = A) -> Explanation:
    answer = await explain_job(world.engine, job_id)
    assert isinstance(answer, Explanation), answer
    return answer


async def reasons(world: World) -> list[list[str]]:
    return [attempt.reasons for attempt in (await explain(world)).attempts]


async def waits(world: World) -> list[list[str] | None]:
    """What stood against the job's wishes before each attempt that it waited for."""
    return [attempt.wait.reasons if attempt.wait else None for attempt in (await explain(world)).attempts]


#: What `bring` does to an attempt that it lets run.
RAN: Final = {"dispatched_at_ms": T0, "accepted_at_ms": T0, "started_at_ms": T0}


def attempt(number: int, node_id: str, candidates: int = 1, **said: object) -> Attempt:
    """An attempt that was made as the test began, at once, by no special choice, and goes on."""
    usual = {"group": 1, "policy": "random", "reasons": [], "wait": None, "reserved_at_ms": T0}
    ends = {"end": "", "ended_at_ms": 0}
    return Attempt(attempt_id=number, node_id=node_id, candidates=candidates, **(usual | ends | said))  # type: ignore[arg-type] # one for each field


def told(state: str, *attempts: Attempt, reason: str = "", waiting: Wait | None = None, job_id: str = A) -> Explanation:
    """What is told of a job that was dispatched from en to zh, when nobody asks for nodes."""
    return Explanation("en:zh", job_id, state, reason, list(attempts), waiting, None, "")


async def test_a_job_on_its_first_attempt_has_one_that_goes_on(world: World) -> None:
    for node_id in ("n1", "n2", "n3"):
        await join(world, node_id)
    placed = await place(world)
    answer, changes = await watch(world, explain_job(world.engine, A))
    assert answer == told("RESERVED", attempt(1, placed.node_id, candidates=3))
    assert changes == {}


async def test_a_job_that_is_done_ends_with_its_attempt(world: World) -> None:
    await join(world, tts_langs=["zh"])
    await join(world, "n0", nmt_pairs=[["zh", "en"]])
    await place(world, wanted=Wanted(policy="least_loaded"))
    world.now_ms += 700
    await done(world.engine, A, 1, "n1")
    finished = attempt(1, "n1", policy="least_loaded", end="FINISHED", ended_at_ms=T0 + 700)
    assert await explain(world) == told("FINISHED", finished)


async def test_every_retry_has_its_own_choice_and_says_how_the_last_one_ended(world: World) -> None:
    await join(world, "n1")
    await place(world)
    await join(world, "n2", tts_langs=["zh"])
    world.now_ms = T0 + 10
    await undeliver(world.engine, A, 1, "n1")
    world.now_ms = T0 + 30
    await fail(world.engine, A, 2, "n2", reason="broken")
    # n1 rests, n2 had it and is the only one: it is not let off.
    assert await explain(world) == told(
        "RESERVED",
        attempt(1, "n1", end="undelivered", ended_at_ms=T0 + 10),
        attempt(2, "n2", group=2, reserved_at_ms=T0 + 10, end="failed", ended_at_ms=T0 + 30),
        attempt(3, "n2", group=2, reasons=["again"], reserved_at_ms=T0 + 30),
    )


async def test_a_retry_without_a_node_waits_and_then_it_is_said_how_long(world: World) -> None:
    await join(world)
    await bring(world, "RUNNING")
    await drain(world.engine, CELL, "n1")
    world.now_ms = T0 + 20
    await fail(world.engine, A, 1, "n1", reason="broken")
    first = attempt(1, "n1", end="failed", ended_at_ms=T0 + 20, **RAN)
    assert await explain(world) == told("RETRYING", first, waiting=Wait(T0 + 20, T0 + 60_000, []))
    world.now_ms = T0 + 90
    await resume(world.engine, CELL, "n1")
    second = attempt(2, "n1", reasons=["waited", "again"], wait=Wait(T0 + 20, T0 + 90, []), reserved_at_ms=T0 + 90)
    assert await explain(world) == told("RESERVED", first, second)


async def test_a_job_that_waits_for_its_first_node_has_no_attempts(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    busy = await give(world, "n1")
    world.now_ms = T0 + 5
    assert isinstance(await dispatch(world.engine, A, "s1", "en", "zh", wanted=Wanted(wait_ms=2_000)), Waiting)
    assert await explain(world) == told("WAITING", waiting=Wait(T0 + 5, T0 + 2_005, []))
    world.now_ms = T0 + 105
    await done(world.engine, busy, 1, "n1")
    waited = attempt(1, "n1", reasons=["waited"], wait=Wait(T0 + 5, T0 + 105, []), reserved_at_ms=T0 + 105)
    assert await explain(world) == told("RESERVED", waited)


async def test_a_job_that_waited_in_vain_is_gone(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await give(world, "n1")
    await dispatch(world.engine, A, "s1", "en", "zh", wanted=Wanted(wait_ms=2_000))
    world.now_ms += 2_000
    await sweep(world)
    assert code_of(await explain_job(world.engine, A)) == "UNKNOWN_JOB"


async def test_a_job_that_is_cancelled_says_so_wherever_it_was(world: World) -> None:
    await join(world)
    await place(world)
    world.now_ms += 40
    await cancel(world.engine, A, "nobody listens")
    ended = attempt(1, "n1", end="cancelled", ended_at_ms=T0 + 40)
    assert await explain(world) == told("CANCELLED", ended, reason="nobody listens")


async def test_a_job_that_is_cancelled_while_it_waits_had_what_it_had(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await bring(world, "RUNNING")
    await drain(world.engine, CELL, "n1")
    await fail(world.engine, A, 1, "n1", reason="broken")
    world.now_ms += 40
    await cancel(world.engine, A)
    failed = attempt(1, "n1", end="failed", ended_at_ms=T0, **RAN)
    assert await explain(world) == told("CANCELLED", failed, reason="cancelled", waiting=Wait(T0, T0 + 40, []))


async def test_a_job_that_is_cancelled_before_it_had_a_node_had_nothing(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await give(world, "n1")
    await dispatch(world.engine, A, "s1", "en", "zh", wanted=Wanted(preferred_node_id="n1", wait_ms=2_000))
    world.now_ms += 40
    await cancel(world.engine, A)
    waited = Wait(T0, T0 + 40, ["preferred full"])
    assert await explain(world) == told("CANCELLED", reason="cancelled", waiting=waited)


async def test_a_job_that_failed_or_expired_says_why(world: World) -> None:
    await join(world)
    await bring(world, "RUNNING", limits=ONE_TRY)
    await fail(world.engine, A, 1, "n1", reason="broken")
    failed = attempt(1, "n1", end="failed", ended_at_ms=T0, **RAN)
    assert await explain(world) == told("FAILED", failed, reason="broken")
    late = f"{CELL}.late"
    await bring(world, "EXPIRED", late)
    expired = attempt(1, "n1", end="expired", ended_at_ms=T0 + 1_000)
    assert await explain(world, late) == told("EXPIRED", expired, reason="deadline", job_id=late)


async def test_what_a_lost_node_had_is_explained_by_its_loss(world: World) -> None:
    await join(world, "n1", connection="x")
    await bring(world, "RUNNING")
    await disconnect(world.engine, CELL, "n1", "x")
    await join(world, "n2")
    world.now_ms += 500
    await sweep(world)
    first = attempt(1, "n1", end="lost", ended_at_ms=T0 + 500, **RAN)
    assert await explain(world) == told("RESERVED", first, attempt(2, "n2", reserved_at_ms=T0 + 500))


async def test_every_attempt_says_how_far_it_came_and_when(world: World) -> None:
    await join(world)
    placed = await place(world)
    here = (world.engine, A, placed.attempt_id, "n1")
    for step in (deliver, ack, started):
        world.now_ms += 10
        await step(*here)
    world.now_ms += 10
    await fail(*here, reason="broken")
    second = (world.engine, A, 2, "n1")
    world.now_ms += 10
    await deliver(*second)
    world.now_ms += 10
    await fail(*second, reason="broken")
    seen = [
        (one.reserved_at_ms - T0, one.dispatched_at_ms, one.accepted_at_ms, one.started_at_ms, one.ended_at_ms)
        for one in (await explain(world)).attempts
    ]
    assert seen == [
        (0, T0 + 10, T0 + 20, T0 + 30, T0 + 40),
        (40, T0 + 50, 0, 0, T0 + 60),
        (60, 0, 0, 0, 0),
    ]


class TestWhatStoodAgainstAWish:
    """Each wish that could not be met, in the order in which they were tried, and then what was special."""

    async def test_the_node_of_the_turn_and_the_named_one_are_full(self, world: World) -> None:
        for node_id in ("n1", "n2"):
            await join(world, node_id, max_concurrent_jobs=1)
            await give(world, node_id)
        await join(world, "n3")
        await place(world, wanted=Wanted(preferred_node_id="n2"), hints=Hints(bound_node_id="n1"))
        assert await reasons(world) == [["bound full", "preferred full"]]

    async def test_the_node_of_the_turn_is_gone_and_only_a_suspect_is_left(self, world: World) -> None:
        await join(world, "n1", max_concurrent_jobs=1)
        await join(world, "n2")
        await doubt(world, "n2")
        await give(world, "n1")
        await place(world, hints=Hints(bound_node_id="n0"))
        assert await reasons(world) == [["bound unknown", "suspect"]]

    async def test_a_wish_that_is_met_needs_no_reason(self, world: World) -> None:
        await join(world, "n1")
        await join(world, "n2")
        await place(world, wanted=Wanted(preferred_node_id="n2"))
        assert await explain(world) == told("RESERVED", attempt(1, "n2"))

    async def test_the_pool_of_the_session_is_full(self, world: World) -> None:
        await join(world, "n1", labels={"group": "a"}, max_concurrent_jobs=1)
        await join(world, "n2", labels={"group": "b"})
        await give(world, "n1")
        await place(world, wanted=Wanted(policy="sticky_pool"), hints=Hints(last_pool="a"))
        told = attempt(1, "n2", group=2, policy="sticky_pool", reasons=["pool full"])
        assert (await explain(world)).attempts == [told]

    async def test_more_than_half_are_suspect(self, world: World) -> None:
        await join(world)
        await doubt(world, "n1")
        await place(world)
        assert await reasons(world) == [["panic"]]

    async def test_each_attempt_has_reasons_of_its_own(self, world: World) -> None:
        """n1 drains: the first attempt could not have it. Then n2 leaves, and the job waits for n1, which rests."""
        await join(world, "n1")
        await join(world, "n2")
        await drain(world.engine, CELL, "n1")
        await place(world, wanted=Wanted(preferred_node_id="n1"))
        await heartbeat(world.engine, CELL, "n1", health="degraded")
        await resume(world.engine, CELL, "n1")
        await leave(world.engine, CELL, "n2")
        await heartbeat(world.engine, CELL, "n1", health="ready")
        assert await reasons(world) == [["preferred draining"], ["waited"]]
        assert await waits(world) == [None, ["preferred not_ready"]]


class TestWhatStoodAgainstAWishBeforeAWait:
    """It is kept: a job that waited says what it would rather have had."""

    async def test_of_a_new_job(self, world: World) -> None:
        for node_id in ("n1", "n2"):
            await join(world, node_id, max_concurrent_jobs=1)
        (_, second) = [await give(world, node_id) for node_id in ("n1", "n2")]
        asked = Wanted(preferred_node_id="n1", wait_ms=2_000)
        await dispatch(world.engine, A, "s1", "en", "zh", wanted=asked, hints=Hints(bound_node_id="n9"))
        against = ["bound unknown", "preferred full"]
        assert await explain(world) == told("WAITING", waiting=Wait(T0, T0 + 2_000, against))
        world.now_ms += 70
        await done(world.engine, second, 1, "n2")
        got = attempt(1, "n2", reasons=["waited"], wait=Wait(T0, T0 + 70, against), reserved_at_ms=T0 + 70)
        assert await explain(world) == told("RESERVED", got)

    async def test_of_a_new_job_that_insists(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1)
        await drain(world.engine, CELL, "n1")
        asked = Wanted(preferred_node_id="n1", strict=True, wait_ms=2_000)
        await dispatch(world.engine, A, "s1", "en", "zh", wanted=asked)
        assert (await explain(world)).waiting == Wait(T0, T0 + 2_000, ["preferred draining"])
        await resume(world.engine, CELL, "n1")
        assert (await waits(world), await reasons(world)) == ([["preferred draining"]], [["waited"]])

    async def test_of_each_retry_and_none_of_it_is_mixed_up(self, world: World) -> None:
        """Full at first, so it waits; then the node drains, and it waits again, and is cancelled at last."""
        await join(world, max_concurrent_jobs=1)
        busy = await give(world, "n1")
        await dispatch(world.engine, A, "s1", "en", "zh", wanted=Wanted(preferred_node_id="n1", wait_ms=2_000))
        await done(world.engine, busy, 1, "n1")
        await drain(world.engine, CELL, "n1")
        await fail(world.engine, A, 1, "n1", reason="broken")
        assert (await explain(world)).waiting == Wait(T0, T0 + 60_000, ["preferred draining"])
        await resume(world.engine, CELL, "n1")
        assert await reasons(world) == [["waited"], ["waited", "again"]]
        assert await waits(world) == [["preferred full"], ["preferred draining"]]

    async def test_of_one_that_its_fallback_took(self, world: World) -> None:
        """What stood against its wish when it was placed comes after the wait, and what did before it, before."""
        await join(world, "yue", semantic_langs=["yue"], nmt_pairs=[["yue", "en"]])
        await join(world, "zh", semantic_langs=["zh"], nmt_pairs=[["zh", "en"]])
        await drain(world.engine, CELL, "yue")
        asked = Wanted(preferred_node_id="yue", wait_ms=2_000)
        await dispatch(world.engine, A, "s1", "yue", "en", wanted=asked)
        await leave(world.engine, CELL, "yue")
        assert await reasons(world) == [["waited", "preferred unknown", "fell back"]]
        assert await waits(world) == [["preferred draining"]]

    async def test_of_one_that_wishes_for_nothing_there_is_nothing(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1)
        busy = await give(world, "n1")
        await dispatch(world.engine, A, "s1", "en", "zh", wanted=Wanted(wait_ms=2_000))
        await done(world.engine, busy, 1, "n1")
        assert (await waits(world), await reasons(world)) == ([[]], [["waited"]])


async def test_an_explanation_lives_as_long_as_the_record(world: World) -> None:
    await join(world)
    await bring(world, "FINISHED", limits=Limits())
    await release(world.engine, A)
    world.now_ms += 299_999
    await sweep(world)
    assert (await explain(world)).state == "FINISHED"
    world.now_ms += 1
    await keep_alive(world, "n1")
    await sweep(world)
    assert code_of(await explain_job(world.engine, A)) == "UNKNOWN_JOB"


async def test_a_job_that_cannot_be_is_refused(world: World) -> None:
    assert code_of(await explain_job(world.engine, "nothing")) == "INVALID_MESSAGE"
    wrong: dict[str, Any]
    for wrong in ({"nodes": 1}, {"cursor": None}, {"cursor": "a b"}, {"count": 0}, {"count": 1_001}):
        assert code_of(await explain_job(world.engine, A, **wrong)) == "INVALID_MESSAGE"
