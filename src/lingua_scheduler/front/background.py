"""What goes on after its caller has been answered, and what is tried again while the engine is away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.walk import Walk
from lingua_scheduler.logs import get_log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable
    from typing import Any

T = TypeVar("T")

#: The pauses between tries grow from the first to the last.
_FIRST_PAUSE_S: Final = 0.05
_LAST_PAUSE_S: Final = 1.0
#: Of many things so many begin in one turn of the loop: some milliseconds, if each asks the engine something.
MOST_AT_ONCE: Final = 100

log = get_log(__name__)


async def insist(
    call: Callable[[], Awaitable[T]], patience_s: float, failed: DependencyDown | OutcomeUnknown | None = None
) -> T:
    """Make a call that may be made twice, again and again while the engine is away, but not for ever.

    `failed`: how the first try went, which whoever insists has made himself.
    """
    until, pause_s, error = 0.0, _FIRST_PAUSE_S, failed
    while True:
        if error is None:
            try:
                return await call()
            except (DependencyDown, OutcomeUnknown) as away:
                error = away
        now_s = asyncio.get_running_loop().time()
        until = until or now_s + patience_s
        if now_s + pause_s > until:
            raise error
        error = None
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _LAST_PAUSE_S)


async def side_by_side(works: Iterable[Coroutine[Any, Any, object]]) -> None:
    """All of them, but not all in one turn of the loop, which others need meanwhile."""
    tasks: list[asyncio.Task[object]] = []
    try:
        for work in works:
            tasks.append(asyncio.create_task(work))
            if len(tasks) % MOST_AT_ONCE == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        raise


class _Work(Protocol):
    def cancel(self) -> object: ...


class Background:
    """Work that nobody waits for. What goes wrong with it is in the log."""

    def __init__(self) -> None:
        self._under_way: set[_Work] = set()
        #: Done when some of it is over.
        self._moved: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._under_way)

    def spawn(self, work: Coroutine[Any, Any, object], name: str) -> None:
        """Begin a task; it is over before this process is, or given up then."""
        self.keep(asyncio.create_task(work, name=name))

    def keep(self, task: asyncio.Task[Any]) -> None:
        """The same for a task that has begun."""
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def walk(self, work: Coroutine[Any, Any, object], name: str) -> None:
        """The same for what walks: it has begun, and may be over, when this returns."""

        def over(error: BaseException | None) -> None:
            self._over(walk, name, error)

        walk = Walk(work, over)
        self._under_way.add(walk)
        walk.begin()

    async def room(self, most: int) -> None:
        """Wait until there is less than so much."""
        while len(self._under_way) >= most:
            await self._move()

    def _move(self) -> asyncio.Future[None]:
        if self._moved is None:
            self._moved = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._moved)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._over(task, task.get_name(), None if task.cancelled() else task.exception())

    def _over(self, work: _Work, name: str, error: BaseException | None) -> None:
        self._under_way.discard(work)
        if self._moved is not None:
            self._moved.set_result(None)
            self._moved = None
        if isinstance(error, DependencyDown | OutcomeUnknown):
            log.warning("background", name=name, reason=error, detail="it was given up")
        elif isinstance(error, Exception):
            log.error("background", name=name, detail="it failed", exc_info=error)

    async def close(self, patience_s: float = 0.0) -> None:
        """Wait for what is under way, for so long; then give it up."""
        if patience_s > 0:
            try:
                async with asyncio.timeout(patience_s):
                    await self.room(1)
            except TimeoutError:
                pass
        for work in list(self._under_way):
            work.cancel()
        await self.room(1)
