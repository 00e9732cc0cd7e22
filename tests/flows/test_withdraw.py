"""withdraw: a job without a node goes on to another cell, and nobody makes it twice."""

from __future__ import annotations

import asyncio
from itertools import permutations
from typing import TYPE_CHECKING

from lingua_scheduler.core.ids import in_cell
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import FORGET_FROM, Way
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.attempts import Moved
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.dispatch import Placed, Waiting, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.flows.release import Released, release
from lingua_scheduler.flows.withdraw import Stays, Withdrawn, withdraw
from lingua_scheduler.store.following import GoneOn
from lingua_scheduler.views.job import Job, read_job
from lingua_scheduler.views.whereabouts import At, Waits, read_whereabouts, seek
from tests.support.cells import GONE, watch
from tests.support.stage import PLAIN, T0, A, B, code_of, join, place, queued
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

WAITS = Wanted(wait_ms=2_000)
KEEP_MS = 150_000


async def ask(world: World, job_id: str = A, *, hop: int = 0, wait_ms: int = 0) -> Placed | Waiting | GoneOn | Refusal:
    wanted = Wanted(wait_ms=wait_ms)
    return await dispatch(world.engine, job_id, "s1", "en", "zh", seed=1, wanted=wanted, body="said", hop=hop)


async def send_on(world: World, job_id: str = A, to: str = "c1", hop: int = 0) -> object:
    return await withdraw(world.engine, job_id, hop, to, KEEP_MS)


async def open_cell(world: World, cell: str, node_id: str = "far") -> None:
    """Another cell with a node that has one slot."""
    answer = await register(world.engine, cell, node_id, **(PLAIN | {"max_concurrent_jobs": 1}), nonce=node_id)
    assert isinstance(answer, Registered), answer


async def test_a_job_that_was_never_made_here_is_not_made_here_any_more(world: World) -> None:
    await join(world)
    answer, changes = await watch(world, send_on(world))
    assert answer == Withdrawn(1)
    assert changes == {"ways": {A: Way("c1", 1)}, "due": {f"w:{A}": FORGET_FROM + T0 + KEEP_MS}}
    assert await watch(world, ask(world)) == (GoneOn("c1", 1), {})
    assert await watch(world, ask(world, wait_ms=9)) == (GoneOn("c1", 1), {})
    assert isinstance(await ask(world, B), Placed)


