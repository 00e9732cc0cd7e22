"""Lines: things are handled side by side, but those about the same one after the other, in the order they came."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from lingua_scheduler.core.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


class Lines(Generic[T]):
    """One for each that something is about. `handle` raises nothing: what goes wrong with one is its own business."""

    def __init__(self, handle: Callable[[T], Awaitable[None]]) -> None:
        self._handle = handle
        self._lines: dict[str, deque[T]] = {}
        self._walks: set[Walk] = set()

    def stand(self, about: str, thing: T) -> None:
        """The last in its line; if there is none, it is being handled when this returns."""
        line = self._lines.get(about)
        if line is not None:
            line.append(thing)
            return
        line = self._lines[about] = deque((thing,))

        def over(_: BaseException | None) -> None:
            self._walks.discard(walk)
            del self._lines[about]

        walk = Walk(self._serve(line), over)
        self._walks.add(walk)
        walk.begin()

    async def _serve(self, line: deque[T]) -> None:
        while line:
            await self._handle(line.popleft())

    def cancel(self) -> None:
        """Nobody is served any more."""
        for walk in list(self._walks):
            walk.cancel()
