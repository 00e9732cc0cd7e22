"""The directory of cells, as one instance knows it: which cells there are, and in which of them a node is at home.

What is remembered here is only a hint, and may be old. Whoever is told by a cell that it knows no such node asks the
directory itself before he believes it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.store.keys import DIRECTORY
from lingua_scheduler.views.home import HomeView, read_home
from lingua_scheduler.views.routes import read_routes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from lingua_scheduler.store.engine import Engine
    from lingua_scheduler.views.routes import Routes

    Begin = Callable[[str], Awaitable[object]]

T = TypeVar("T")

#: So many homes are remembered.
_MAX_HOMES: Final = 200_000


class Directory:
    """The cells and the homes. A fleet of one cell asks nobody."""

    def __init__(self, engine: Engine, first: str, begin: Begin | None = None) -> None:
        """`first` is the first cell of all. `begin` marks a cell as one of this release, before anybody is in it."""
        self.engine = engine
        #: The cell that every fleet has.
        self.first = first
        self._begin = begin
        self._begun = {first}
        self.cells: tuple[str, ...] = (first,)
        #: Whether there is only one cell, as far as is known. It is asked several times for each job.
        self.is_one = True
        self.version = 0
        self.reign = ""
        #: Its version went back, or another server has it: it is believed again when it was compared with all cells.
        self.has_lost = False
        #: Where nodes were last seen.
        self.homes: dict[str, str] = {}
        self._telling: set[asyncio.Task[None]] = set()
        #: How many nodes came in by this instance, by how, and how many were refused, by code.
        self.registrations: Counter[str] = Counter()
        #: Called for each cell that was not known before.
        self.on_growth: list[Callable[[], None]] = []

    async def read(self) -> None:
        """Which cells there are by now."""
        await self.learn(await read_routes(self.engine), self.engine.reign_of(DIRECTORY))

    async def learn(self, routes: Routes, reign: str) -> bool:
        """What the directory said; and whether it may have lost something, which the surveyor has not put right yet.

        One that was emptied has forgotten cells which are there all the same. Under another reign its version says
        nothing: what was forgotten may have been counted anew since.
        """
        if routes.version < self.version or (self.reign and reign not in {"", self.reign}):
            self.has_lost = True
        self.version, self.reign = routes.version, reign or self.reign
        await asyncio.gather(*(self._meet(cell) for cell, _ in routes.cells))
        return self.has_lost

    async def _meet(self, cell: str) -> None:
        """Somebody else has opened a cell. If nobody serves it now, whoever does next doubts its nodes first."""
        with contextlib.suppress(DependencyDown, OutcomeUnknown):
            await self.begin(cell)
        self._know((cell,))

    def _know(self, cells: Iterable[str]) -> None:
        known = {*self.cells, *cells}
        if len(known) > len(self.cells):
            self.cells, self.is_one = tuple(sorted(known, key=lambda cell: (len(cell), cell))), False
            for told in self.on_growth:
                told()

    async def begin(self, cell: str) -> None:
        """Before anything is asked of a cell that was not known here: it gets our shape, or has it."""
        if cell not in self._begun:
            if self._begin is not None:
                await self._begin(cell)
            self._begun.add(cell)
        self._know((cell,))

    def also(self, telling: Coroutine[Any, Any, object]) -> None:
        """Tell the directory something for which nobody waits. If it is away, the surveyor tells it."""
        task = asyncio.create_task(_quietly(telling))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    # Homes.

    async def at_home(self, node_id: str, ask: Callable[[str], Awaitable[T | Refusal]]) -> T | Refusal:
        """Ask the cell in which the node is; if that does not know it, the one that the directory names now."""
        cell = await self.home_of(node_id)
        answer = await ask(cell)
        if isinstance(answer, Refusal) and answer.code == "UNKNOWN_NODE":
            home = await self.find(node_id)
            if home != cell:
                answer = await ask(home)
        return answer

    async def home_of(self, node_id: str) -> str:
        """The cell in which a node was last seen; if nobody here has seen it, the directory is asked."""
        return self.homes.get(node_id) or (self.first if self.is_one else await self.find(node_id))

    async def find(self, node_id: str) -> str:
        """Where the directory has the node; the first cell, if it knows none of this name."""
        home = await read_home(self.engine, node_id)
        if not isinstance(home, HomeView):
            self.homes.pop(node_id, None)
            return self.first
        await self._meet(home.cell)
        self.know_home(node_id, home.cell)
        return home.cell

    def know_home(self, node_id: str, cell: str) -> None:
        """The node is in this cell."""
        if len(self.homes) >= _MAX_HOMES:
            self.homes.clear()
        self.homes[node_id] = cell
        self._know((cell,))

    def forget_home(self, node_id: str) -> None:
        """The node has left."""
        self.homes.pop(node_id, None)


async def _quietly(telling: Coroutine[Any, Any, object]) -> None:
    with contextlib.suppress(DependencyDown, OutcomeUnknown):
        await telling