async def test_a_job_that_waits_leaves_every_line(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await place(world, B)
    assert isinstance(await ask(world, wait_ms=2_000), Waiting)
    answer, changes = await watch(world, send_on(world))
    assert answer == Withdrawn(1)
    assert changes == {
        "jobs": {A: GONE},
        "tickets": {A: GONE},
        "bodies": {f"{A}:payload": GONE},
        "queue": {queued(A, T0 + 60_000): GONE},
        "due": {f"j:{A}": GONE, f"w:{A}": FORGET_FROM + T0 + KEEP_MS},
        "ways": {A: Way("c1", 1)},
    }
    await done(world.engine, B, 1, "n1")
    assert (await world.cell()).leases == []


async def test_a_job_that_has_its_node_stays(world: World) -> None:
    await join(world)
    await place(world)
    assert await watch(world, send_on(world)) == (Stays(), {})
    await done(world.engine, A, 1, "n1")
    assert await watch(world, send_on(world)) == (Stays(), {})


async def test_who_sends_it_on_second_is_told_where_it_went(world: World) -> None:
    answers = await asyncio.gather(*(send_on(world, to=to) for to in ("c1", "c2")))
    assert answers == [Withdrawn(1), GoneOn("c1", 1)]


async def test_a_job_that_comes_back_is_made_here(world: World) -> None:
    """It went from here to c1, from there to c2, and from there back here."""
    await join(world)
    await send_on(world, A, "c1", 0)
    await send_on(world, in_cell(A, "c1"), "c2", 1)
    await send_on(world, in_cell(A, "c2"), "c0", 2)
    assert await seek(world.engine, A) == (
        A,
        3,
        Refusal("UNKNOWN_JOB", f"There is no job {A}, or its record has expired."),
    )
    # Whoever is late follows it round.
    assert await ask(world, A, hop=0) == GoneOn("c1", 1)
    assert isinstance(await ask(world, A, hop=3), Placed)
    found = await read_job(world.engine, in_cell(A, "c1"))
    assert isinstance(found, Job)
    assert (found.ticket.job, found.ticket.hop) == (A, 3)
    assert isinstance(await ask(world, A, hop=0), Placed)


async def test_of_a_job_that_waits_its_own_ticket_says_how_often_it_went_on(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await place(world, B)
    assert isinstance(await ask(world, hop=4, wait_ms=2_000), Waiting)
    assert await seek(world.engine, A) == (A, 4, Waits(0, 2_000, 4))
    assert await send_on(world, hop=0) == Withdrawn(5)
    assert await ask(world, hop=4) == GoneOn("c1", 5)


async def test_it_goes_on_from_a_cell_in_which_it_was_before(world: World) -> None:
    await send_on(world, A, "c1", 0)
    assert await send_on(world, A, "c2", 0) == GoneOn("c1", 1)
    assert await send_on(world, A, "c2", 1) == Withdrawn(2)
    assert (await world.cell()).ways == {A: Way("c2", 2)}


async def test_where_it_went_is_forgotten_in_time(world: World) -> None:
    await send_on(world)
    world.now_ms += KEEP_MS - 1
    await reap(world.engine, CELL)
    assert await ask(world) == GoneOn("c1", 1)
    world.now_ms += 1
    await reap(world.engine, CELL)
    cell = await world.cell()
    assert (cell.ways, cell.due) == ({}, {})


async def test_who_looks_for_a_job_finds_it_where_it_is(world: World) -> None:
    await open_cell(world, "c1")
    there = in_cell(A, "c1")
    await send_on(world)
    assert code_of(await read_whereabouts(world.engine, A)) == "UNKNOWN_JOB"
    assert isinstance(await ask(world, there, hop=1), Placed)
    found, hop, at = await seek(world.engine, A)
    assert (found, hop, isinstance(at, At)) == (there, 1, True)
    job = await read_job(world.engine, A)
    assert isinstance(job, Job)
    assert job.ticket.job == there
    assert await cancel(world.engine, A) == Moved("CANCELLED")
    released = await release(world.engine, A)
    assert isinstance(released, Released)
    assert released.state == "CANCELLED"


async def test_what_cannot_be_right_is_refused(world: World) -> None:
    wrong = [
        await withdraw(world.engine, "x", 0, "c1", 1),
        await withdraw(world.engine, A, -1, "c1", 1),
        await withdraw(world.engine, A, 0, "{", 1),
        await withdraw(world.engine, A, 0, "c1", 0),
    ]
    assert [code_of(answer) for answer in wrong] == ["INVALID_MESSAGE"] * 4
    assert await world.keys() == 0


async def test_however_two_who_want_the_same_job_come_and_die_there_is_one(world: World) -> None:
    """Both try here, where nobody has room, and go on to a cell of their own choice. Either may die anywhere."""
    await join(world, max_concurrent_jobs=1)
    await place(world, f"{CELL}.other", limits=Limits(timeout_ms=600_000))
    for cell in ("c1", "c2"):
        await open_cell(world, cell)

    class Caller:
        """One who wants the job, a call at a time."""

        def __init__(self, job_id: str, choice: str) -> None:
            self.job_id, self.hop, self.choice, self.has_it = job_id, 0, choice, False

        async def step(self) -> None:
            if self.has_it:
                return
            answer: object = await ask(world, self.job_id, hop=self.hop)
            if isinstance(answer, Refusal):
                answer = await withdraw(world.engine, self.job_id, self.hop, self.choice, KEEP_MS)
            if isinstance(answer, GoneOn | Withdrawn):
                cell = answer.cell if isinstance(answer, GoneOn) else self.choice
                self.job_id, self.hop = in_cell(self.job_id, cell), answer.hop
            self.has_it = isinstance(answer, Placed)

    orders = {order for length in range(7) for order in set(permutations("AAABBB", length))}
    for number, order in enumerate(sorted(orders)):
        job_id = f"{CELL}.job{number}"
        callers = {"A": Caller(job_id, "c1"), "B": Caller(job_id, "c2")}
        for name in order:
            await callers[name].step()
        # Whoever comes after them finds it, or makes it.
        last = Caller(job_id, "c1")
        for _ in range(4):
            await last.step()
        assert last.has_it, order
        there = [cell for cell in ("c0", "c1", "c2") if isinstance(await _job_in(world, cell, job_id), Job)]
        assert len(there) == 1, (order, there)
        assert {caller.job_id for caller in callers.values() if caller.has_it} <= {last.job_id}
        await done(world.engine, last.job_id, 1, "far")


async def _job_in(world: World, cell: str, job_id: str) -> Job | Refusal | None:
    """The job, if it is in this very cell."""
    job = await read_job(world.engine, in_cell(job_id, cell))
    return job if isinstance(job, Job) and job.ticket.job == in_cell(job_id, cell) else None
