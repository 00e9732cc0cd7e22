"""What goes on after its caller has been answered, and what is tried again while the engine is away."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")

#: The pauses between tries grow from the first to the last.
_FIRST_PAUSE_S: Final = 0.05
_LAST_PAUSE_S: Final = 1.0

log = logging.getLogger(__name__)


async def insist(call: Callable[[], Awaitable[T]], patience_s: float) -> T:
    """Make a call that may be made twice, again and again while the engine is away, but not for ever."""
    clock = asyncio.get_running_loop().time
    until, pause_s = clock() + patience_s, _FIRST_PAUSE_S
    while True:
        try:
            return await call()
        except (DependencyDown, OutcomeUnknown):
            if clock() + pause_s > until:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _LAST_PAUSE_S)


class Background:
    """Tasks that nobody waits for. What goes wrong in one is in the log."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[object, object, object], name: str) -> None:
        """Begin it; it is over before this process is, or given up then."""
        self.keep(asyncio.create_task(work, name=name))

    def keep(self, task: asyncio.Task[object]) -> None:
        """The same for a task that has begun."""
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def room(self, most: int) -> None:
        """Wait until there are fewer than so many."""
        while len(self._tasks) >= most:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, DependencyDown | OutcomeUnknown):
            log.warning("%s was given up: %s", task.get_name(), error)
        elif error is not None:
            log.error("%s failed", task.get_name(), exc_info=error)

    async def close(self, patience_s: float = 0.0) -> None:
        """Wait for what is under way, for so long; then give it up."""
        if self._tasks and patience_s > 0:
            await asyncio.wait(self._tasks, timeout=patience_s)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
