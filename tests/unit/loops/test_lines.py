"""Lines: side by side, but those about the same in their order."""

from __future__ import annotations

import asyncio

from lingua_scheduler.loops.lines import Lines


class Counter:
    """Handles what it is given when it is let."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.lines = Lines(self._handle)

    def stand(self, *things: str) -> None:
        """Each is about its first letter."""
        for thing in things:
            self.gates[thing] = asyncio.Event()
            self.lines.stand(thing[0], thing)

    async def _handle(self, thing: str) -> None:
        self.begun.append(thing)
        await self.gates[thing].wait()

    async def let(self, thing: str) -> None:
        self.gates[thing].set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_those_about_the_same_wait_for_each_other_and_for_nobody_else() -> None:
    counter = Counter()
    counter.stand("a1", "a2", "b1")
    assert counter.begun == ["a1", "b1"]
    await counter.let("b1")
    counter.stand("b2")
    await counter.let("a1")
    assert counter.begun == ["a1", "b1", "b2", "a2"]
    counter.lines.cancel()


async def test_who_is_cancelled_is_not_followed() -> None:
    counter = Counter()
    counter.stand("a1", "a2")
    counter.lines.cancel()
    await asyncio.sleep(0)
    assert counter.begun == ["a1"]
    counter.stand("a3")
    assert counter.begun == ["a1", "a3"]
    counter.lines.cancel()
