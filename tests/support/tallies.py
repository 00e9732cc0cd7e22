"""Writers who remember what they were told, and a ledger that shows what was done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.store.keys import cell_key
from lingua_scheduler.store.scripts import Script, compose

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.store.engine import Engine


def script(name: str, body: str) -> Script:
    return compose(name, lambda _: f"#!lua\n{body}")


#: Writes its items down. On the way it empties a key and fills it again: whoever dies between has written half.
ENTER: Final = script(
    "enter",
    """local out = {}
    for i = 3, #ARGV do
      redis.call('SPOP', KEY.limbo)
      redis.call('RPUSH', KEY.outbox, ARGV[i])
      redis.call('SADD', KEY.limbo, ARGV[i])
      redis.call('INCR', KEY.counts)
      out[#out + 1] = ARGV[i]
    end
    return out""",
)


class Tally:
    """What was asked of one cell, and what came of it."""

    def __init__(self, engine: Engine, cell: str) -> None:
        self.engine = engine
        self.cell = cell
        self.confirmed: set[str] = set()
        self.unknown: set[str] = set()
        self.refused: dict[str, str] = {}
        self._next = 0

    async def enter(self, *, replicated: bool = False) -> str:
        """One item more; `replicated`: confirmed only if a replica has it, too."""
        item = f"{self._next:06}"
        self._next += 1
        try:
            await self.engine.run(ENTER, self.cell, (item.encode(),))
        except OutcomeUnknown:
            self.unknown.add(item)
        except DependencyDown as error:
            self.refused[item] = error.reason
        else:
            (self.confirmed if not replicated or await self._is_replicated() else self.unknown).add(item)
        return item

    async def _is_replicated(self) -> bool:
        """If whoever did it is gone by now, or no primary any more, nobody knows."""
        try:
            return bool(await self.engine.command("WAIT", 1, 100, cell=self.cell))
        except LinguaError:
            return False

    async def go_on_until(self, over: Callable[[], bool], *, replicated: bool = False) -> None:
        """Enter one after the other."""
        while not over():
            item = await self.enter(replicated=replicated)
            if item not in self.confirmed:
                await asyncio.sleep(0.02)

    async def entered(self) -> list[str]:
        key = cell_key(self.engine.prefix, self.cell, "outbox")
        return [item.decode() for item in await self.engine.command("LRANGE", key, 0, -1, cell=self.cell)]

    async def check(self) -> None:
        """Nothing that was confirmed is lost, nothing that was refused was done, nothing twice and nothing half."""
        items = await self.entered()
        assert len(items) == len(set(items))
        assert self.confirmed <= set(items) <= self.confirmed | self.unknown
        count = await self.engine.command("GET", cell_key(self.engine.prefix, self.cell, "counts"), cell=self.cell)
        assert int(count or 0) == len(items)
