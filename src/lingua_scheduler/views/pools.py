"""pools: the pairs that a cell serves, the nodes of each, their slots, and who waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.ids import check_cell, check_text
from lingua_scheduler.core.language import UnknownLanguage
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.records import Record
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.views.slots import NodeSlots, by_standing, slots_in, sum_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingua_scheduler.store.engine import Engine


#: How a node stands that is given jobs, now or soon.
LIVING: Final = ("available", "full", "suspect", "suspect_full", "resting")


class Pool(msgspec.Struct, frozen=True):
    """One pair: how many nodes are in it, how they stand, their slots, and how many jobs wait. `src:*` is every target.

    `slots` are those of all its nodes that are not lost, `free` those that could be taken now. A node that is in
    several pools counts in each. `waiting` are the jobs that asked for just this pair; `src:*` has those from `src` to
    wherever. One that may fall back waits for the pair that it asked for. `suspects` are those of its living nodes that
    are under suspicion, also while they are tried with a job and stand as `available`.
    """

    pair: str
    nodes: int
    standing: dict[str, int]
    slots: int
    free: int
    waiting: int
    suspects: int = 0

    @property
    def living(self) -> int:
        """How many of its nodes are given jobs, now or when they have a slot: not those that are lost, or drain."""
        return sum(self.standing[name] for name in LIVING)


class Served(Record, frozen=True):
    """Which groups serve a pair, and how many jobs wait for it."""

    pair: str
    waiting: int
    groups: list[int]


class _Pools(Answer, frozen=True, tag="POOLS"):
    cursor: str
    pools: list[Served]


_POOLS: Final = Face("views/pools", _Pools)

PAIRS_PER_PAGE: Final = 100


async def read_pools(engine: Engine, cell: str, pair: str = "") -> list[Pool] | Refusal:
    """Look at one pair, or at all that the cell serves, a page at a time: the engine is never held up for long.

    Each page is one instant, the whole is not: what changes meanwhile may be seen in one number and not in another.
    """
    try:
        cell = check_cell(cell)
        name = str(Pair.parse(pair)) if check_text("pair", pair, 256) else ""
    except UnknownLanguage as unknown:
        return Refusal("INVALID_MESSAGE", f"pair: {unknown}")
    except Invalid as invalid:
        return invalid.refusal
    return pools_of(*await asyncio.gather(served_in(engine, cell, name), slots_in(engine, cell)))


async def pools_everywhere(engine: Engine, cells: Sequence[str], pair: str = "") -> list[Pool] | Refusal:
    """The same over several cells."""
    found: list[Pool] = []
    for pools in await asyncio.gather(*(read_pools(engine, cell, pair) for cell in cells)):
        if isinstance(pools, Refusal):
            return pools
        found += pools
    return merge_pools(found)


def merge_pools(pools: Iterable[Pool]) -> list[Pool]:
    """Pools of several cells, by name: a pair that some of them serve is one pool."""
    found: dict[str, Pool] = {}
    for pool in pools:
        found[pool.pair] = _together(found[pool.pair], pool) if pool.pair in found else pool
    return [found[name] for name in sorted(found)]


def _together(one: Pool, other: Pool) -> Pool:
    return Pool(
        one.pair,
        one.nodes + other.nodes,
        {name: number + other.standing[name] for name, number in one.standing.items()},
        one.slots + other.slots,
        one.free + other.free,
        one.waiting + other.waiting,
        one.suspects + other.suspects,
    )


async def served_in(engine: Engine, cell: str, pair: str = "") -> list[Served]:
    """Who serves one pair, or each that the cell serves, by name."""
    found: dict[str, Served] = {}
    cursor = "0"
    while True:
        answer = await _POOLS(engine, cell, pack((pair, cursor, PAIRS_PER_PAGE)))
        assert isinstance(answer, _Pools)  # noqa: S101 - it refuses nothing
        found.update((served.pair, served) for served in answer.pools)
        cursor = answer.cursor
        if cursor == "0":
            return [found[name] for name in sorted(found)]


def pools_of(served: Sequence[Served], nodes: Sequence[NodeSlots]) -> list[Pool]:
    """The pools of a cell, from who serves which pair and what slots the nodes have."""
    members: dict[int, list[NodeSlots]] = {}
    for node in nodes:
        members.setdefault(node.group, []).append(node)
    return [_pool(each, [node for group in each.groups for node in members.get(group, ())]) for each in served]


def _pool(served: Served, nodes: list[NodeSlots]) -> Pool:
    slots = sum_of(nodes)
    suspects = sum(node.is_doubted for node in nodes)
    return Pool(served.pair, len(nodes), by_standing(nodes), slots.total, slots.free, served.waiting, suspects)
