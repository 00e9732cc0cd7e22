"""Guests: a retry that finds no node at home has one in another cell. Who asks for it, and who says how that ended.

Why no step can be lost or done twice, whoever dies between two of them, is told in docs/adr/0011-cells.md.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.ids import cell_of
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.bring_back import bring_back
from lingua_scheduler.flows.host import Hosted, TurnedAway, host
from lingua_scheduler.flows.lodge import lodge
from lingua_scheduler.flows.send_out import SentOut, send_out
from lingua_scheduler.flows.unhost import unhost
from lingua_scheduler.logs import get_log
from lingua_scheduler.views.stranded import read_stranded

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.front.directory import Directory
    from lingua_scheduler.front.routes import RouteBook
    from lingua_scheduler.store.engine import Engine

#: So many cells are looked at with each look; of more, each is looked at less often, as a reaper does.
_AT_ONCE: Final = 4
#: For the same job another cell is asked again after so long, then after twice as long, and so on up to the most: room
#: for its pair need not be room for this job.
_AGAIN_S: Final = 0.2
_MOST_S: Final = 5.0

log = get_log(__name__)


class Guests:
    """Finds those who wait at home, and asks other cells for them. A fleet of one cell has nobody to ask."""

    def __init__(self, directory: Directory, routes: RouteBook) -> None:
        self._engine = directory.engine
        self._directory = directory
        self._routes = routes
        self._next = 0
        #: By cell, where its next page begins.
        self._cursors: dict[str, str] = {}
        #: By job, when another cell may be asked for it again, and how long it is until then.
        self._asked: dict[str, tuple[float, float]] = {}
        #: Told of which job something must be in the outbox.
        self.has_news: Callable[[str], None] = _nothing

    async def look(self) -> None:
        """Look at the next cells: who waits there, and could go elsewhere."""
        if self._directory.is_one:
            return
        now, cells = monotonic(), self._directory.cells
        self._asked = {job_id: asked for job_id, asked in self._asked.items() if now < asked[0] + _MOST_S}
        for _ in range(min(_AT_ONCE, len(cells))):
            self._next = (self._next + 1) % len(cells)
            await self._look_at(cells[self._next])

    async def _look_at(self, cell: str) -> None:
        page = await read_stranded(self._engine, cell, self._cursors.get(cell, ""))
        if isinstance(page, Refusal):
            log.error("guests", cell=cell, reason=page.code, detail="it cannot be looked at")
            return
        self._cursors[cell] = page.cursor
        for job_id, name in page.jobs:
            await self._try_again(job_id, Pair.parse(name))

    async def _try_again(self, job_id: str, pair: Pair) -> None:
        """One that waits at home: if another cell came to have room for its pair, it is asked, each time later."""
        asked = self._asked.get(job_id, (0.0, _AGAIN_S / 2))
        if monotonic() < asked[0]:
            return
        await self._routes.look_at(pair)
        if self._routes.with_room(pair, but=cell_of(job_id)) is not None:
            wait_s = min(2 * asked[1], _MOST_S)
            self._asked[job_id] = monotonic() + wait_s, wait_s
            await self._find(job_id, pair, 0)

    async def seek(self, event: Event) -> None:
        """A job has just lost its node, and there is no other at home: that one need not wait for the next look."""
        await self._find(event.job, Pair.parse(event.detail), event.attempt)

    async def _find(self, job_id: str, pair: Pair, attempt: int) -> None:
        """Ask one cell after the other, by the directory as it was seen, and then by the directory as it is.

        If none of them has a node for it, or there are none, it goes back to one that had it, and does not wait for it
        until its hope ends. `attempt` is its last; 0: it hopes for nothing until somebody asks.
        """
        asked = {cell_of(job_id)}
        for ways in (self._routes.ways, self._routes.ways_now):
            cells = [cell for cell in (await ways(pair)).own if cell not in asked]
            asked.update(cells)
            for cell in await self._routes.with_room_now(pair, cells):
                turned_away = await self._ask(job_id, cell)
                if turned_away is None:
                    return
                attempt = turned_away
        if attempt:
            await bring_back(self._engine, job_id, attempt)
            self.has_news(job_id)

    async def _ask(self, job_id: str, cell: str) -> int | None:
        """The three steps; and for which attempt this cell has nobody. None: it is not to be asked for any more.

        If one is not made, the home's due-list undoes those before it.
        """
        sent = await send_out(self._engine, job_id, cell)
        if not isinstance(sent, SentOut):
            return None
        asked = (sent.attempt_id, sent.deadline_at_ms, sent.seed, sent.had, sent.ticket)
        try:
            there = await host(self._engine, cell, job_id, *asked)
        except DependencyDown:
            # Nothing was done there, and nobody else need wait for that cell.
            self._routes.down(cell)
            there = TurnedAway()
        if isinstance(there, Hosted):
            node = (there.node_id, there.epoch, there.acks, there.chosen, there.reasons)
            await lodge(self._engine, job_id, sent.attempt_id, *node)
            self.has_news(job_id)
        elif isinstance(there, TurnedAway):
            await bring_back(self._engine, job_id, sent.attempt_id, asks_on=True)
            return sent.attempt_id
        return None


async def tell_other_cell(engine: Engine, event: Event) -> None:
    """Do in another cell what follows there from what happened in this one; twice is as good as once."""
    if event.kind == "let_go":
        cell, how, deadline = event.detail.split(" ")
        told: object = await unhost(engine, cell, event.job, event.attempt, event.node, how, int(deadline))
    else:
        told = await bring_back(engine, event.job, event.attempt, *event.detail.split(" "))
    if isinstance(told, Refusal):
        log.error("guests", kind=event.kind, job_id=event.job, reason=told.code, detail="nobody can be told")


def _nothing(_: str) -> None:
    pass
