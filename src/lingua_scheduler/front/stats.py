"""The fleet in numbers, for whoever looks: made in the background, served from memory, however many look."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.history import Point
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.chart import chart
from lingua_scheduler.front.durations import percentiles
from lingua_scheduler.front.instances import see_instances
from lingua_scheduler.front.problems import MAX_PROBLEMS, problems_now, problems_of
from lingua_scheduler.protocol.fleet import (
    FleetHealth,
    JobNumbers,
    PoolNumbers,
    SlotNumbers,
    StatsAnswer,
)
from lingua_scheduler.views.dead_letters import read_dead_letters
from lingua_scheduler.views.fleet import fleet_everywhere

if TYPE_CHECKING:
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.views.counts import Counts
    from lingua_scheduler.views.fleet import Fleet

#: Whoever does not want to wait for the next one may have one made, all of them together so often.
FORCED_S: Final = 30.0
_READY: Final = ("available", "full")


class Stats:
    """The last good snapshot. Whoever needs one while it is being made waits for that."""

    def __init__(self) -> None:
        #: The last good snapshot, and what it was made of.
        self.last: StatsAnswer | None = None
        self.counts: Counts | None = None
        self.fleet: Fleet | None = None
        self.dead_letters: int | None = None
        #: In the inbox of this instance.
        self.letters: int | None = None
        #: In the fullest of all.
        self.fullest: int | None = None
        self._making: asyncio.Task[StatsAnswer | Refusal] | None = None
        self._forced_at = float("-inf")

    def age_ms(self, desk: Desk) -> int | None:
        """How old the last good one is; None: there is none."""
        return None if self.last is None else max(0, desk.clock() - self.last.generated_at_ms)

    @property
    def is_making(self) -> bool:
        """Whether somebody looks just now: what he finds may be how it was a moment ago."""
        return self._making is not None

    async def read(self, desk: Desk, *, fresh: bool = False) -> StatsAnswer | Refusal:
        """The last good one, as old as it is; the first of all is made now, and with `fresh` seldom another."""
        now = asyncio.get_running_loop().time()
        if self.last is None or (fresh and now - self._forced_at >= FORCED_S):
            self._forced_at = now
            made = await self.make(desk)
            if self.last is None or isinstance(made, StatsAnswer):
                return made
        return self.now(desk) or self.last

    def now(self, desk: Desk) -> StatsAnswer | None:
        """The last good one, how old it is, and what is wrong that it cannot know; None: there is none."""
        if self.last is None:
            return None
        age_ms, problems = self.age_ms(desk) or 0, self.last.health.problems
        if newer := list(problems_now(desk, age_ms)):
            problems = [*newer, *problems][:MAX_PROBLEMS]
        return msgspec.structs.replace(self.last, age_ms=age_ms, health=FleetHealth(ok=not problems, problems=problems))

    async def make(self, desk: Desk) -> StatsAnswer | Refusal:
        """Look at the fleet, keep what was seen, and note it for the curves of the last hour.

        Whoever comes while somebody looks waits for that, and leaves the rest to him.
        """
        if self._making is not None:
            return await asyncio.shield(self._making)
        self._making = asyncio.create_task(self._count(desk))
        self._making.add_done_callback(self._made)
        made = await asyncio.shield(self._making)
        if isinstance(made, StatsAnswer):
            await chart(desk.engine, _point(made))
        if self.fleet is not None:
            await desk.changes.see(self.fleet)
        return made

    def _made(self, task: asyncio.Task[StatsAnswer | Refusal]) -> None:
        self._making = None
        if not task.cancelled() and task.exception() is None:
            answer = task.result()
            if isinstance(answer, StatsAnswer):
                self.last = answer

    async def _count(self, desk: Desk) -> StatsAnswer | Refusal:
        fleet = await fleet_everywhere(desk.engine, desk.directory.cells)
        if isinstance(fleet, Refusal):
            return fleet
        dead = await read_dead_letters(desk.engine, limit=1)
        if isinstance(dead, Refusal):
            return dead
        everybody = await see_instances(desk)
        there = [seen.presence for seen in everybody if seen.presence is not None]
        self.letters = next((seen.letters for seen in everybody if seen.instance_id == desk.instance_id), 0)
        self.fullest = max((seen.letters for seen in everybody), default=0)
        self.fleet, self.counts, self.dead_letters = fleet, fleet.counts, dead.total
        problems = list(problems_of(desk, fleet, dead.total))[:MAX_PROBLEMS]
        return StatsAnswer(
            generated_at_ms=desk.clock(),
            age_ms=0,
            health=FleetHealth(ok=not problems, problems=problems),
            nodes=fleet.nodes_by_standing,
            slots=SlotNumbers(total=fleet.slots.total, used=fleet.slots.used, free=fleet.slots.free),
            pools=[
                PoolNumbers(
                    pair=pool.pair,
                    nodes=pool.nodes,
                    living=pool.living,
                    slots=pool.slots,
                    free=pool.free,
                    waiting=pool.waiting,
                )
                for pool in fleet.pools
            ],
            jobs=JobNumbers(
                in_flight=fleet.in_flight,
                waiting=fleet.waiting,
                finished_total=fleet.counts.ended["FINISHED"],
                failed_total=fleet.counts.ended["FAILED"] + fleet.counts.ended["EXPIRED"],
            ),
            sessions=sum(presence.sessions for presence in there),
            instances=len(there),
            dispatch_ms=percentiles([presence.dispatches for presence in there]),
        )


def _point(stats: StatsAnswer) -> Point:
    return Point(
        ready_nodes=sum(stats.nodes.get(standing, 0) for standing in _READY),
        free_slots=stats.slots.free,
        in_flight=stats.jobs.in_flight,
        waiting=stats.jobs.waiting,
        finished_total=stats.jobs.finished_total,
        failed_total=stats.jobs.failed_total,
        dispatch_us=round(1_000 * (stats.dispatch_ms.p95 or 0)),
    )
