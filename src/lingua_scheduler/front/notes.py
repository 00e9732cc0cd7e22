"""Deliveries that the engine has not heard of yet.

A node that acks says the same in a moment, and more: so for a moment nobody else does. If this process is killed in
that moment, the engine takes the attempt for one that nobody sent, as if it had been killed before it could say so: it
stays with its node, if that may come back.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.flows.attempts import Delivered
    from lingua_scheduler.flows.dispatch import Placed

    Place = Placed | Delivered

#: For so long a node's own word is waited for. It is far less than the shortest time in which it must come.
MOMENT_S: Final = 0.05
_NOWHERE: Final = (None, 0.0)


class Notes:
    """By job: to which node it was written. `tell` is called for those of which the node has said nothing."""

    def __init__(self, tell: Callable[[str, Place], None]) -> None:
        self._tell = tell
        self._open: dict[str, tuple[Place, float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, job_id: str, at: Place) -> None:
        """It was written to its node just now."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MOMENT_S, self._look)
        self._open[job_id] = at, monotonic() + MOMENT_S

    def heard(self, job_id: str, attempt_id: int, node_id: str) -> None:
        """A node has said something of an attempt, and the engine was told that. What others say counts for nothing."""
        at, _ = self._open.get(job_id, _NOWHERE)
        if at is not None and (at.attempt_id, at.node_id) == (attempt_id, node_id):
            del self._open[job_id]

    def tell_of(self, node_id: str) -> None:
        """The node says nothing more: the engine hears at once what it was told."""
        for job_id, (at, _) in list(self._open.items()):
            if at.node_id == node_id:
                del self._open[job_id]
                self._tell(job_id, at)

    def tell_all(self) -> None:
        """The same of all nodes: this process stops."""
        while self._open:
            job_id, (at, _) = self._open.popitem()
            self._tell(job_id, at)

    def _look(self) -> None:
        """Those whose moment is over: the oldest are the first."""
        self._timer, now = None, monotonic()
        while self._open:
            job_id, (at, due) = next(iter(self._open.items()))
            if due > now:
                self._timer = asyncio.get_running_loop().call_later(due - now, self._look)
                return
            del self._open[job_id]
            self._tell(job_id, at)
