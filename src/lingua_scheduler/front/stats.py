"""The fleet in numbers, for whoever looks: counted at most once a second, however many look."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.refusal import Refusal
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
    from lingua_scheduler.views.fleet import Fleet

_MAX_AGE_MS: Final = 1_000
#: Problems are for people: more than these nobody reads at once.
_MAX_PROBLEMS: Final = 20


class Stats:
    """Whoever comes while somebody counts waits for that count."""

    def __init__(self) -> None:
        self._last: StatsAnswer | None = None
        self._counting: asyncio.Task[StatsAnswer | Refusal] | None = None

    async def read(self, desk: Desk) -> StatsAnswer | Refusal:
        """The numbers, at most a second old."""
        if self._last is not None:
            age_ms = max(0, desk.clock() - self._last.generated_at_ms)
            if age_ms < _MAX_AGE_MS:
                return msgspec.structs.replace(self._last, age_ms=age_ms)
        if self._counting is None:
            self._counting = asyncio.create_task(self._count(desk))
            self._counting.add_done_callback(self._counted)
        return await asyncio.shield(self._counting)

    def _counted(self, task: asyncio.Task[StatsAnswer | Refusal]) -> None:
        self._counting = None
        if not task.cancelled() and task.exception() is None:
            answer = task.result()
            self._last = answer if isinstance(answer, StatsAnswer) else None

    async def _count(self, desk: Desk) -> StatsAnswer | Refusal:
        fleet = await fleet_everywhere(desk.engine, desk.directory.cells)
        if isinstance(fleet, Refusal):
            return fleet
        dead = await read_dead_letters(desk.engine, limit=1)
        if isinstance(dead, Refusal):
            return dead
        there = [seen.presence for seen in await see_instances(desk) if seen.presence is not None]
        problems = [*_problems(fleet, dead.total), *_problems_of_catalog(desk)][:_MAX_PROBLEMS]
        return StatsAnswer(
            generated_at_ms=desk.clock(),
            age_ms=0,
            health=FleetHealth(ok=not problems, problems=problems),
            nodes=fleet.nodes_by_standing,
            slots=SlotNumbers(total=fleet.slots.total, used=fleet.slots.used, free=fleet.slots.free),
            pools=[
                PoolNumbers(pair=pool.pair, nodes=pool.nodes, slots=pool.slots, free=pool.free, waiting=pool.waiting)
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
