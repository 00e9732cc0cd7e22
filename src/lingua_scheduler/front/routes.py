"""Which cells are asked for a job, and in which order: at random, weighted by how many nodes have room there.

All of it is a hint but one: `cells_now` reads the directory, and before a job is refused all of those have refused it.
"""

from __future__ import annotations

import asyncio
import random
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.language import UnknownLanguage
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.store.keys import DIRECTORY
from lingua_scheduler.views.room import read_room
from lingua_scheduler.views.routes import read_routes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingua_scheduler.core.wanted import Hints
    from lingua_scheduler.front.ask import Ask
    from lingua_scheduler.front.directory import Directory

#: So many pairs are remembered, with the cells that serve them.
_MAX_PAIRS: Final = 10_000
#: The room for a pair is looked at as long as somebody asked for the pair so lately, for so many of them.
_LATELY_S: Final = 10.0
_MAX_LOOKED_AT: Final = 64
#: For somebody who waits it is looked at so often.
_FRESH_S: Final = 0.1


class Ways(msgspec.Struct, frozen=True):
    """The cells that serve a pair, and those that serve its fallback."""

    own: list[str]
    spare: list[str]

    @property
    def cells(self) -> list[str]:
        """Those to be asked: those of the fallback only where nobody serves the pair."""
        return self.own or self.spare


