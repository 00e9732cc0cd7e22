"""Seeking a cell that takes a job: one after the other, until one does; refused is only what all of them refused.

A job that nobody but its caller can know is simply made elsewhere, under another id. One that others may know by its id
(a request stands for it, or a session does) is first withdrawn where it was refused, so that nobody makes it there any
more, and whoever comes there later is sent on: see `flows/withdraw`. So it exists at most once, whoever dies between
the steps, and however many send the same. If the cell in which such a job is tried is away, it is tried nowhere else:
somebody who sent the same may reach that cell, or have made the job there before. So it does not go to a cell that does
not answer, and waits where it can.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.ids import cell_of, in_cell
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.refusal import Breakdown, Refusal, refuse
from lingua_scheduler.core.wanted import NO_HINTS
from lingua_scheduler.flows.dispatch import Placed, Waiting, dispatch
from lingua_scheduler.flows.withdraw import Stays, Withdrawn, withdraw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.core.wanted import Hints
    from lingua_scheduler.front.ask import Ask, Tags
    from lingua_scheduler.front.routes import RouteBook, Ways
    from lingua_scheduler.store.engine import Engine
    from lingua_scheduler.store.following import GoneOn

    Answer = Placed | Waiting | Refusal

#: What is said of a fleet that cannot do a job, whoever is free.
FINAL: Final = ("NO_CAPABLE_NODE", "PREFERRED_NODE_NOT_CAPABLE")
_FULL: Final = "ALL_CANDIDATES_FULL_OR_FAILED"
_NOBODY: Final = "no node of any cell serves it"
#: Of a cell that could not take a job: for these reasons it can still be told that the job goes on.
_TELLABLE: Final = ("BEHIND", "OOM")
#: So often a job is followed that others send on meanwhile.
_MOST_FOLLOWED: Final = 100


class Way:
    """Where a job is by now, and how often it has gone on. `is_known`: others may know it by its id."""

    __slots__ = ("has_asked_all", "hop", "is_in_doubt", "is_known", "job_id")

    def __init__(self, job_id: str, *, is_known: bool) -> None:
        self.job_id = job_id
        self.hop = 0
        self.is_known = is_known
        #: All cells of the pair were asked, by the directory as it is.
        self.has_asked_all = False
        #: It may be made where it is: somebody tried, and does not know how it went.
        self.is_in_doubt = False

    @property
    def cell(self) -> str:
        """Where it is tried."""
        return cell_of(self.job_id)

    def go(self, cell: str, hop: int) -> None:
        """It is tried there from now on."""
        self.job_id, self.hop = in_cell(self.job_id, cell), hop


class Seeker:
    """Tries cells."""

    def __init__(self, engine: Engine, routes: RouteBook, keep_ms: int) -> None:
        """`keep_ms`: so much longer than its own time it is known where a job went."""
        self._engine = engine
        self.routes = routes
        self._keep_ms = keep_ms

    async def seek(self, way: Way, ask: Ask, tags: Tags, hints: Hints) -> Answer:
        """Place the job in one of the cells of its pair; or let it wait in one of them; or say why none takes it."""
        first: GoneOn | Refusal | DependencyDown | None = None
        if self.routes.is_one:
            # Mostly there is one cell, and it has room: then nothing has to be kept in mind.
            try:
                answer = await self.dispatch(way, ask, tags, hints, ask.wanted.wait_ms)
                if isinstance(answer, Placed | Waiting):
                    return answer
                first = answer
            except DependencyDown as down:
                first = down
        seeking = _Pass(self, way, ask, tags, hints)
        placed = None if first is None else await seeking.after(first, ask.wanted.wait_ms)
        if placed is not None:
            return placed
        try:
            pair = Pair.of(ask.src_lang, ask.tgt_lang)
        except (ValueError, TypeError, AttributeError):
            # Whatever is wrong with it, the flow says it best.
            return await seeking.at(way.cell, 0) or seeking.refusal()
        return await seeking.go(pair)

    async def seek_on(self, way: Way, ask: Ask, tags: Tags, hints: Hints) -> Answer | None:
        """A job begins to wait in the only cell that was asked. By now there may be others. None: it stays."""
        if way.has_asked_all:
            return None
        pair = Pair.of(ask.src_lang, ask.tgt_lang)
        return await _Pass(self, way, ask, tags, hints).go_on(pair, await self.routes.ways_now(pair))

    async def move(self, way: Way, cell: str, ask: Ask, tags: Tags, wait_ms: int) -> Answer | None:
        """Let a job that waits go on to another cell, and wait there if it must. None: it has its node by now."""
        await self.go_to(way, cell, ask.limits.timeout_ms)
        if way.cell != cell:
            return None
        seeking = _Pass(self, way, ask, tags, NO_HINTS)
        return await seeking.at(cell, wait_ms) or seeking.refusal()

    async def go_to(self, way: Way, cell: str, timeout_ms: int) -> None:
        """The job is to be tried in this cell; if others know it, they hear of that. It may be elsewhere by then."""
        if way.cell == cell:
            return
        if not way.is_known:
            way.go(cell, 0)
            return
        gone = await withdraw(self._engine, way.job_id, way.hop, cell, self._keep_ms + timeout_ms)
        if isinstance(gone, Withdrawn):
            # Whatever comes there late goes on, too.
            way.is_in_doubt = False
            way.go(cell, gone.hop)
        elif not isinstance(gone, Stays | Refusal):
            way.go(gone.cell, gone.hop)

    async def dispatch(
        self, way: Way, ask: Ask, tags: Tags, hints: Hints, wait_ms: int
    ) -> Placed | Waiting | GoneOn | Refusal:
        """Try the cell in which the job is."""
        index, wanted = tags.number if ask.utterance_index is None else ask.utterance_index, ask.wanted
        if wait_ms != wanted.wait_ms:
            wanted = msgspec.structs.replace(wanted, wait_ms=wait_ms)
        try:
            answer = await dispatch(
                self._engine,
                way.job_id,
                ask.session_id,
                ask.src_lang,
                ask.tgt_lang,
                body=ask.body,
                utterance_index=index,
                limits=ask.limits,
                wanted=wanted,
                hints=hints,
                trace_id=tags.trace_id,
                hop=way.hop,
            )
        except (OutcomeUnknown, asyncio.CancelledError):
            way.is_in_doubt = True
            raise
        if tags.at_once is not None and isinstance(answer, Placed) and answer.is_new:
            tags.at_once(way.job_id, answer, index)
        return answer


class _Pass:
    """One job's way through the cells, and what each of them said."""

    def __init__(self, seeker: Seeker, way: Way, ask: Ask, tags: Tags, hints: Hints) -> None:
        self._seeker = seeker
        self._routes = seeker.routes
        self._way = way
        self._ask = ask
        self._tags = tags
        self._hints = hints
        #: The cell of the node that the job names; "": that does not matter.
        self._named_at = ""
        self._refused: dict[str, Refusal] = {}
        self._down: dict[str, DependencyDown] = {}
        #: Where it would have waited, and was not allowed to.
        self._asked_to_wait: set[str] = set()

    async def go(self, pair: Pair) -> Answer:
        """From the first cell to the last, by the directory as it was seen, and then by the directory as it is."""
        ways, answer = None, None
        if self._routes.is_one:
            ways = await self._routes.ways_now(pair)
        if self._ask.wanted.preferred_node_id and not self._routes.is_one:
            answer = await self._ask_for_the_named()
            if answer is not None or self._is_over:
                return answer or self.refusal()
        if ways is None:
            answer = await self._try(pair, (await self._routes.ways(pair)).cells)
            if answer is not None:
                return answer
        return await self._go_to_the_end(pair, ways or await self._routes.ways_now(pair))

    async def go_on(self, pair: Pair, ways: Ways) -> Answer | None:
        """It waits in one cell, and the others were not asked. If none of them has room, it waits here or there."""
        if self._ask.wanted.strict or not {*ways.cells} - {self._way.cell}:
            return None
        self._refused[self._way.cell] = Refusal(_FULL, "", Breakdown())
        return await self._go_to_the_end(pair, ways)

    async def _go_to_the_end(self, pair: Pair, ways: Ways) -> Answer:
        self._way.has_asked_all = True
        return (
            await self._try(pair, ways.cells)
            or await self._fall_back(pair, ways)
            or await self._wait(pair)
            or self.refusal(is_served=bool(ways.cells))
        )

    async def _ask_for_the_named(self) -> Placed | Waiting | None:
        """A job that names a node is tried where that is, before all others; one that insists on it, nowhere else.

        What other cells said of a node that they do not know counts for nothing.
        """
        wanted = self._ask.wanted
        self._named_at = await self._routes.home_now(wanted.preferred_node_id)
        self._refused = {cell: refusal for cell, refusal in self._refused.items() if cell == self._named_at}
        if self._named_at in self._refused:
            return None
        return await self.at(self._named_at, wanted.wait_ms if wanted.strict else 0)

    @property
    def _is_over(self) -> bool:
        """Whether no other cell can help: it insists on a node, or names one that could never take it."""
        codes = {refusal.code for refusal in self._refused.values()}
        return self._ask.wanted.strict or "PREFERRED_NODE_NOT_CAPABLE" in codes

    async def _try(self, pair: Pair, cells: Sequence[str]) -> Placed | Waiting | None:
        """Those of these cells that were not asked yet; the one in which it is, if there are none at all."""
        wait_ms = self._ask.wanted.wait_ms if len(cells) == 1 else 0
        untried = [cell for cell in cells or [self._way.cell] if cell not in self._refused and cell not in self._down]
        wished = await self._routes.homes_of(self._ask, self._hints) if len(untried) > 1 else []
        for cell in await self._routes.ordered(pair, untried, [*wished, self._way.cell]):
            if not await self._may_go(pair, cell):
                continue
            answer = await self.at(cell, wait_ms)
            if answer is not None or self._is_over:
                return answer
            self._routes.refused(pair, cell)
        return None

    async def _fall_back(self, pair: Pair, ways: Ways) -> Placed | Waiting | None:
        """Where nobody is alive who serves the pair, those who serve its fallback."""
        if not ways.own or not ways.spare or self._down or self._is_over or await self._routes.is_live(pair, ways.own):
            return None
        return await self._try(pair, ways.spare)

    async def _may_go(self, pair: Pair, cell: str) -> bool:
        """Whether a cell is to be asked: one that others may know could not come back from where nobody answers."""
        if not self._way.is_known or cell == self._way.cell or await self._routes.answers(pair, cell):
            return True
        self._down[cell] = DependencyDown("UNREACHABLE", f"cell {cell} does not answer")
        return False

    async def _wait(self, pair: Pair) -> Placed | Waiting | None:
        """Nobody has room. The job waits where most of those are who may come to have some, if it may wait there."""
        full = {cell: refusal for cell, refusal in self._refused.items() if refusal.code not in FINAL}
        for cell in sorted(full, key=lambda cell: _hopes(full[cell]), reverse=True):
            if self._ask.wanted.wait_ms <= 0 or cell in self._asked_to_wait or not await self._may_go(pair, cell):
                continue
            answer = await self.at(cell, self._ask.wanted.wait_ms)
            if answer is not None:
                return answer
        return None

    async def after(self, first: GoneOn | Refusal | DependencyDown, wait_ms: int) -> Placed | Waiting | None:
        """The cell in which the job is was tried, and this came of it. None: it was refused there."""
        if isinstance(first, DependencyDown):
            self._is_down(self._way.cell, first)
            return None
        if isinstance(first, Refusal):
            self._is_refused(first, wait_ms)
            return None
        self._way.go(first.cell, first.hop)
        return await self.at(first.cell, wait_ms)

    def _is_down(self, cell: str, down: DependencyDown) -> None:
        self._down[cell] = down
        self._routes.down(self._way.cell)
        if self._way.is_known and down.reason not in _TELLABLE:
            raise down

    def _is_refused(self, refusal: Refusal, wait_ms: int) -> None:
        self._refused[self._way.cell] = refusal
        self._asked_to_wait |= {self._way.cell} if wait_ms else set()

    async def at(self, cell: str, wait_ms: int) -> Placed | Waiting | None:
        """Try a cell; or the one to which others have sent the job on meanwhile. None: it was refused there."""
        ask = self._ask
        if self._named_at not in {"", cell} and not ask.wanted.strict:
            # The node is not there, and it was asked for where it is.
            ask = msgspec.structs.replace(ask, wanted=msgspec.structs.replace(ask.wanted, preferred_node_id=""))
        for _ in range(_MOST_FOLLOWED):
            try:
                answer = await self._at(cell, ask, wait_ms)
            except DependencyDown as down:
                self._is_down(cell, down)
                return None
            if answer is not None or cell in self._refused:
                return answer
        self._down[cell] = DependencyDown("BEHIND", f"job {self._way.job_id} goes on from cell to cell")
        return None

    async def _at(self, cell: str, ask: Ask, wait_ms: int) -> Placed | Waiting | None:
        await self._seeker.go_to(self._way, cell, ask.limits.timeout_ms)
        answer = await self._seeker.dispatch(self._way, ask, self._tags, self._hints, wait_ms)
        while not isinstance(answer, Placed | Waiting | Refusal):
            self._way.go(answer.cell, answer.hop)
            answer = await self._seeker.dispatch(self._way, ask, self._tags, self._hints, wait_ms)
        if isinstance(answer, Refusal):
            self._is_refused(answer, wait_ms)
            return None
        return answer

    def refusal(self, *, is_served: bool = True) -> Refusal:
        """What all that were asked said together. If one could not be asked, nobody can say that all refused."""
        if self._down:
            raise next(iter(self._down.values()))
        refusals = list(self._refused.values())
        if not is_served and not self._routes.is_one and refusals[0].code == "NO_CAPABLE_NODE":
            return refuse("NO_CAPABLE_NODE", pair=f"{self._ask.src_lang}:{self._ask.tgt_lang}", missing=_NOBODY)
        never = [refusal for refusal in refusals if refusal.code == "PREFERRED_NODE_NOT_CAPABLE"]
        hopeful = never or [refusal for refusal in refusals if refusal.code not in FINAL] or refusals
        counted = [refusal.breakdown for refusal in hopeful if refusal.breakdown is not None]
        if len(counted) < 2:  # noqa: PLR2004 - there is nothing to add up
            return hopeful[0]
        numbers = map(sum, zip(*map(msgspec.structs.astuple, counted), strict=True))
        breakdown = Breakdown(*numbers)
        return refuse(_FULL, breakdown, pair=f"{self._ask.src_lang}:{self._ask.tgt_lang}", pool=breakdown.pool)


def _hopes(refusal: Refusal) -> int:
    """How many nodes there may come to have room."""
    return 0 if refusal.breakdown is None else refusal.breakdown.pool - refusal.breakdown.stale
