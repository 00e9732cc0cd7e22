"""The relayer: carries what happened in a cell to whoever must hear of it, at least once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.relay import relay
from lingua_scheduler.loops.loop import Loop, refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.store.engine import Engine

log = logging.getLogger(__name__)


class Relayer(Loop):
    """Takes entries of a cell's outbox, hands them over, and confirms them with its next call.

    `hand_over` must bear to be called twice with the same event. If it raises, the event stays unconfirmed and comes
    back when its lease is over, here or at another relayer.
    """

    def __init__(
        self, engine: Engine, cell: str, interval_ms: int, hand_over: Callable[[Event], Awaitable[None]]
    ) -> None:
        super().__init__(interval_ms)
        self._engine = engine
        self._cell = cell
        self._hand_over = hand_over
        self._handed_over: list[Event] = []

    async def turn(self) -> bool:
        """Confirm the last portion, hand over the next."""
        taken = await relay(self._engine, self._cell, self._handed_over)
        self._handed_over = []
        if isinstance(taken, Refusal):
            raise refused(taken)
        for event in taken.events:
            try:
                await self._hand_over(event)
            except Exception:
                # Whatever is wrong with one event, the others must not wait for it.
                log.exception("event %s of job %s was not handed over; it comes back", event.kind, event.job)
            else:
                self._handed_over.append(event)
        return bool(taken.events)
