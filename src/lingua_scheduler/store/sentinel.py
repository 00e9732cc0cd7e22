"""A connection to whichever server is the primary now, by the word of the Sentinels and its own.

A fail-over shows itself by a lost connection, by READONLY, which executes nothing, or by the Sentinels, who are asked
every second: an old primary that still lives takes writes for ten seconds more, and forgets them when it is told.
Then the new one is looked for. What was never written waits meanwhile, for its short patience; what may have been
written is unknown.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.errors import DependencyDown, EngineUnfit, LinguaError
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.resp import encode
from lingua_scheduler.store.seeds import Question
from lingua_scheduler.store.wire import Call

if TYPE_CHECKING:
    import ssl

    from lingua_scheduler.store.address import Address, Sentinels
    from lingua_scheduler.store.wire import Wire

#: How often the Sentinels are asked while all seems well.
_LOOK_S: Final = 1.0


class SentinelConnection(Connection):
    """A `Carrier` to the primary, wherever that is."""

    leaves_on = "READONLY"

    def __init__(
        self,
        place: Sentinels,
        *,
        timeout_ms: int = 900,
        patience_ms: int = 500,
        tls: ssl.SSLContext | None = None,
        asks_reign: bool = False,
    ) -> None:
        self._place = place
        self._ask_ms = timeout_ms // 2
        self._unfit: EngineUnfit | None = None
        self._question = Question(
            ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", place.name),
            self._read,
            "is no Sentinel: give redis+sentinel:// the hosts of the Sentinels",
        )
        #: Whom to ask: the one who answered last before the others, so that two who disagree do not take turns.
        self._seeds = random.sample(place.seeds, len(place.seeds))
        super().__init__(place.primary, timeout_ms=timeout_ms, patience_ms=patience_ms, tls=tls, asks_reign=asks_reign)
        self._away = partial(DependencyDown, "UNREACHABLE", f"the primary of {place} was not found yet")
        self._watcher = asyncio.create_task(self._look_out(), name=f"watch {place}")

    @property
    def named(self) -> str:
        return f"{self._place} ({self.address.where})" if self.address.host else str(self._place)

    async def ready(self) -> None:
        try:
            await super().ready()
        except DependencyDown:
            if self._unfit is not None:
                raise self._unfit from None
            raise

    async def close(self) -> None:
        self._watcher.cancel()
        await asyncio.wait([self._watcher])
        await super().close()

    async def _ask(self) -> Address:
        address, sentinel = await self._question.first_answer(self._seeds, self._ask_ms, self._tls)
        self._seeds.remove(sentinel)
        self._seeds.insert(0, sentinel)
        return address

    def _read(self, reply: Any, sentinel: Address) -> tuple[Address, Address]:  # noqa: ANN401 - whatever it said
        if reply is None:
            raise EngineUnfit(f"the Sentinel {sentinel.where} knows no primary called {self._place.name}")
        host, port = reply
        return self._place.primary.at(host.decode(), int(port)), sentinel

    async def _locate(self) -> None:
        self.address = self._place.primary
        try:
            self.address = await self._ask()
        except EngineUnfit as error:
            self._unfit = error
            raise DependencyDown("UNREACHABLE", str(error)) from None
        self._unfit = None

    async def _examine(self, wire: Wire) -> None:
        """Sentinels may be late: who was the primary may be a replica now, and who will be one is not yet."""
        call = Call(asyncio.get_running_loop().create_future(), 0)
        wire.write(encode("ROLE"), [call], call.size)
        role = (await call.future)[0]
        if role != b"master":
            raise DependencyDown("READONLY", f"the Sentinels name it, but it is a {role.decode()}")

    async def _look_out(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            wire = self._wire
            if wire is None:
                continue
            # Sentinels who are gone, or know nothing, are no reason to leave a primary that serves.
            with suppress(LinguaError):
                primary = await self._ask()
                if primary != self.address and wire is self._wire:
                    wire.leave(f"the Sentinels name {primary.where} as the primary now")
