"""Who has which slot of a Cluster, and a connection to each of them.

Any server may be asked, and any may be late. So this map is only where a call goes first: who has a slot and who has
not, each server knows of itself, and says so (MOVED). It is drawn anew when a call was sent on, when a connection
breaks or cannot be made, when a server says that the Cluster is down, and now and then.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, EngineUnfit, LinguaError
from lingua_scheduler.store.seeds import Question
from lingua_scheduler.store.slots import SLOTS, spans_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from lingua_scheduler.store.address import Address, Cluster
    from lingua_scheduler.store.connection import Connection
    from lingua_scheduler.store.slots import Span
    from lingua_scheduler.store.wire import Waiter

    Table = list["Connection | None"]

    #: Hears which table was replaced, and what was never written to servers that have no slots any more.
    OnChange = Callable[[Table, list[Waiter]], None]

#: How long the map is believed, and how long while somebody is missing.
_CALM_S: Final = 30.0
_TROUBLED_S: Final = 0.1
#: What makes it doubtful comes in bursts: at most so long, and by chance, is waited for the rest.
_BURST_S: Final = 0.02

_SLOTS_ASKED: Final = Question(
    ("CLUSTER", "SLOTS"), spans_of, "is no server of a Cluster: give its URL as redis://, or redis+sentinel://"
)


class Topology:
    """The map, kept up by a task of its own until it is closed."""

    def __init__(
        self,
        place: Cluster,
        connect: Callable[[Address], Connection],
        on_change: OnChange,
        *,
        timeout_ms: int,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.table: Table = [None] * SLOTS
        self.connections: dict[Address, Connection] = {}
        #: Primaries and replicas.
        self.servers: list[Address] = []
        self._place = place
        self._connect = connect
        self._on_change = on_change
        self._ask_ms = timeout_ms // 2
        self._timeout = timeout_ms / 1000
        self._tls = tls
        self._retired: list[Connection] = []
        self._why: LinguaError = DependencyDown("UNREACHABLE", f"nobody of {place} has answered yet")
        self._drawn = asyncio.Event()
        self._doubt = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep(), name=f"keep the map of {place}")

    async def ready(self) -> None:
        """Wait for the first map, and for everybody on it."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._drawn.wait()
        except TimeoutError:
            raise self._why from None
        for connection in list(self.connections.values()):
            await connection.ready()

    def at(self, address: Address) -> Connection:
        """The connection to this server; a new one if there is none."""
        connection = self.connections.get(address)
        if connection is None:
            connection = self.connections[address] = self._connect(address)
        return connection

    def anybody(self) -> Connection | None:
        """Somebody who serves, the same one while he does."""
        return next((one for one in self.connections.values() if one.serves), None)

    def moved(self, slot: int, address: Address) -> None:
        """A server said who has this slot."""
        self.table[slot] = self.at(address)
        self.distrust()

    def distrust(self) -> None:
        """Something happened that the map may not know yet."""
        self._doubt.set()

    async def close(self) -> None:
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        for connection in (*self.connections.values(), *self._retired):
            await connection.close()

    async def _keep(self) -> None:
        while True:
            self._doubt.clear()
            try:
                spans = await _SLOTS_ASKED.first_answer(self._whom(), self._ask_ms, self._tls)
            except EngineUnfit as error:
                self._why = error
            except DependencyDown as error:
                self._why = DependencyDown(error.reason, f"{self._place}: {error.detail}")
            else:
                self._draw(spans)
            await self._bury()
            with suppress(TimeoutError):
                async with asyncio.timeout(_CALM_S if self._is_calm() else _TROUBLED_S):
                    await self._doubt.wait()
            await asyncio.sleep(random.uniform(0, _BURST_S))

    def _whom(self) -> list[Address]:
        """Whom the last map knows, in any order, for one of them may be late; then those that the URL names."""
        known = random.sample(self.servers, len(self.servers))
        return list(dict.fromkeys((*known, *self._place.seeds)))

    def _is_calm(self) -> bool:
        everybody = all(connection.serves for connection in self.connections.values())
        return self._drawn.is_set() and everybody and not self._retired

    def _draw(self, spans: list[Span]) -> None:
        before, self.table = self.table, [None] * SLOTS
        for span in spans:
            self.table[span.first : span.last + 1] = [self.at(span.primary)] * len(span)
        self.servers = list(dict.fromkeys(server for span in spans for server in span.servers))
        primaries = {span.primary for span in spans}
        leaving = [address for address in self.connections if address not in primaries]
        unsent: list[Waiter] = []
        for address in leaving:
            connection = self.connections.pop(address)
            self._retired.append(connection)
            unsent += connection.recall()
        self._drawn.set()
        self._on_change(before, unsent)

    async def _bury(self) -> None:
        """Close those that have no slots any more, once everything that they were sent is answered."""
        for connection in [one for one in self._retired if not one.on_way]:
            self._retired.remove(connection)
            await connection.close()
