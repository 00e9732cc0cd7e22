"""pools: the pairs that a cell serves, and how the nodes of each stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.ids import check_cell, check_text
from lingua_scheduler.core.language import UnknownLanguage
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Pool(msgspec.Struct, frozen=True):
    """One pair: how many nodes are in it, and how they stand. `src:*` is every target."""

    pair: str
    nodes: int
    standing: dict[str, int]


class _Pools(Answer, frozen=True, tag="POOLS"):
    cursor: str
    pools: list[tuple[str, list[int]]]


_POOLS: Final = Face("views/pools", _Pools)

PAIRS_PER_PAGE: Final = 100


async def read_pools(engine: Engine, cell: str, pair: str = "") -> list[Pool] | Refusal:
    """Look at one pair, or at all that the cell serves, a page at a time: the engine is never held up for long."""
    try:
        cell = check_cell(cell)
        name = str(Pair.parse(pair)) if check_text("pair", pair, 256) else ""
    except UnknownLanguage as unknown:
        return Refusal("INVALID_MESSAGE", f"pair: {unknown}")
    except Invalid as invalid:
        return invalid.refusal
    found: dict[str, list[int]] = {}
    cursor = "0"
    while True:
        answer = await _POOLS(engine, cell, pack((name, cursor, PAIRS_PER_PAGE)))
        assert isinstance(answer, _Pools)  # noqa: S101 - it refuses nothing
        found.update(answer.pools)
        cursor = answer.cursor
        if cursor == "0":
            break
    return [
        Pool(name, sum(numbers), {standing.name: numbers[standing] for standing in Standing})
        for name, numbers in sorted(found.items())
    ]