class RouteBook:
    """The ways of one instance. A fleet of one cell has one way, and nobody looks anything up."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        #: By pair: of which version of the directory they are, and the ways.
        self._known: dict[str, tuple[int, Ways]] = {}
        #: By pair and cell, how many nodes had room; and when somebody last asked for the pair.
        self._room: dict[tuple[str, str], int] = {}
        self._asked: dict[str, float] = {}
        #: When that was last looked at for somebody who waits.
        self._looked: dict[str, float] = {}
        #: When a cell could last not be asked. It comes after all others, until it has answered or that is long ago.
        self._down: dict[str, float] = {}
        #: When it last answered whoever looked at it.
        self._heard: dict[str, float] = {}

    @property
    def is_one(self) -> bool:
        """Whether there is only one cell, as far as is known."""
        return self._directory.is_one

    async def home_now(self, node_id: str) -> str:
        """The cell in which a node is, as the directory has it."""
        return await self._directory.find(node_id)

    def begin_at(self, src_lang: str, tgt_lang: str) -> str:
        """In which cell a job is to be tried first, as far as that is known without asking anybody."""
        pair = None if self._directory.is_one else _pair_of(src_lang, tgt_lang)
        known = self._known.get(str(pair)) if pair is not None else None
        if known is None or not known[1].cells:
            return self._directory.first
        return self._shuffled(str(pair), known[1].cells)[0]

    async def ways(self, pair: Pair) -> Ways:
        """The cells for a pair, as the directory was last seen."""
        if self._directory.is_one:
            return Ways([self._directory.first], [])
        known = self._known.get(str(pair))
        if known is None or known[0] != self._directory.version:
            return await self.ways_now(pair)
        return known[1]

    async def ways_now(self, pair: Pair) -> Ways:
        """The cells for a pair, as the directory is. What one that has lost something says is believed of no cell."""
        names, fallback = [*_names(pair)], pair.fallback()
        names += _names(fallback) if fallback is not None else ()
        routes = await read_routes(self._directory.engine, names)
        has_lost = await self._directory.learn(routes, self._directory.engine.reign_of(DIRECTORY))
        if self._directory.is_one:
            return Ways([self._directory.first], [])
        if has_lost:
            return Ways(list(self._directory.cells), [])
        found = Ways(_union(routes.routes[:2]), _union(routes.routes[2:]))
        if len(self._known) >= _MAX_PAIRS:
            self._known.clear()
        self._known[str(pair)] = routes.version, found
        return found

    async def ordered(self, pair: Pair, cells: Iterable[str], first: Sequence[str] = ()) -> list[str]:
        """These cells, in the order in which they are asked; `first` are asked first, if they are there."""
        cells = list(cells)
        if len(cells) > 1:
            self._asked[str(pair)] = monotonic()
            if not any((str(pair), cell) in self._room for cell in cells):
                await self._look(cells, [str(pair)])
        begin = [cell for cell in dict.fromkeys(first) if cell in cells and not self._is_down(cell)]
        return begin + self._shuffled(str(pair), [cell for cell in cells if cell not in begin])

    async def homes_of(self, ask: Ask, hints: Hints) -> list[str]:
        """The cells of the nodes that the job wishes for, in the order of its wishes."""
        if self._directory.is_one:
            return []
        wished = [hints.bound_node_id, ask.wanted.preferred_node_id]
        if ask.wanted.policy == "sticky_pool":
            wished.append(hints.last_node_id)
        return [await self._directory.home_of(node_id) for node_id in wished if node_id]

    async def is_live(self, pair: Pair, cells: Sequence[str]) -> bool:
        """Whether anybody in these cells is alive who serves the pair."""
        found = await asyncio.gather(*(read_room(self._directory.engine, cell, [str(pair)]) for cell in cells))
        return any(not isinstance(room, Refusal) and room.live[0] for room in found)

    def refused(self, pair: Pair, cell: str) -> None:
        """A cell had no room for the pair."""
        self._room[str(pair), cell] = 0

    def down(self, cell: str) -> None:
        """A cell could not be asked."""
        self._down[cell] = monotonic()

    async def answers(self, pair: Pair, cell: str) -> bool:
        """Whether a cell can be asked, as was seen a moment ago, or is seen now."""
        if not self._is_down(cell) and monotonic() - self._heard.get(cell, 0.0) >= _FRESH_S:
            await self._look([cell], [str(pair)])
        return not self._is_down(cell)

    def _is_down(self, cell: str) -> bool:
        return self._down.get(cell, 0.0) > monotonic() - _LATELY_S

    def with_room(self, pair: Pair, but: str) -> str | None:
        """Another cell that had room for the pair when it was last looked at."""
        known = self._known.get(str(pair))
        others = [cell for cell in (known[1].own if known else ()) if cell != but and not self._is_down(cell)]
        cells = [cell for cell in others if self._room.get((str(pair), cell))]
        return self._shuffled(str(pair), cells)[0] if cells else None

    async def with_room_now(self, pair: Pair, cells: Iterable[str]) -> list[str]:
        """Those of these cells that have room for the pair at this moment, in the order in which they are asked.

        What was seen a moment ago, or what others were told since, does not count: a cell may have no room for one job,
        and room for the next.
        """
        name = str(pair)
        found = await self._look([cell for cell in cells if not self._is_down(cell)], [name])
        return self._shuffled(name, [cell for (_, cell), number in found.items() if number])

    async def look_at(self, pair: Pair) -> None:
        """Look how much room there is for a pair for which somebody waits, unless somebody did so just now."""
        now, name = monotonic(), str(pair)
        self._asked[name] = now
        if now - self._looked.get(name, 0.0) >= _FRESH_S:
            self._looked[name] = now
            await self._look((await self.ways(pair)).own, [name])

    async def look(self) -> None:
        """Look how much room there is for the pairs that somebody asked for lately. A cell may be away."""
        if self._directory.is_one:
            return
        since = monotonic() - _LATELY_S
        self._asked = {pair: at for pair, at in self._asked.items() if at > since}
        self._looked = {pair: at for pair, at in self._looked.items() if at > since}
        self._room = {key: number for key, number in self._room.items() if key[0] in self._asked}
        lately = sorted(self._asked, key=self._asked.__getitem__)[-_MAX_LOOKED_AT:]
        by_cell: dict[str, list[str]] = {}
        for pair in lately:
            for cell in self._known[pair][1].cells if pair in self._known else ():
                by_cell.setdefault(cell, []).append(pair)
        await asyncio.gather(*(self._look([cell], pairs) for cell, pairs in by_cell.items()))

    async def _look(self, cells: Iterable[str], pairs: Sequence[str]) -> dict[tuple[str, str], int]:
        """How much room there is now for each of these pairs in each of these cells, as far as they could be asked."""
        found: dict[tuple[str, str], int] = {}

        async def look_at(cell: str) -> None:
            try:
                room = await read_room(self._directory.engine, cell, pairs)
            except DependencyDown:
                self.down(cell)
                return
            self._down.pop(cell, None)
            self._heard[cell] = monotonic()
            if not isinstance(room, Refusal):
                told = {(pair, cell): number for pair, number in zip(pairs, room.numbers, strict=True)}
                found.update(told)
                self._room |= told

        await asyncio.gather(*(look_at(cell) for cell in cells))
        return found

    def _shuffled(self, pair: str, cells: list[str]) -> list[str]:
        """At random, weighted by room: a key of each is drawn so that the order is as if they were drawn in turn."""
        if len(cells) < 2:  # noqa: PLR2004 - there is only one order
            return cells

        def key(cell: str) -> float:
            if self._is_down(cell):
                return random.random() - 2
            room = self._room.get((pair, cell), 1)
            return random.random() ** (1 / room) if room > 0 else random.random() - 1

        return sorted(cells, key=key, reverse=True)


def _names(pair: Pair) -> tuple[str, str]:
    return str(pair), f"{pair.src}:*"


def _union(lists: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(cell for cells in lists for cell in cells))


def _pair_of(src_lang: str, tgt_lang: str) -> Pair | None:
    """The pair, if there is such a one; if not, whoever dispatches says so."""
    try:
        return Pair.of(src_lang, tgt_lang)
    except (UnknownLanguage, TypeError, AttributeError):
        return None
