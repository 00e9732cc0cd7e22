"""A retry that finds no node at home is a guest in another cell: the steps, and every way in which that ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.audit import audit_cell, audit_guests
from lingua_scheduler.core.capability import SERVICES
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, Event, Guest, Standing
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.flows.bring_back import BroughtBack, Stays, bring_back
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import Waiting, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.evict import evict
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.heartbeat import Beaten, heartbeat
from lingua_scheduler.flows.host import TurnedAway, host
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.lodge import lodge
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.flows.send_out import Stays as NotSent
from lingua_scheduler.flows.send_out import send_out
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.flows.undeliver import undeliver
from lingua_scheduler.flows.unhost import Unhosted, unhost
from lingua_scheduler.views.audit import audit
from lingua_scheduler.views.explain import explain_job
from lingua_scheduler.views.mailbox import read_mailbox
from lingua_scheduler.views.node import Node, read_node
from lingua_scheduler.views.nodes import Nodes, read_nodes
from lingua_scheduler.views.stranded import Stranded, read_stranded
from tests.support.cells import ANY_TIME_MS, GONE, watch
from tests.support.guests import (
    LONG,
    THERE,
    cells,
    check,
    deliver_mail,
    forget_mail,
    hosted,
    join_in,
    lodged,
    mail,
    sent,
    settle_in,
    strand,
    sweep_all,
)
from tests.support.stage import T0, A, B, C, code_of, place, queued
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.records import JobRecord, NodeRecord
    from tests.support.world import World

DEADLINE = T0 + 60_000
EPOCH = "1-far"


async def home(world: World, job_id: str = A) -> JobRecord:
    return (await check(world))[CELL].jobs[job_id]


async def far(world: World) -> NodeRecord:
    return (await check(world))[THERE].nodes["far"]


async def move_in(world: World, **asked: Any) -> None:
    """The job A is a guest, reserved on the node `far` as its second attempt."""
    await join_in(world, THERE, "far", connection="s1", process_id="p1")
    await strand(world, **asked)
    await settle_in(world)


async def test_the_first_step_writes_down_which_cell_is_asked_and_changes_nothing_else(world: World) -> None:
    await strand(world)
    asked, changes = await watch(world, sent(world))
    assert (asked.attempt_id, asked.deadline_at_ms, asked.had, asked.ticket.job) == (2, DEADLINE, ["near"], A)
    assert changes == {
        "jobs": {A: {"cell": THERE, "asked": 2}},
        "due": {f"j:{A}": T0 + world.rules.relay_lease_ms},
    }
    assert await watch(world, send_out(world.engine, A, "c2")) == (NotSent(), {})


async def test_the_second_takes_a_slot_and_says_the_same_to_whoever_asks_again(world: World) -> None:
    await join_in(world, THERE, "far")
    await strand(world)
    asked = await sent(world)
    there = await hosted(world, asked)
    assert (there.node_id, there.epoch, there.acks) == ("far", EPOCH, 1)  # type: ignore[union-attr] # it has room
    before = (await check(world))[THERE]
    assert before.leases == [f"far:{A}:2"]
    assert before.due[f"g:{A}:2"] == DEADLINE + world.rules.relay_lease_ms
    assert (before.nodes["far"].used, before.nodes["far"].standing) == (1, Standing.full)
    assert await hosted(world, asked) == there
    assert msgspec.structs.replace((await cells(world))[THERE], now_ms=0) == msgspec.structs.replace(before, now_ms=0)


async def test_the_third_reserves_it_and_has_it_carried(world: World) -> None:
    await join_in(world, THERE, "far")
    await strand(world)
    asked = await sent(world)
    there = await hosted(world, asked)
    world.now_ms += 7
    took, changes = await watch(world, lodged(world, asked, there))  # type: ignore[arg-type] # it has room
    assert took
    now = T0 + 7
    assert changes == {
        "jobs": {A: {"state": "RESERVED", "attempt": 2, "node": "far", "epoch": EPOCH, "reserved_at_ms": now}},
        "queue": {queued(A, DEADLINE): GONE},
        "due": {f"j:{A}": now + 5_000},
        "outbox": {Event("reserved", A, 2, "far", EPOCH, "", now): now},
    }
    assert await watch(world, lodged(world, asked, there)) == (True, {})  # type: ignore[arg-type] # it has room
    assert (await check(world))[CELL].counts["attempt.again"] == 1


async def test_only_a_job_that_lost_its_node_and_waits_is_sent_out(world: World) -> None:
    await join_in(world, CELL, "near")
    await place(world, A)
    assert isinstance(await dispatch(world.engine, B, "s1", "en", "zh", wanted=Wanted(wait_ms=500)), Waiting)
    for job_id in (A, B, C):
        assert await watch(world, send_out(world.engine, job_id, THERE)) == (NotSent(), {})
    await done(world.engine, A, 1, "near")
    assert await watch(world, send_out(world.engine, A, THERE)) == (NotSent(), {})


async def test_whose_time_is_over_is_not_sent_out_nor_hosted(world: World) -> None:
    await join_in(world, THERE, "far")
    await strand(world)
    asked = await sent(world)
    world.now_ms = DEADLINE
    assert await hosted(world, asked) == TurnedAway()
    assert (await cells(world))[THERE].guests == {}
    await bring_back(world.engine, A, 2)
    assert await watch(world, send_out(world.engine, A, THERE)) == (NotSent(), {})


async def test_where_nobody_has_room_it_is_turned_away_for_good(world: World) -> None:
    await join_in(world, THERE, "far")
    await drain(world.engine, THERE, "far")
    await strand(world)
    asked = await sent(world)
    assert await hosted(world, asked) == TurnedAway()
    there = (await check(world))[THERE]
    assert there.guests == {f"{A}:2": Guest("", "", 0, 0, [], 0, DEADLINE, "refused")}
    assert there.due[f"g:{A}:2"] == FORGET_FROM + DEADLINE
    await join_in(world, THERE, "other")
    assert await hosted(world, asked) == TurnedAway()
    answer, changes = await watch(world, bring_back(world.engine, A, 2))
    assert answer == BroughtBack("RETRYING")
    assert changes == {"jobs": {A: {"cell": ""}}, "due": {f"j:{A}": DEADLINE}}
    assert await watch(world, bring_back(world.engine, A, 2)) == (Stays(), {})
    # Under the next number it may come.
    assert (await settle_in(world)).node_id == "other"
    assert (await home(world)).attempt == 3


async def test_a_node_that_claims_to_work_on_it_already_does_not_get_it(world: World) -> None:
    await join_in(world, THERE, "far", max_concurrent_jobs=2, running=[(A, 2)])
    await strand(world)
    assert await hosted(world, await sent(world)) == TurnedAway()


async def test_it_goes_to_no_node_that_had_it_while_another_can(world: World) -> None:
    await join_in(world, THERE, "far", max_concurrent_jobs=64)
    await join_in(world, THERE, "other", max_concurrent_jobs=64)
    await strand(world, limits=Limits(max_retry=10))
    last = ""
    for attempt in (2, 3):
        node_id = (await settle_in(world)).node_id
        assert node_id != last
        await fail(world.engine, A, attempt, node_id, reason="broken")
        await deliver_mail(world)
        last = node_id


async def test_exclusions_hold_there_too(world: World) -> None:
    await join_in(world, THERE, "far")
    await strand(world, wanted=Wanted(exclude_node_ids=["far"]))
    assert await hosted(world, await sent(world)) == TurnedAway()


@pytest.mark.parametrize("service", SERVICES)
async def test_what_it_needs_it_needs_there_too(world: World, service: str) -> None:
    await join_in(world, THERE, "far", services={service: False}, tts_langs=["zh"], lenient=True)
    await join_in(world, CELL, "near", tts_langs=["zh"])
    await place(world, wanted=Wanted(services=[*SERVICES]))
    await leave(world.engine, CELL, "near")
    assert await hosted(world, await sent(world)) == TurnedAway()


async def test_who_waits_there_comes_first(world: World) -> None:
    """The node has room, and has not yet served all who wait for it."""
    await join_in(world, THERE, "far", max_concurrent_jobs=2)
    await strand(world)
    asked = await sent(world)
    await world.engine.command("ZADD", f"{world.engine.prefix}:{{{THERE}}}:due", world.now_ms, "r:far", cell=THERE)
    assert await hosted(world, asked) == TurnedAway()


async def test_it_falls_back_to_no_other_language_there(world: World) -> None:
    await join_in(world, THERE, "far", semantic_langs=["zh", "en"], nmt_pairs=[["zh", "en"]])
    await join_in(world, CELL, "near", semantic_langs=["yue", "en"], nmt_pairs=[["yue", "en"]])
    await dispatch(world.engine, A, "s1", "yue", "en")
    await leave(world.engine, CELL, "near")
    assert await hosted(world, await sent(world)) == TurnedAway()


async def test_a_slot_at_home_is_taken_meanwhile_and_what_was_asked_for_is_let_go(world: World) -> None:
    await join_in(world, THERE, "far")
    await strand(world)
    asked = await sent(world)
    there = await hosted(world, asked)
    await join_in(world, CELL, "near")
    assert (await home(world)).state == "RETRYING", "it had the job: that would be the last way out"
    await join_in(world, CELL, "new")
    job = await home(world)
    assert (job.state, job.attempt, job.node, job.cell, job.asked) == ("RESERVED", 3, "new", "", 2)
    told = [(event.kind, event.attempt, event.detail) for event in await mail(world, CELL)]
    assert ("let_go", 2, f"{THERE} back {DEADLINE}") in told
    assert not await lodged(world, asked, there)  # type: ignore[arg-type] # it has room
    world.now_ms += world.rules.relay_lease_ms
    await deliver_mail(world)
    found = (await check(world))[THERE]
    assert (found.leases, found.limbo, found.guests[f"{A}:2"].over) == ([], {}, "back")
    assert await hosted(world, asked) == TurnedAway()


async def test_who_dies_after_asking_is_undone_in_time(world: World) -> None:
    await join_in(world, THERE, "far")
    await strand(world)
    asked = await sent(world)
    world.now_ms += world.rules.relay_lease_ms - 1
    await reap(world.engine, CELL)
    assert (await home(world)).cell == THERE
    world.now_ms += 1
    _, changes = await watch(world, reap(world.engine, CELL))
    now = world.now_ms
    assert changes == {
        "jobs": {A: {"cell": ""}},
        "due": {f"j:{A}": DEADLINE},
        "outbox": {Event("let_go", A, 2, "", "", f"{THERE} back {DEADLINE}", now): now},
    }
    await deliver_mail(world)
    # He was only slow: what is asked for no more is not taken any more.
    assert await hosted(world, asked) == TurnedAway()
    assert (await check(world))[THERE].guests[f"{A}:2"].over == "back"


@pytest.mark.parametrize("step", [1, 2], ids=["asked", "hosted"])
async def test_a_job_that_is_cancelled_while_it_asks_lets_go_what_was_taken(world: World, step: int) -> None:
    await join_in(world, THERE, "far")
    await strand(world)
    asked = await sent(world)
    if step == 2:
        await hosted(world, asked)
    await cancel(world.engine, A)
    assert (await home(world)).state == "CANCELLED"
    await deliver_mail(world)
    found = (await check(world))[THERE]
    assert (found.leases, found.guests[f"{A}:2"].over) == ([], "back")


async def test_a_result_ends_it_and_its_node_is_praised(world: World) -> None:
    await move_in(world)
    world.now_ms += 300
    await done(world.engine, A, 2, "far", EPOCH, result="said")
    job = await home(world)
    assert (job.state, job.node, job.cell) == ("FINISHED", "far", THERE)
    node = await far(world)
    assert (node.used, node.typical_ms) == (1, 0)
    await deliver_mail(world)
    node = await far(world)
    assert (node.used, node.standing, node.typical_ms) == (0, Standing.available, 300)


async def _of_fail(world: World) -> None:
    await fail(world.engine, A, 2, "far", EPOCH, reason="broken")


async def _of_overload(world: World) -> None:
    await fail(world.engine, A, 2, "far", EPOCH, reason="busy", overloaded=True)


async def _of_undelivered(world: World) -> None:
    await undeliver(world.engine, A, 2, "far", EPOCH, unsure=True)


async def _of_stopped(world: World) -> None:
    await stopped(world.engine, A, 2, "far", EPOCH)


async def _of_cancel(world: World) -> None:
    await cancel(world.engine, A)


async def _of_silence(world: World) -> None:
    world.now_ms += 5_000
    await reap(world.engine, CELL)


async def _of_no_ack(world: World) -> None:
    await deliver(world.engine, A, 2, "far", EPOCH)
    await _of_silence(world)


async def _of_no_result(world: World) -> None:
    await ack(world.engine, A, 2, "far", EPOCH)
    world.now_ms += 30_000
    await heartbeat(world.engine, THERE, "far")
    await reap(world.engine, CELL)
    await reap(world.engine, CELL)


#: How it ends at home, the cause, and how its node stands there: a slot in limbo stays taken.
ENDS = {
    "failed": (_of_fail, Standing.available, 1),
    "overloaded": (_of_overload, Standing.resting, 0),
    "undelivered": (_of_undelivered, Standing.resting, 1),
    "stopped": (_of_stopped, Standing.available, 1),
    "cancelled": (_of_cancel, Standing.full, 0),
    "unsent": (_of_silence, Standing.full, 0),
    "ack_timeout": (_of_no_ack, Standing.full, 1),
    "run_timeout": (_of_no_result, Standing.full, 1),
}


@pytest.mark.parametrize("cause", ENDS)
async def test_however_the_attempt_ends_at_home_its_slot_there_follows(world: World, cause: str) -> None:
    await move_in(world)
    act, standing, blamed = ENDS[cause]
    await act(world)
    job = await home(world)
    past = job.past.attempts[-1]
    assert (past.attempt, past.node, past.cause, past.cell, job.cell) == (2, "far", cause, THERE, "")
    assert (await far(world)).used == 1
    await deliver_mail(world)
    found = (await check(world))[THERE]
    node = found.nodes["far"]
    assert (node.standing, node.recent) == (standing, blamed)
    rests_ms = {"overloaded": world.rules.rest_ms, "undelivered": world.rules.reconnect_grace_ms}.get(cause)
    assert node.rest_until_ms == (world.now_ms + rests_ms if rests_ms else 0)
    assert found.guests[f"{A}:2"].over == cause
    assert list(found.limbo) == ([f"far:{A}:2"] if standing == Standing.full else [])


async def test_the_deadline_ends_it_in_both_cells(world: World) -> None:
    await move_in(world)
    world.now_ms = DEADLINE
    await heartbeat(world.engine, THERE, "far")
    await sweep_all(world)
    assert (await home(world)).state == "EXPIRED"
    await deliver_mail(world)
    assert list((await check(world))[THERE].limbo) == [f"far:{A}:2"]


async def test_a_node_that_says_late_that_it_stopped_has_its_slot_again(world: World) -> None:
    await move_in(world)
    await cancel(world.engine, A)
    await deliver_mail(world)
    assert (await far(world)).limbo == 1
    assert code_of(await stopped(world.engine, A, 2, "far", EPOCH)) == "STALE_ATTEMPT"
    await deliver_mail(world)
    node = await far(world)
    assert (node.used, node.limbo, node.standing) == (0, 0, Standing.available)


@pytest.mark.parametrize("loss", ["evicted", "lost"])
async def test_the_result_of_a_guest_that_was_fenced_there_frees_its_slot(world: World, loss: str) -> None:
    """Its home has not heard yet that the node was lost: the result counts, and shows that the node is done."""
    await move_in(world)
    await LOSSES[loss][0](world)
    assert len((await check(world))[THERE].limbo) == 1
    await done(world.engine, A, 2, "far", EPOCH)
    await deliver_mail(world)
    assert (await home(world)).state == "FINISHED"
    assert (await check(world))[THERE].limbo == {}


async def test_whoever_tells_of_its_end_himself_hears_that_there_is_more_to_carry(world: World) -> None:
    await move_in(world)
    answer = await done(world.engine, A, 2, "far", EPOCH, lease_ms=300)
    assert isinstance(answer, Moved)
    assert answer.more == 1
    assert [event.kind for event in await mail(world, CELL)] == ["let_go"]


@pytest.mark.parametrize("how", ["done", "failed", "overloaded", "stopped", "confirmed"])
async def test_whatever_its_node_says_of_a_guest_that_was_fenced_shows_that_it_stopped(world: World, how: str) -> None:
    await move_in(world)
    await evict(world.engine, THERE, "far")
    assert await unhost(world.engine, THERE, A, 2, "far", how, DEADLINE) == Unhosted(was_here=False)
    assert (await cells(world))[THERE].limbo == {}


async def test_what_is_told_of_a_guest_that_is_fenced_ends_no_limbo_unless_it_is_the_nodes_own_word(
    world: World,
) -> None:
    await move_in(world)
    await evict(world.engine, THERE, "far")
    for how in ("back", "cancelled", "undelivered"):
        await unhost(world.engine, THERE, A, 2, "far", how, DEADLINE)
        assert len((await cells(world))[THERE].limbo) == 1


async def test_that_it_stopped_may_come_there_before_that_it_must(world: World) -> None:
    """Two relayers carry the two words, and the second is faster."""
    await move_in(world)
    await cancel(world.engine, A)
    assert await unhost(world.engine, THERE, A, 2, "far", "confirmed", 0) == Unhosted(was_here=True)
    assert await unhost(world.engine, THERE, A, 2, "far", "cancelled", DEADLINE) == Unhosted(was_here=False)
    node = await far(world)
    assert (node.used, node.limbo, node.recent) == (0, 0, 0)


async def test_what_is_told_twice_counts_once(world: World) -> None:
    await join_in(world, THERE, "far", max_concurrent_jobs=2)
    await strand(world)
    await settle_in(world)
    await _of_fail(world)
    for was_here in (True, False):
        assert await unhost(world.engine, THERE, A, 2, "far", "failed", DEADLINE) == Unhosted(was_here=was_here)
    assert ((await far(world)).used, (await far(world)).recent) == (0, 1)
    await unhost(world.engine, THERE, A, 2, "far", "back", DEADLINE)
    guest = (await check(world))[THERE].guests[f"{A}:2"]
    assert (guest.node, guest.over) == ("far", "failed")


async def test_of_what_nobody_can_ask_for_any_more_no_note_is_kept(world: World) -> None:
    for deadline, kept in ((T0, 0), (T0 + 1, 1)):
        assert await unhost(world.engine, THERE, A, 2, "", "back", deadline) == Unhosted(was_here=False)
        assert len((await cells(world))[THERE].guests) == kept


async def test_who_waits_there_gets_the_slot_of_a_guest_that_goes(world: World) -> None:
    await move_in(world)
    waiting = f"{THERE}.w"
    asked = await dispatch(world.engine, waiting, "s1", "en", "zh", wanted=Wanted(wait_ms=500))
    assert isinstance(asked, Waiting)
    await done(world.engine, A, 2, "far", EPOCH)
    await deliver_mail(world)
    found = (await check(world))[THERE]
    assert (found.leases, found.counts["accepted"]) == ([f"far:{waiting}:1"], 1)


async def _leaves(world: World) -> None:
    await leave(world.engine, THERE, "far")


async def _is_evicted(world: World) -> None:
    await evict(world.engine, THERE, "far")


async def _is_lost(world: World) -> None:
    await disconnect(world.engine, THERE, "far", "s1")
    world.now_ms += 500
    await reap(world.engine, THERE)


async def _restarts(world: World) -> None:
    await join_in(world, THERE, "far", connection="s2", process_id="p2")


async def _comes_without_it(world: World) -> None:
    await join_in(world, THERE, "far", connection="s2", process_id="p1", epoch=EPOCH, running=[])


#: How its node is lost there, and what that is called at home, before the node accepted and after.
LOSSES = {
    "leaves": (_leaves, "left_early", "left"),
    "evicted": (_is_evicted, "evicted", "evicted"),
    "lost": (_is_lost, "lost_early", "lost"),
    "restarts": (_restarts, "died_early", "died"),
    "without": (_comes_without_it, "undelivered", "dropped"),
}


@pytest.mark.parametrize("accepted", [False, True], ids=["early", "late"])
@pytest.mark.parametrize("loss", LOSSES)
async def test_a_guest_that_loses_its_node_is_brought_back(world: World, loss: str, *, accepted: bool) -> None:
    await move_in(world)
    if accepted:
        await ack(world.engine, A, 2, "far", EPOCH)
    act, early, late = LOSSES[loss]
    await act(world)
    [lost] = [event for event in await mail(world, THERE) if event.kind == "guest_lost"]
    assert (lost.job, lost.attempt, lost.node, lost.detail) == (A, 2, "far", f"{early} {late}")
    assert (await home(world)).state == ("ACCEPTED" if accepted else "RESERVED")
    world.now_ms += world.rules.relay_lease_ms
    await deliver_mail(world)
    job = await home(world)
    assert (job.state, job.past.attempts[-1].cause, job.cell) == ("RETRYING", late if accepted else early, "")
    assert await bring_back(world.engine, A, 2, early, late) == Stays()
    found = (await check(world))[THERE]
    assert len(found.limbo) == (loss in {"evicted", "lost"})


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_node_that_is_lost_before_the_job_was_lodged_is_not_asked_for_any_more(world: World, loss: str) -> None:
    await join_in(world, THERE, "far", connection="s1", process_id="p1")
    await strand(world)
    asked = await sent(world)
    there = await hosted(world, asked)
    await LOSSES[loss][0](world)
    await deliver_mail(world)
    job = await home(world)
    assert (job.state, job.attempt, job.cell) == ("RETRYING", 1, "")
    assert not await lodged(world, asked, there)  # type: ignore[arg-type] # it had room
    assert (await home(world)).state == "RETRYING"


async def test_what_is_told_of_another_attempt_changes_nothing(world: World) -> None:
    await move_in(world)
    await _of_fail(world)
    await deliver_mail(world)
    asked = await sent(world)
    lost = (A, 2, "lost_early", "lost")
    assert await watch(world, bring_back(world.engine, *lost)) == (Stays(), {})
    there = await hosted(world, asked)
    assert await lodged(world, asked, there)  # type: ignore[arg-type] # it has room
    assert await watch(world, bring_back(world.engine, *lost)) == (Stays(), {})
    # That nobody had room is not said of what has a node.
    assert await watch(world, bring_back(world.engine, A, 3)) == (Stays(), {})
    assert await bring_back(world.engine, A, 3, "lost_early", "lost") == BroughtBack("RETRYING")


async def test_whoever_loses_two_nodes_elsewhere_is_poison(world: World) -> None:
    await move_in(world, limits=LONG)
    for attempt in (2, 3):
        await ack(world.engine, A, attempt, "far", (await far(world)).epoch)
        await join_in(world, THERE, "far", connection="s2", process_id=f"p{attempt}")
        await deliver_mail(world)
        if attempt == 2:
            await settle_in(world)
    job = await home(world)
    assert (job.state, job.past.reason) == ("FAILED", "poison")


async def test_a_node_that_comes_back_with_its_guest_keeps_it(world: World) -> None:
    await move_in(world)
    await disconnect(world.engine, THERE, "far", "s1")
    again = await join_in(world, THERE, "far", connection="s2", process_id="p1", epoch=EPOCH, running=[(A, 2)])
    assert again.cancel == []
    found = (await check(world))[THERE]
    assert (found.leases, found.limbo, f"j:{A}" in found.due) == ([f"far:{A}:2"], {}, False)
    await done(world.engine, A, 2, "far", EPOCH)
    assert (await home(world)).state == "FINISHED"


@pytest.mark.parametrize("connection", ["", "s1"])
async def test_from_memory_and_by_polls_nobody_drops_a_guest(world: World, connection: str) -> None:
    await join_in(world, THERE, "far", connection=connection)
    await strand(world)
    await settle_in(world)
    said: dict[str, Any] = {"renewed_by": "instance", "opened_ms": T0} if connection else {}
    await join_in(world, THERE, "far", connection=connection, epoch=EPOCH, running=[], **said)
    assert (await check(world))[THERE].leases == [f"far:{A}:2"]


@pytest.mark.parametrize(("how", "taken"), [("done", 0), ("back", 1)])
async def test_what_a_node_names_that_is_over_takes_a_slot_unless_it_said_so_itself(
    world: World, how: str, taken: int
) -> None:
    await move_in(world)
    await unhost(world.engine, THERE, A, 2, "far", how, DEADLINE)
    beaten = await heartbeat(world.engine, THERE, "far", running=[(A, 2)])
    assert isinstance(beaten, Beaten)
    assert beaten.cancel == [(A, 2)]
    assert len((await cells(world))[THERE].limbo) == taken


async def test_a_guest_whose_home_is_never_heard_of_again_ends_with_its_time(world: World) -> None:
    await move_in(world)
    world.now_ms = DEADLINE + world.rules.relay_lease_ms
    await heartbeat(world.engine, THERE, "far")
    await reap(world.engine, THERE)
    assert list((await cells(world))[THERE].limbo) == [f"far:{A}:2"]
    await deliver_mail(world)
    assert (await home(world)).state == "EXPIRED"


async def test_when_its_time_is_over_nothing_is_left_of_it_there(world: World) -> None:
    await move_in(world)
    await done(world.engine, A, 2, "far")
    await deliver_mail(world)
    await leave(world.engine, THERE, "far")
    world.now_ms = DEADLINE
    await sweep_all(world)
    await forget_mail(world, THERE)
    found = (await cells(world))[THERE]
    assert (found.guests, found.due, found.leases, found.jobs, found.outbox) == ({}, {}, [], {}, [])


async def test_the_answer_to_a_failure_says_which_attempt_follows(world: World) -> None:
    await move_in(world)
    await join_in(world, CELL, "near")
    answer = await fail(world.engine, A, 2, "far", EPOCH, reason="broken")
    assert answer == Failed("RETRYING", 3, reserved=True, node_id="near", epoch="2-near", acks=1)


async def test_explain_says_where_it_was_a_guest(world: World) -> None:
    await move_in(world)
    explained = await explain_job(world.engine, A)
    assert explained.attempts[-1].reasons == ["waited", f"guest {THERE}"]  # type: ignore[union-attr] # it is there
    await _of_fail(world)
    await deliver_mail(world)
    await settle_in(world)
    explained = await explain_job(world.engine, A)
    reasons = [attempt.reasons for attempt in explained.attempts[1:]]  # type: ignore[union-attr] # it is there
    assert reasons == [["waited", f"guest {THERE}"], ["waited", f"guest {THERE}", "again"]]


async def test_a_node_without_a_socket_finds_its_guest_until_it_accepts(world: World) -> None:
    await join_in(world, THERE, "far")
    await strand(world)
    await settle_in(world)
    assert await read_mailbox(world.engine, THERE, "far") == []
    await deliver(world.engine, A, 2, "far")
    assert await read_mailbox(world.engine, THERE, "far") == [(A, 2)]
    await ack(world.engine, A, 2, "far")
    assert await read_mailbox(world.engine, THERE, "far") == []


async def test_who_is_stranded_is_seen_a_page_at_a_time(world: World) -> None:
    await join_in(world, CELL, "near", max_concurrent_jobs=4)
    strict = Wanted(preferred_node_id="near", strict=True)
    for number, wanted in enumerate((None, strict, None, None)):
        await place(world, f"{CELL}.{number}", **({"wanted": wanted} if wanted else {}))
    waits = await dispatch(world.engine, A, "s1", "en", "zh", wanted=Wanted(wait_ms=500))
    assert isinstance(waits, Waiting)
    await leave(world.engine, CELL, "near")
    await send_out(world.engine, f"{CELL}.3", THERE)
    found, cursor = [], ""
    while True:
        page = await read_stranded(world.engine, CELL, cursor, 2)
        assert isinstance(page, Stranded)
        found += page.jobs
        cursor = page.cursor
        if not cursor:
            break
    assert found == [(f"{CELL}.0", "en:zh"), (f"{CELL}.2", "en:zh")]


async def test_a_page_of_nodes_has_guests(world: World) -> None:
    await move_in(world)
    page = await read_nodes(world.engine, THERE)
    assert isinstance(page, Nodes)
    assert page.nodes == list((await cells(world))[THERE].ledgers())
    [lease] = page.nodes[0].leases
    assert (lease.job.state, lease.due_at_ms) == ("RESERVED", DEADLINE + world.rules.relay_lease_ms)
    assert (await audit(world.engine, THERE), await audit(world.engine, CELL)) == ([], [])
    shown = await read_node(world.engine, THERE, "far")
    assert isinstance(shown, Node)
    assert (shown.held, shown.guests) == ([(A, 2)], [f"far:{A}:2"])


async def test_the_auditor_finds_a_guest_without_a_lease_or_that_nobody_will_look_at(world: World) -> None:
    await move_in(world)
    there, name = (await check(world))[THERE], f"{A}:2"
    node = msgspec.structs.replace(there.nodes["far"], used=0, standing=Standing.available)
    bare = msgspec.structs.replace(there, leases=[], nodes={"far": node})
    assert ("S2", name) in {(wrong.invariant, wrong.subject) for wrong in audit_cell(bare, ANY_TIME_MS)}
    due = {member: at for member, at in there.due.items() if member != f"g:{name}"}
    for wrongly, found in (({}, ("S16", f"g:{name}")), ({f"g:{name}": FORGET_FROM + DEADLINE}, ("S4", name))):
        blind = msgspec.structs.replace(there, due=due | wrongly)
        assert found in {(wrong.invariant, wrong.subject) for wrong in audit_cell(blind, ANY_TIME_MS)}


async def test_the_auditor_misses_the_other_half_of_a_guest(world: World) -> None:
    await move_in(world)
    found = await check(world)
    alone = found | {CELL: msgspec.structs.replace(found[CELL], jobs={}, outbox=[])}
    assert [wrong.invariant for wrong in audit_guests(alone)] == ["S2"]
    gone = found | {THERE: msgspec.structs.replace(found[THERE], guests={}, outbox=[])}
    assert [wrong.invariant for wrong in audit_guests(gone)] == ["S2"]
    job = msgspec.structs.replace(found[CELL].jobs[A], node="other")
    two = found | {CELL: msgspec.structs.replace(found[CELL], jobs={A: job})}
    assert [wrong.invariant for wrong in audit_guests(two)] == ["S8"]


async def test_what_cannot_be_right_is_refused(world: World) -> None:
    await strand(world)
    asked = await sent(world)
    good: tuple[Any, ...] = (A, 2, DEADLINE, 1, [], asked.ticket)
    wrong: list[object] = [
        await send_out(world.engine, "x", THERE),
        await send_out(world.engine, A, "{"),
        await bring_back(world.engine, A, 0),
        await bring_back(world.engine, A, 2, "x", "lost"),
        await bring_back(world.engine, A, 2, "lost", "x"),
        await unhost(world.engine, "{", A, 2, "", "back", 0),
        await unhost(world.engine, THERE, A, 2, "{", "back", 0),
        await unhost(world.engine, THERE, A, 2, "", "x", 0),
        await unhost(world.engine, THERE, A, 2, "", "back", -1),
        await lodge(world.engine, A, 2, "far", EPOCH, 2, 0, []),
        await lodge(world.engine, A, 2, "far", EPOCH, 1, -1, []),
        await lodge(world.engine, A, 2, "far", EPOCH, 1, 0, "x"),
        await lodge(world.engine, A, 2, "far", EPOCH, 1, 0, ["x" * 257]),
        await read_stranded(world.engine, "{"),
        await read_stranded(world.engine, CELL, "", 0),
    ]
    for place_of, bad in enumerate(("x", 0, -1, -1, "x", None)):
        junk: list[Any] = [*good]
        junk[place_of] = bad
        wrong.append(await host(world.engine, THERE, *junk))
    assert [code_of(answer) for answer in wrong] == ["INVALID_MESSAGE"] * len(wrong)
    assert (await cells(world))[THERE].guests == {}
