"""fleet: a cell in numbers."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import astuple

from lingua_scheduler.core.ids import check_cell
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.views.counts import Counts, add_counts, read_counts
from lingua_scheduler.views.pools import Pool, merge_pools, pools_of, served_in
from lingua_scheduler.views.slots import NodeSlots, Slots, by_standing, slots_in, sum_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.store.engine import Engine


class Fleet(msgspec.Struct, frozen=True):
    """One cell or several in numbers, about at `now_ms`: read in pages, and each page is an instant of its own."""

    now_ms: int
    #: Every standing is named, and every node is in one of them.
    nodes_by_standing: dict[str, int]
    slots: Slots
    pools: list[Pool]
    #: Jobs that have a node, and jobs that wait for one: their first or another.
    in_flight: int
    waiting: int
    counts: Counts
    nodes: list[NodeSlots]


class _Jobs(Answer, frozen=True, tag="FLEET"):
    now_ms: int
    in_flight: int
    waiting: int


_FLEET: Final = Face("views/fleet", _Jobs)


async def read_fleet(engine: Engine, cell: str) -> Fleet | Refusal:
    """Count what is in a cell. It costs a look at every node and every pair, in pages; the jobs are not walked."""
    try:
        cell = check_cell(cell)
    except Invalid as invalid:
        return invalid.refusal
    jobs, counts, nodes, served = await asyncio.gather(
        _FLEET(engine, cell, pack(())), read_counts(engine, cell), slots_in(engine, cell), served_in(engine, cell)
    )
    if isinstance(counts, Refusal):
        return counts
    assert isinstance(jobs, _Jobs)  # noqa: S101 - it refuses nothing
    return Fleet(
        now_ms=jobs.now_ms,
        nodes_by_standing=by_standing(nodes),
        slots=sum_of(nodes),
        pools=pools_of(served, nodes),
        nodes=nodes,
        in_flight=jobs.in_flight,
        waiting=jobs.waiting,
        counts=counts,
    )


async def fleet_everywhere(engine: Engine, cells: Sequence[str]) -> Fleet | Refusal:
    """The same over several cells."""
    found = await asyncio.gather(*(read_fleet(engine, cell) for cell in cells))
    fleets = [fleet for fleet in found if isinstance(fleet, Fleet)]
    return next((fleet for fleet in found if isinstance(fleet, Refusal)), None) or functools.reduce(_together, fleets)


def _together(one: Fleet, other: Fleet) -> Fleet:
    standing = {name: number + other.nodes_by_standing[name] for name, number in one.nodes_by_standing.items()}
    slots = (mine + theirs for mine, theirs in zip(astuple(one.slots), astuple(other.slots), strict=True))
    return Fleet(
        now_ms=max(one.now_ms, other.now_ms),
        nodes_by_standing=standing,
        slots=Slots(*slots),
        pools=merge_pools([*one.pools, *other.pools]),
        nodes=one.nodes + other.nodes,
        in_flight=one.in_flight + other.in_flight,
        waiting=one.waiting + other.waiting,
        counts=add_counts(one.counts, other.counts),
    )
