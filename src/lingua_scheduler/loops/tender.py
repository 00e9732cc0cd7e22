"""The tender: sees to it that every cell has a reaper and a relayer here, also one that was opened a moment ago."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import cell_of
from lingua_scheduler.loops.loop import Loop
from lingua_scheduler.loops.reaper import Reaper
from lingua_scheduler.loops.relayer import Relayer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.store.engine import Engine

#: So many cells are looked at as often as if there were only one. Of more, each is looked at less often: a fleet that
#: large has many instances, and each of them looks at all cells.
_AT_EASE: Final = 4
#: For whatever many cells there are, none is looked at less often than so many times less often.
_MOST: Final = 10


class Tender(Loop):
    """One reaper and one relayer for each cell. `look` finds out which there are; `wake` when there may be more."""

    def __init__(
        self,
        engine: Engine,
        look: Callable[[], Awaitable[Sequence[str]]],
        interval_ms: int,
        *,
        sweep_ms: int,
        relay_ms: int,
        hand_over: Callable[[Event], Awaitable[None]],
    ) -> None:
        super().__init__(interval_ms)
        self._engine = engine
        self._look = look
        self._sweep_ms = sweep_ms
        self._relay_ms = relay_ms
        self._hand_over = hand_over
        self._stack = AsyncExitStack()
        self._relayers: dict[str, Relayer] = {}
        self._reapers: dict[str, Reaper] = {}

    def has_news(self, job_id: str) -> None:
        """Something happened to a job: whoever empties the outbox of its cell looks at once."""
        relayer = self._relayers.get(cell_of(job_id))
        if relayer is not None:
            relayer.wake()

    def take(self, event: Event) -> None:
        """Whoever put this into the outbox of a cell has taken it himself: it is handed over, and confirmed."""
        relayer = self._relayers.get(cell_of(event.job))
        if relayer is not None:
            relayer.take(event)

    def confirm(self, event: Event) -> None:
        """The same of one that has been handed over."""
        relayer = self._relayers.get(cell_of(event.job))
        if relayer is not None:
            relayer.confirm(event)

    async def turn(self) -> bool:
        """Begin with the cells that are new."""
        for cell in await self._look():
            if cell not in self._relayers:
                self._reapers[cell] = Reaper(self._engine, cell, self._sweep_ms)
                self._relayers[cell] = Relayer(self._engine, cell, self._relay_ms, self._hand_over)
                await self._stack.enter_async_context(self._reapers[cell])
                await self._stack.enter_async_context(self._relayers[cell])
        times = min(max(1.0, len(self._relayers) / _AT_EASE), _MOST)
        for reaper in self._reapers.values():
            reaper.pace(self._sweep_ms * times)
        for relayer in self._relayers.values():
            relayer.pace(self._relay_ms * times)
        return False

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """First nobody begins any more, then all end."""
        await super().__aexit__(kind, error, trace)
        await self._stack.aclose()
