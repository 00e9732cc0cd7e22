"""fleet: a cell in numbers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.ids import check_cell
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.views.counts import Counts, read_counts
from lingua_scheduler.views.pools import Pool, pools_of, served_in
from lingua_scheduler.views.slots import Slots, by_standing, slots_in, sum_of

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Fleet(msgspec.Struct, frozen=True):
    """A cell in numbers, about at `now_ms`: large ones are read in pages, and each page is an instant of its own."""

    now_ms: int
    #: Every standing is named, and every node is in one of them.
    nodes_by_standing: dict[str, int]
    slots: Slots
    pools: list[Pool]
    #: Jobs that have a node, and jobs that wait for one: their first or another.
    in_flight: int
    waiting: int
    counts: Counts


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
        in_flight=jobs.in_flight,
        waiting=jobs.waiting,
        counts=counts,
    )
