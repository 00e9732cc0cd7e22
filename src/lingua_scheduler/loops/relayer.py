"""The relayer: carries what happened in a cell to whoever must hear of it, at least once."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.relay import relay
from lingua_scheduler.loops.loop import Loop, refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.store.engine import Engine

#: So many events are on their way at once, and no more are taken: whoever has room for others takes those.
MAX_CARRIED: Final = 32

log = logging.getLogger(__name__)


class Relayer(Loop):
    """Takes entries of a cell's outbox, hands them over side by side, and confirms each with the next call.

    Events about the same job, or about the same node and no job, are handed over one after the other, in the order of
    the outbox. `hand_over` must bear to be called twice with the same event. If it raises, the event stays unconfirmed
    and comes back when its lease is over, here or at another relayer.
    """

    def __init__(
        self, engine: Engine, cell: str, interval_ms: int, hand_over: Callable[[Event], Awaitable[None]]
    ) -> None:
        super().__init__(interval_ms)
        self._engine = engine
        self._cell = cell
        self._hand_over = hand_over
        self._carried: dict[Event, asyncio.Task[None]] = {}
        #: The last task about each job or node: the next one waits for it.
        self._last: dict[str, asyncio.Task[None]] = {}
        self._handed_over: list[Event] = []

    async def turn(self) -> bool:
        """Confirm what was handed over, take as much as there is room for."""
        if len(self._carried) >= MAX_CARRIED and not self._handed_over:
            await asyncio.wait(self._carried.values(), return_when=asyncio.FIRST_COMPLETED)
        room = MAX_CARRIED - len(self._carried)
        events = await self._relay(room)
        for event in events:
            # One that takes longer than its lease comes back while it is still on its way.
            if event not in self._carried:
                self._carry(event)
        return bool(events) or room == 0

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What is on its way is given up and comes back; what was handed over is confirmed, if the engine is there."""
        await super().__aexit__(kind, error, trace)
        tasks = list(self._carried.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._handed_over:
            try:
                await self._relay(0)
            except (DependencyDown, OutcomeUnknown) as away:
                log.warning(
                    "%d events were handed over but not confirmed; they come back: %s", len(self._handed_over), away
                )

    async def _relay(self, limit: int) -> list[Event]:
        confirmed = list(self._handed_over)
        taken = await relay(self._engine, self._cell, confirmed, limit)
        if isinstance(taken, Refusal):
            raise refused(taken)
        # Meanwhile others may have been handed over.
        del self._handed_over[: len(confirmed)]
        return taken.events

    def _carry(self, event: Event) -> None:
        about = event.job or event.node
        task = asyncio.create_task(self._carry_after(self._last.get(about), event), name=f"{event.kind} {about}")
        self._carried[event] = self._last[about] = task

        def forget(task: asyncio.Task[None]) -> None:
            del self._carried[event]
            if self._last[about] is task:
                del self._last[about]

        task.add_done_callback(forget)

    async def _carry_after(self, earlier: asyncio.Task[None] | None, event: Event) -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
        try:
            await self._hand_over(event)
        except Exception:
            # Whatever is wrong with one event, the others must not wait for it.
            log.exception("event %s of job %s was not handed over; it comes back", event.kind, event.job)
        else:
            self._handed_over.append(event)
