"""An engine as one process has it, with somebody in between: he may listen, hold back, break, or end the caller."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest

    from lingua_scheduler.store.batch import Read
    from lingua_scheduler.store.engine import Engine
    from lingua_scheduler.store.scripts import Script

    Run = Callable[[], Awaitable[object]]
    Meddle = Callable[[Run], Awaitable[object]]


class Meddled:
    """Runs scripts on an engine; those that are named, by whoever meddles with them."""

    def __init__(self, engine: Engine, **meddlers: Meddle) -> None:
        self._engine = engine
        self._meddlers = meddlers
        self._answered = asyncio.Condition()
        #: The scripts that were answered, by name.
        self.ran: list[str] = []
        #: The cells that nobody can reach.
        self.away: set[str] = set()

    def run(self, script: Script, cell: str, item: tuple[bytes, ...], read: Read = bytes) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._run(script, cell, item, read))

    async def _run(self, script: Script, cell: str, item: tuple[bytes, ...], read: Read) -> object:
        async def run() -> object:
            if cell in self.away:
                raise DependencyDown("UNREACHABLE", f"cell {cell} is away")
            return await self._engine.run(script, cell, item, read)

        meddle = self._meddlers.get(script.name)
        answer = await (meddle(run) if meddle else run())
        self.ran.append(script.name)
        async with self._answered:
            self._answered.notify_all()
        return answer

    def reign_of(self, cell: str) -> str:
        return self._engine.reign_of(cell)

    async def until(self, name: str, times: int = 1) -> None:
        """Until this script was answered so often."""
        async with self._answered:
            await self._answered.wait_for(lambda: self.ran.count(name) >= times)


def meddled(engine: Engine, **meddlers: Meddle) -> Any:
    """The same, for those who take an engine."""
    return Meddled(engine, **meddlers)


def hold_back(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, name: str, gate: asyncio.Event, *, loses: bool = False
) -> asyncio.Event:
    """From now on this script does not run before the gate opens; set when somebody waits there.

    `loses`: it runs, and when the gate opens its answer is lost.
    """
    run, reached = engine.run, asyncio.Event()

    async def slowly(*about: Any) -> Any:
        if loses:
            await run(*about)
        reached.set()
        await gate.wait()
        if loses:
            raise OutcomeUnknown("no reply came")
        return await run(*about)

    def held(script: Script, *about: Any) -> Any:
        return slowly(script, *about) if script.name == name else run(script, *about)

    monkeypatch.setattr(engine, "run", held)
    return reached
