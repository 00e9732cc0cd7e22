"""The marker: tells the engine which services of which nodes were seen not to work, off the way of the jobs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.loops.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Mark = Callable[[str, str, str, str], Awaitable[object]]

#: More than this are not remembered while the engine is busy or away: whoever fails again is seen again.
MAX_SEEN: Final = 1_000


class Marker(Loop):
    """Whoever hears `MODEL_NOT_AVAILABLE` says so here and goes on; the marks are made in the background."""

    def __init__(self, mark: Mark, interval_ms: int) -> None:
        """`mark` tells the engine of one: where the node is, it knows."""
        super().__init__(interval_ms)
        self._mark = mark
        #: In the order in which they were seen, each once.
        self._seen: dict[tuple[str, str, str, str], None] = {}
        #: What was not remembered because there was too much of it.
        self.dropped = 0
        #: What came of those that were told: made, made a moment ago, or too many.
        self.told: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        """How many are to be told."""
        return len(self._seen)

    def saw(self, node_id: str, service: str = "", service_type: str = "", connection: str = "") -> None:
        """A service of a node did not work: so this connection said. The same twice before it is told is once."""
        seen = (node_id, service, service_type, connection)
        if seen in self._seen:
            return
        if len(self._seen) >= MAX_SEEN:
            self.dropped += 1
            return
        self._seen[seen] = None
        self.wake()

    async def turn(self) -> bool:
        """Tell one. It is forgotten only when the engine has answered: marking twice is harmless."""
        if not self._seen:
            return False
        first = next(iter(self._seen))
        answer = await self._mark(*first)
        self.told[answer.code if isinstance(answer, Refusal) else type(answer).__name__.lower()] += 1
        del self._seen[first]
        return bool(self._seen)
