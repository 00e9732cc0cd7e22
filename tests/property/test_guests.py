"""However those who look for a node elsewhere come and die, and whatever happens meanwhile: one attempt is live.

Two of them, a call at a time, each dead after any of its calls; and between any two calls a misfortune, or two. After
every call every invariant holds in both cells and between them; at the end nothing is left behind.
"""

from __future__ import annotations

from itertools import combinations, permutations
from typing import TYPE_CHECKING, Final

import pytest

from lingua_scheduler.core.job_state import ENDS, LIVE_STATES
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.bring_back import bring_back
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.host import Hosted, TurnedAway
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.flows.send_out import SentOut, send_out
from tests.support.guests import (
    THERE,
    cells,
    check,
    deliver_mail,
    forget_mail,
    hosted,
    join_in,
    lodged,
    strand,
    sweep_all,
)
from tests.support.world import CELL, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from lingua_scheduler.core.records import JobRecord
    from tests.support.servers import Server

TIMEOUT_MS: Final = 60_000
LIMITS: Final = Limits(timeout_ms=TIMEOUT_MS, max_retry=10)

#: What may happen meanwhile.
MISFORTUNES: Final = ("cancel", "expire", "home", "back", "lost", "unsaid", "undo", "mail", "done", "fail", "nobody")


class Mover:
    """One who looks for a node elsewhere, a call at a time."""

    def __init__(self, world: World, job_id: str) -> None:
        self.world, self.job_id = world, job_id
        self.asked: SentOut | None = None
        self.there: Hosted | TurnedAway | None = None

    async def step(self) -> None:
        if self.asked is None:
            answer = await send_out(self.world.engine, self.job_id, THERE)
            self.asked = answer if isinstance(answer, SentOut) else None
        elif self.there is None:
            self.there = await hosted(self.world, self.asked, self.job_id)
        elif isinstance(self.there, Hosted):
            await lodged(self.world, self.asked, self.there, self.job_id)
        else:
            await bring_back(self.world.engine, self.job_id, self.asked.attempt_id)


