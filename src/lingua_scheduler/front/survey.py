"""Is the directory right? A part of it at a time is compared with the cells. And each cell hears of the others.

Nothing here is in a hurry: who registers, leaves or changes tells the directory at once. This finds what nobody told:
homes of nodes that never came, or are forgotten; nodes and pairs that the directory has lost; pairs that nobody serves
any more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.enter_homes import enter_homes
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.overhear import overhear
from lingua_scheduler.flows.route import route
from lingua_scheduler.flows.unroute import unroute
from lingua_scheduler.front.nodes.housing import give_up
from lingua_scheduler.logs import get_log
from lingua_scheduler.views.home import HomeView, read_home
from lingua_scheduler.views.homes import Homes, read_homes
from lingua_scheduler.views.node import Node, read_node
from lingua_scheduler.views.pools import served_in
from lingua_scheduler.views.routes import RoutedPairs, read_routed
from lingua_scheduler.views.silence import Silence, read_silence
from lingua_scheduler.views.slots import slots_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.front.directory import Directory

#: So many nodes or pairs the directory is told of in one call.
_PORTION: Final = 200
#: Whoever was sent to a cell so recently may still be on his way.
_ON_WAY_MS: Final = 60_000

log = get_log(__name__)


class Survey:
    """One cell and one page of homes with each step; then the next ones."""

    def __init__(self, directory: Directory, clock: Callable[[], int]) -> None:
        self._directory = directory
        self._engine = directory.engine
        self._clock = clock
        self._cell = 0
        self._cursor = "0"

    async def step(self) -> None:
        """Compare the next part."""
        await self._directory.read()
        if self._directory.has_lost:
            log.warning("survey", detail="the directory may have lost something; it is compared with all cells")
            reign = self._directory.reign
            for cell in self._directory.cells:
                await self._compare(cell)
            self._directory.has_lost = self._directory.reign != reign
        cells = self._directory.cells
        self._cell = (self._cell + 1) % len(cells)
        await self._compare(cells[self._cell])
        await self._compare_homes()
        if not self._directory.is_one:
            await self.tell_of_silence()

    async def tell_of_silence(self) -> None:
        """Each cell hears who is silent in all others. What nobody serves just now is not heard of."""
        cells = self._directory.cells
        looks = await asyncio.gather(*(read_silence(self._engine, cell) for cell in cells), return_exceptions=True)
        known = {cell: look for cell, look in zip(cells, looks, strict=True) if isinstance(look, Silence)}
        silent = sum(look.silent for look in known.values())
        heard = sum(look.heard for look in known.values())
        await asyncio.gather(
            *(overhear(self._engine, cell, silent - look.silent, heard - look.heard) for cell, look in known.items())
        )

    async def _compare(self, cell: str) -> None:
        await self.compare_routes(cell)
        await self.compare_nodes(cell)

    async def compare_routes(self, cell: str) -> None:
        """What the cell serves, and what the directory says that it does. The latter is read first: see `unroute`."""
        routed: set[str] = set()
        cursor, seen = "0", -1
        while seen < 0 or cursor != "0":
            page = await read_routed(self._engine, cell, cursor)
            assert isinstance(page, RoutedPairs)  # noqa: S101 - the cell's name is right
            routed.update(page.pairs)
            # The first of all: whoever comes while the others are read has come since.
            cursor, seen = page.cursor, page.seen if seen < 0 else seen
        served = {one.pair for one in await served_in(self._engine, cell)}
        if missing := sorted(served - routed):
            log.warning("route", cell=cell, number=len(missing), detail="pairs that the directory did not know")
            await route(self._engine, cell, missing)
        gone = sorted(routed - served)
        for first in range(0, len(gone), _PORTION):
            await unroute(self._engine, cell, seen, gone[first : first + _PORTION])

    async def compare_nodes(self, cell: str) -> None:
        """Every node of a cell is at home there."""
        nodes = [node.node_id for node in await slots_in(self._engine, cell)]
        for first in range(0, len(nodes), _PORTION):
            entered = await enter_homes(self._engine, cell, nodes[first : first + _PORTION])
            if isinstance(entered, Refusal):
                continue
            if entered.number:
                log.warning("enter_homes", cell=cell, number=entered.number, detail="the directory did not know them")
            for node_id in entered.elsewhere:
                await self._be_in_one(cell, node_id)

    async def _be_in_one(self, cell: str, node_id: str) -> None:
        """A node was seen in a cell that is not its home: the directory had lost that, and it was given another."""
        home = await read_home(self._engine, node_id)
        if not isinstance(home, HomeView) or home.cell == cell or self._is_on_way(home.stamp):
            return
        here, there = await asyncio.gather(*(read_node(self._engine, one, node_id) for one in (cell, home.cell)))
        if isinstance(here, Node) and isinstance(there, Node):
            log.error("leave", node_id=node_id, cell=cell, reason=f"it was in cell {home.cell} as well")
            await leave(self._engine, cell, node_id, here.record.epoch)
        elif isinstance(here, Node):
            await give_up(self._engine, node_id, home.cell, home.stamp)
            await enter_homes(self._engine, cell, [node_id])

    async def _compare_homes(self) -> None:
        """A page of homes: those in which nobody is are given up."""
        page = await read_homes(self._engine, self._cursor)
        assert isinstance(page, Homes)  # noqa: S101 - the cursor is theirs
        self._cursor = page.cursor
        old = [(node_id, home) for node_id, home in page.homes if not self._is_on_way(home.stamp)]
        given_up = await asyncio.gather(
            *(give_up(self._engine, node_id, home.cell, home.stamp) for node_id, home in old)
        )
        if number := sum(given_up):
            log.info("forget_home", number=number, reason="nobody was there")

    def _is_on_way(self, stamp: int) -> bool:
        return self._clock() - stamp < _ON_WAY_MS
