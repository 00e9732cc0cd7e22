"""The fleet in numbers, for whoever looks: made in the background, served from memory, however many look."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.history import Point
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.chart import chart
from lingua_scheduler.front.instances import see_instances
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
    from collections.abc import Iterator

    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.views.counts import Counts
    from lingua_scheduler.views.fleet import Fleet

#: Whoever does not want to wait for the next one may have one made, all of them together so often.
FORCED_S: Final = 30.0
#: When so many could not be made, whoever looks is told that he sees the past.
_STALE: Final = 3
#: Problems are for people: more than these nobody reads at once.
_MAX_PROBLEMS: Final = 20
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
        self._making: asyncio.Task[StatsAnswer | Refusal] | None = None
        self._forced_at = float("-inf")

    def age_ms(self, desk: Desk) -> int | None:
        """How old the last good one is; None: there is none."""
        return None if self.last is None else max(0, desk.clock() - self.last.generated_at_ms)

    async def read(self, desk: Desk, *, fresh: bool = False) -> StatsAnswer | Refusal:
        """The last good one, as old as it is; the first of all is made now, and with `fresh` seldom another."""
        now = asyncio.get_running_loop().time()
        if self.last is None or (fresh and now - self._forced_at >= FORCED_S):
            self._forced_at = now
            made = await self.make(desk)
            if self.last is None or isinstance(made, StatsAnswer):
                return made
        age_ms = self.age_ms(desk) or 0
        health = self.last.health
        if age_ms > _STALE * desk.settings.loops.snapshot_interval_ms:
            old = f"nobody could look at the fleet for {age_ms // 1000} s: what is shown is how it was then"
            health = FleetHealth(ok=False, problems=[old, *health.problems][:_MAX_PROBLEMS])
        return msgspec.structs.replace(self.last, age_ms=age_ms, health=health)

    async def make(self, desk: Desk) -> StatsAnswer | Refusal:
        """Look at the fleet, keep what was seen, and note it for the curves of the last hour."""
        if self._making is None:
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
        self.fleet, self.counts, self.dead_letters = fleet, fleet.counts, dead.total
        problems = [*_problems(fleet, dead.total), *_problems_of_catalog(desk)][:_MAX_PROBLEMS]
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
            dispatch_ms=desk.delivery.durations.percentiles(),
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


def _problems_of_catalog(desk: Desk) -> Iterator[str]:
    if desk.catalog.is_stale:
        yield f"the service catalog could not be refreshed {desk.catalog.failures} times: see /api/v1/catalog"


def _problems(fleet: Fleet, dead_letters: int) -> Iterator[str]:
    """What somebody should look at, in words."""
    if dead_letters:
        yield f"{dead_letters} dead letter{'s' if dead_letters > 1 else ''}: see /v1/dlq"
    standing = fleet.nodes_by_standing
    if not sum(standing.values()):
        yield "no node has registered"
    for name, what in (("lost", "lost"), ("stale", "silent"), ("suspect", "under suspicion")):
        if number := standing.get(name, 0):
            yield f"{number} of {sum(standing.values())} nodes {'is' if number == 1 else 'are'} {what}"
    for pool in fleet.pools:
        if pool.waiting:
            yield f"{pool.waiting} wait for {pool.pair}"