class Story:
    """A job without a node at home, and what becomes of it."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.job_id = f"{CELL}.job{number}"
        self.movers = {name: Mover(world, self.job_id) for name in "AB"}

    async def begin(self) -> None:
        await join_in(self.world, THERE, "far", process_id="p1")
        await strand(self.world, self.job_id, limits=LIMITS)

    async def job(self) -> JobRecord:
        return (await cells(self.world))[CELL].jobs[self.job_id]

    async def act(self, name: str) -> None:
        if name in self.movers:
            await self.movers[name].step()
        else:
            await getattr(self, f"_{name}")()
        await check(self.world)

    async def _cancel(self) -> None:
        await cancel(self.world.engine, self.job_id)

    async def _expire(self) -> None:
        self.world.now_ms += TIMEOUT_MS
        await self._signs_of_life()
        await sweep_all(self.world)

    async def _home(self) -> None:
        await join_in(self.world, CELL, "new")

    async def _back(self) -> None:
        """The node that had it is there again."""
        await join_in(self.world, CELL, "near")

    async def _lost(self) -> None:
        await leave(self.world.engine, THERE, "far")

    async def _unsaid(self) -> None:
        """It comes back by another connection, and names nothing that it works on."""
        epoch = (await cells(self.world))[THERE].nodes["far"].epoch if await self._is_there() else ""
        await join_in(self.world, THERE, "far", process_id="p1", epoch=epoch, connection="s2", running=[])

    async def _undo(self) -> None:
        self.world.now_ms += self.world.rules.relay_lease_ms
        await reap(self.world.engine, CELL)

    async def _mail(self) -> None:
        await deliver_mail(self.world)

    async def _done(self) -> None:
        job = await self.job()
        if job.state in LIVE_STATES:
            await done(self.world.engine, self.job_id, job.attempt, job.node)

    async def _fail(self) -> None:
        job = await self.job()
        if job.state in LIVE_STATES:
            await fail(self.world.engine, self.job_id, job.attempt, job.node, reason="broken")

    async def _nobody(self) -> None:
        """Somebody found that there is no other cell to be asked."""
        await bring_back(self.world.engine, self.job_id, (await self.job()).attempt)

    async def _is_there(self) -> bool:
        return "far" in (await cells(self.world))[THERE].nodes

    async def _signs_of_life(self) -> None:
        """All nodes speak: they accept what they have; what they are told to stop they have stopped."""
        found = await cells(self.world)
        for cell, node_id in ((CELL, "near"), (CELL, "new"), (THERE, "far")):
            held = found[cell]
            running = [
                (job_id, int(attempt))
                for lease in held.leases
                for holder, job_id, attempt in [lease.split(":")]
                if holder == node_id and lease not in held.limbo
            ]
            if node_id in held.nodes:
                await heartbeat(self.world.engine, cell, node_id, running=running)
                for job_id, attempt in running:
                    await ack(self.world.engine, job_id, attempt, node_id, held.nodes[node_id].epoch)

    async def recover(self) -> None:
        """Whoever died stays dead; the loops of others go on, and one of them asks again."""
        for _ in range(2):
            self.world.now_ms += self.world.rules.confirm_after_ms
            await self._signs_of_life()
            await sweep_all(self.world)
            await deliver_mail(self.world)
        last = Mover(self.world, self.job_id)
        for _ in range(3):
            await last.step()
        await deliver_mail(self.world)

    async def judge(self) -> None:
        """One live attempt, or none because there is no node or no job any more; and no other slot is taken."""
        found, job = await check(self.world), await self.job()
        taken = [lease for cell in found.values() for lease in cell.leases]
        if job.state in LIVE_STATES:
            assert taken == [f"{job.node}:{self.job_id}:{job.attempt}"], taken
        else:
            assert taken == [], taken
            assert job.state in ENDS or not any(cell.nodes for cell in found.values()), job
        assert not any(event.kind in {"let_go", "guest_lost"} for cell in found.values() for event, _ in cell.outbox)

    async def end(self) -> None:
        """The job ends, and when its time is over nothing is left of it elsewhere."""
        await self._done()
        await self._cancel()
        await deliver_mail(self.world)
        await leave(self.world.engine, THERE, "far")
        await leave(self.world.engine, CELL, "near")
        await leave(self.world.engine, CELL, "new")
        self.world.now_ms += TIMEOUT_MS
        await sweep_all(self.world)
        for cell in (CELL, THERE):
            await forget_mail(self.world, cell)
        there = (await cells(self.world))[THERE]
        assert (there.guests, there.due, there.leases, there.limbo, there.jobs) == ({}, {}, [], {}, {})


def interleaved(most: int) -> list[str]:
    """Every order in which A and B make up to so many calls each. Who comes first is called A."""
    whole = {order for length in range(2 * most + 1) for order in permutations("A" * most + "B" * most, length)}
    return sorted("".join(order) for order in whole if order[:1] != ("B",))


def with_one(orders: list[str]) -> Iterator[list[str]]:
    for order in orders:
        for place in range(len(order) + 1):
            for misfortune in MISFORTUNES:
                yield [*order[:place], misfortune, *order[place:]]


def with_two(orders: list[str]) -> Iterator[list[str]]:
    for order in orders:
        for first, second in combinations(range(len(order) + 2), 2):
            for one, other in permutations(MISFORTUNES, 2):
                rest = iter(order)
                yield [
                    one if place == first else other if place == second else next(rest)
                    for place in range(len(order) + 2)
                ]


#: Two who ask and one misfortune; one who asks and two.
STORIES: Final = {
    "two who ask": [list(order) for order in interleaved(3)] + list(with_one(interleaved(3))),
    "one who asks": list(with_two(["A" * length for length in range(4)])),
}


@pytest.fixture
async def world(server: Server) -> AsyncIterator[World]:
    """A world in which what has ended is soon forgotten: thousands of stories are told in it."""
    world = World()
    rules = Rules(result_ttl_ms=2 * TIMEOUT_MS, job_record_ttl_ms=2 * TIMEOUT_MS, elsewhere_ms=200)
    await world.open(server.url, rules)
    yield world
    await world.check()
    await world.close()


@pytest.mark.parametrize("kind", STORIES)
async def test_whoever_dies_when_and_whatever_happens_one_attempt_is_live(world: World, kind: str) -> None:
    ends: set[tuple[str, str]] = set()
    for number, acts in enumerate(STORIES[kind]):
        story = Story(world, number)
        await story.begin()
        try:
            for act in acts:
                await story.act(act)
            await story.recover()
            await story.judge()
            job = await story.job()
            ends.add((job.state, job.cell))
            await story.end()
        except AssertionError as wrong:
            raise AssertionError(f"{acts}: {wrong}") from wrong
    assert ends >= {("ACCEPTED", ""), ("ACCEPTED", THERE), ("FINISHED", THERE), ("RETRYING", "")}
    assert ends >= {("CANCELLED", ""), ("EXPIRED", "")}
