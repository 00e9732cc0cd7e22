"""Calls that travel together: a lane collects them during a tick, a batch brings each its answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import hiredis

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown, ScriptFailed
from lingua_scheduler.store.resp import fail

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any

    from lingua_scheduler.core.meters import CallMeter
    from lingua_scheduler.store.engine import Engine
    from lingua_scheduler.store.resp import Failure
    from lingua_scheduler.store.scripts import Script
    from lingua_scheduler.store.wire import Call

    #: What a caller makes of the bytes that a script answers for its item.
    Read = Callable[[bytes], Any]


class Lane:
    """The calls of one script on one cell in this tick, and the bytes that all of them begin with."""

    __slots__ = ("born", "cell", "futures", "head", "items", "keys", "meter", "rank", "reads", "script", "width")

    def __init__(self, script: Script, cell: str, keys: int, head: bytes, width: int, meter: CallMeter) -> None:
        self.script = script
        self.meter = meter
        self.cell = cell
        self.keys = keys
        self.rank = script.rank
        self.head = head
        self.width = width
        self.items: list[bytes] = []
        self.futures: list[asyncio.Future[Any]] = []
        self.reads: list[Read] = []
        #: When the tick of its first item began.
        self.born = 0.0


class Batch:
    """One EVALSHA on its way: its callers in the order of their items."""

    __slots__ = ("born", "cell", "data", "engine", "futures", "meter", "reads", "script", "sent_again", "size")

    def __init__(
        self,
        engine: Engine,
        lane: Lane,
        data: bytes,
        futures: list[asyncio.Future[Any]],
        reads: list[Read],
        born: float,
    ) -> None:
        self.engine = engine
        self.script = lane.script
        self.meter = lane.meter
        self.cell = lane.cell
        self.data = data
        self.futures = futures
        self.reads = reads
        self.size = len(futures)
        self.born = born
        self.sent_again = False

    def answer(self, reply: Any) -> None:  # noqa: ANN401
        if type(reply) is list and len(reply) == self.size:
            for future, read, value in zip(self.futures, self.reads, reply, strict=True):
                if type(value) is not bytes:
                    fail(future, self._misfit(f"{value!r} for an item"))
                elif not future.done():
                    try:
                        future.set_result(read(value))
                    except ValueError as error:
                        fail(future, self._misfit(f"what its face does not know: {error}"))
            self.meter.seconds.add(self.engine.age(self.born), self.size)
            self.engine.settled(self.cell)
        elif isinstance(reply, hiredis.ReplyError):
            self.engine.refused(self, str(reply))
        else:
            message = f"{self.script.name}: not one answer for each of {self.size} items: {reply!r:.200}"
            self.fail(partial(ScriptFailed, message))

    def _misfit(self, what: str) -> Failure:
        return partial(ScriptFailed, f"{self.script.name}: answered {what}")

    def fail(self, failure: Failure) -> None:
        self.meter.failed[type(failure()).__name__] += self.size
        for future in self.futures:
            fail(future, failure)
        self.engine.settled(self.cell)

    def lost(self, why: str) -> None:
        """Of a script that only reads nothing is unknown: nothing happened, and nothing was learned."""
        self.fail(partial(DependencyDown, "SILENT", why) if self.script.reads_only else partial(OutcomeUnknown, why))

    def gone(self) -> bool:
        return all(future.done() for future in self.futures)


class Hold:
    """What waits of one cell: batches that met a server without their script, and what was called since."""

    __slots__ = ("batches", "commands", "lanes")

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.commands: list[tuple[bytes, Call, str]] = []
        self.lanes: list[Lane] = []


class Load:
    """The waiter of a SCRIPT LOAD. Its error is what the callers of that script will be told."""

    __slots__ = ("born", "engine", "script")
    size = 1

    def __init__(self, engine: Engine, script: Script, born: float) -> None:
        self.engine = engine
        self.script = script
        self.born = born

    def answer(self, reply: Any) -> None:  # noqa: ANN401
        self.engine.loaded(self.script, str(reply) if isinstance(reply, hiredis.ReplyError) else "")

    def fail(self, failure: Failure) -> None:
        """The batch behind it fails by itself."""

    def lost(self, why: str) -> None:
        """So it does here."""

    def gone(self) -> bool:
        return False
