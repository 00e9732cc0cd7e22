"""The relayer: carries what happened in a cell to whoever must hear of it, at least once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.relay import relay
from lingua_scheduler.logs import get_log
from lingua_scheduler.loops.lines import Lines
from lingua_scheduler.loops.loop import Loop, refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.store.engine import Engine

#: So many events are on their way at once, and no more are taken: whoever has room for others takes those.
MAX_CARRIED: Final = 32
#: What was handed over is confirmed so soon, however seldom the outbox is looked at: else its lease might be over.
_CONFIRM_S: Final = 0.1

log = get_log(__name__)


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
        self._on_way: set[Event] = set()
        self._lines = Lines(self._carry)
        self._handed_over: list[Event] = []
        #: Set when something is not on its way any more.
        self._moved = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    async def turn(self) -> bool:
        """Confirm what was handed over, take as much as there is room for."""
        if len(self._on_way) >= MAX_CARRIED and not self._handed_over:
            self._moved.clear()
            await self._moved.wait()
        # What others have taken themselves comes on top of that.
        room = max(0, MAX_CARRIED - len(self._on_way))
        events = await self._relay(room)
        for event in events:
            self.take(event)
        return bool(events) or room == 0

    def take(self, event: Event) -> None:
        """Hand over what was taken out of the outbox, be it by whoever put it there."""
        # One that takes longer than its lease comes back while it is still on its way.
        if event not in self._on_way:
            self._on_way.add(event)
            self._lines.stand(event.job or event.node, event)

    def confirm(self, event: Event) -> None:
        """Whoever put it into the outbox has handed it over himself: it is taken out with the next call."""
        self._handed_over.append(event)
        self._moved.set()
        self._confirm_soon()

    def _confirm_soon(self) -> None:
        if self._timer is None and self._interval_s > _CONFIRM_S:
            self._timer = asyncio.get_running_loop().call_later(_CONFIRM_S, self._confirm_now)

    def _confirm_now(self) -> None:
        self._timer = None
        if self._handed_over:
            self.wake()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What is on its way is given up and comes back; what was handed over is confirmed, if the engine is there."""
        await super().__aexit__(kind, error, trace)
        self._lines.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._handed_over:
            try:
                await self._relay(0)
            except (DependencyDown, OutcomeUnknown) as away:
                detail = "events were handed over but not confirmed; they come back"
                log.warning("relay", number=len(self._handed_over), reason=away, detail=detail)

    async def _relay(self, limit: int) -> list[Event]:
        confirmed = list(self._handed_over)
        taken = await relay(self._engine, self._cell, confirmed, limit)
        if isinstance(taken, Refusal):
            raise refused(taken)
        # Meanwhile others may have been handed over.
        del self._handed_over[: len(confirmed)]
        return taken.events

    async def _carry(self, event: Event) -> None:
        try:
            await self._hand_over(event)
            self._handed_over.append(event)
            self._confirm_soon()
        except Exception:
            # Whatever is wrong with one event, the others must not wait for it.
            log.exception("relay", kind=event.kind, job_id=event.job, detail="not handed over; it comes back")
        finally:
            self._on_way.discard(event)
            self._moved.set()
