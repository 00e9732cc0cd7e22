"""A Cluster as one engine: each call goes to the server that has its slot, and is sent on if that was wrong.

MOVED, ASK and TRYAGAIN say that nothing was executed, so only then is a call sent twice. Every script declares one key
more than it touches, which never exists (`keys.GUARD`). While a slot is handed over key by key, its owner
answers TRYAGAIN or ASK to a call with a key that it has not got, and so does the other to a guest with two keys. So no
script ever runs in a slot that is half here and half there. Without that it would run where all its keys are, and die
after its first writes when it empties a key and touches it again.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from itertools import chain, count
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.store.connection import Connection, nothing
from lingua_scheduler.store.errand import Errand, Line
from lingua_scheduler.store.keys import GUARD
from lingua_scheduler.store.slots import ANY, slot_of
from lingua_scheduler.store.topology import Topology

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from lingua_scheduler.store.address import Address, Cluster
    from lingua_scheduler.store.connection import Entering
    from lingua_scheduler.store.reign import Home
    from lingua_scheduler.store.slots import Turn
    from lingua_scheduler.store.topology import Table
    from lingua_scheduler.store.wire import Waiter, Wire

#: A call waits so long, from its birth, for its slot to be handed over.
_HANDOVER_S: Final = 1.0
#: Between two tries; by chance, so that not all instances ask at once.
_PAUSE_S: Final = (0.005, 0.04)
#: So often a call is sent on without a pause. More, and two servers each say that the other has the slot.
_HOPS: Final = 3


class _Primary(Connection):
    """To a server of a Cluster that has slots: who is not that yet is not served by, and asked again."""

    async def _examine(self, wire: Wire) -> None:  # noqa: ARG002 - it was asked already
        if self.reign.is_replica:
            raise DependencyDown("READONLY", "it is a replica")


class ClusterCarrier:
    """A `Carrier` to all primaries of a Cluster."""

    guards: tuple[str, ...] = (GUARD,)

    def __init__(
        self,
        place: Cluster,
        *,
        timeout_ms: int = 900,
        patience_ms: int = 500,
        max_pending: int = 100_000,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`timeout_ms`, `patience_ms` and `max_pending` are those of each connection."""
        self.preamble: Callable[[], list[bytes]] = list
        self.entering: Callable[[str], Entering] = nothing
        self.era = 0
        self._times = (timeout_ms, patience_ms)
        self._max_pending = max_pending
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._numbers = count()
        #: Calls of each slot that were sent and not answered.
        self._on_way: dict[int, int] = {}
        #: The lines of slots whose calls were turned away, or whose server has just changed.
        self._lines: dict[int, Line] = {}
        self._touched: dict[Connection, None] = {}
        self._closed = False
        self._nobody = partial(DependencyDown, "UNREACHABLE", f"nobody of {place} serves")
        self._topology = Topology(place, self._connect, self._redrawn, timeout_ms=timeout_ms, tls=tls)

    async def ready(self) -> None:
        await self._topology.ready()

    def send(self, data: bytes, waiter: Waiter, cell: str) -> None:
        errand = Errand(self, next(self._numbers), slot_of(cell), data, waiter)
        line = self._lines.get(errand.slot)
        if self._closed:
            waiter.fail(_closed)
        elif line is None:
            self._post(errand)
        elif len(line.waiting) >= self._max_pending:
            waiter.fail(partial(DependencyDown, "OVERLOADED", f"{self._max_pending} calls wait for one slot"))
        else:
            line.add(errand)

    def spread(self, data: bytes, waiter_at: Callable[[str], Waiter]) -> None:
        for connection in self._topology.connections.values():
            self._touched[connection] = None
            connection.send(data, waiter_at(connection.named))

    @property
    def servers(self) -> list[Address]:
        """Who is on the map, with slots or without."""
        return self._topology.servers

    def one_cell_each(self, cell: str) -> dict[str, str]:
        table = self._topology.table
        servers = {connection for connection in table if connection is not None}
        found: dict[str, str] = {}
        for name in chain([cell], (f"{cell}{number}" for number in count())):
            connection = table[slot_of(name)]
            if connection is not None:
                found.setdefault(connection.named, name)
            if len(found) == len(servers):
                return found
        raise AssertionError  # every slot is named sooner or later

    def home_of(self, cell: str) -> Home | None:
        connection = self._topology.table[slot_of(cell)]
        return None if connection is None else connection.home_of(cell)

    def flush(self) -> None:
        touched, self._touched = self._touched, {}
        for connection in touched:
            connection.flush()

    async def close(self) -> None:
        self._closed = True
        lines, self._lines = self._lines, {}
        for line in lines.values():
            line.stop()
            for errand in line.waiting:
                errand.waiter.fail(_closed)
        await self._topology.close()

    # Out and back.

    def _connect(self, address: Address) -> Connection:
        timeout_ms, patience_ms = self._times
        connection = _Primary(
            address,
            timeout_ms=timeout_ms,
            patience_ms=patience_ms,
            max_pending=self._max_pending,
            tls=self._tls,
            on_lost=self.distrust,
            asks_reign=True,
        )
        connection.preamble = self._preamble
        connection.entering = self._entering
        return connection

    def _preamble(self) -> list[bytes]:
        """As it is when a socket is new, and not when its connection was made."""
        self.era += 1
        return self.preamble()

    def _entering(self, reign: str) -> Entering:
        """The same."""
        return self.entering(reign)

    def _post(self, errand: Errand) -> None:
        slot, topology = errand.slot, self._topology
        self._on_way[slot] = self._on_way.get(slot, 0) + 1
        if errand.guest_at is not None:
            connection: Connection | None = topology.at(errand.guest_at)
        else:
            connection = topology.anybody() if slot == ANY else topology.table[slot]
        if connection is None:
            topology.distrust()
            errand.fail(self._nobody if slot == ANY else partial(DependencyDown, "CLUSTERDOWN", _nobody_has(slot)))
            return
        errand.server = connection.address
        self._touched[connection] = None
        if errand.guest_at is not None:
            connection.ask(errand.data, errand)
        else:
            connection.send(errand.data, errand)

    def settled(self, errand: Errand) -> None:
        slot = errand.slot
        self._is_back(slot)
        if errand.guest_at is not None:
            self.era += 1
        line = self._lines.get(slot)
        if line is None:
            return
        if line.first is errand:
            line.first = None
            if errand.guest_at is None:
                self._let_all_go(slot, line)
                return
        self._go_on(slot, line)

    def turned_away(self, errand: Errand, turn: Turn) -> None:
        self._take_out(errand)
        errand.guest_at = None
        if turn.slot not in {ANY, errand.slot}:
            self._rename(errand, turn.slot)
        if errand.server is not None and turn.port:
            there = errand.server.at(turn.host or errand.server.host, turn.port)
            if turn.word == "MOVED":
                self.era += 1
                self._topology.moved(errand.slot, there)
            else:
                errand.guest_at = there
        errand.hops += 1
        if turn.word == "TRYAGAIN" or errand.hops > _HOPS:
            errand.hops = 0
            errand.due = self._loop.time() + random.uniform(*_PAUSE_S)
        line = self._lines.setdefault(errand.slot, Line())
        line.add(errand)
        self._go_on(errand.slot, line)

    def distrust(self) -> None:
        self._topology.distrust()

    def _is_back(self, slot: int) -> None:
        self._on_way[slot] -= 1
        if not self._on_way[slot]:
            del self._on_way[slot]

    def _take_out(self, errand: Errand) -> None:
        self._is_back(errand.slot)
        line = self._lines.get(errand.slot)
        if line is not None and line.first is errand:
            line.first = None

    def _rename(self, errand: Errand, slot: int) -> None:
        """Nobody had named the cell of its keys."""
        before, errand.slot = errand.slot, slot
        if (line := self._lines.get(before)) is not None:
            self._go_on(before, line)

    # Lines.

    def _go_on(self, slot: int, line: Line) -> None:
        """Send the first of the line, when nothing of its slot is on its way any more."""
        if line.first is not None or slot in self._on_way:
            return
        line.stop()
        now = self._loop.time()
        while line.waiting:
            errand = line.waiting[0]
            if errand.due > now and not _is_over(errand, now):
                line.timer = self._loop.call_at(errand.due, self._go_on, slot, line)
                return
            line.waiting.pop(0)
            if _is_over(errand, now):
                errand.waiter.fail(partial(DependencyDown, "TRYAGAIN", f"slot {slot} is being handed over"))
                continue
            line.first = errand
            errand.born = now
            self._post(errand)
            self.flush()
            return
        self._lines.pop(slot, None)

    def _let_all_go(self, slot: int, line: Line) -> None:
        line.stop()
        del self._lines[slot]
        now = self._loop.time()
        for errand in line.waiting:
            errand.born = now
            self._post(errand)
        self.flush()

    def _redrawn(self, before: Table, unsent: list[Waiter]) -> None:
        """Nobody goes to a slot's new server while somebody is still on his way to the old one."""
        if before != self._topology.table:
            self.era += 1
        errands: list[Errand] = []
        for waiter in unsent:
            if isinstance(waiter, Errand):
                self._take_out(waiter)
                waiter.guest_at = None
                errands.append(waiter)
            else:
                waiter.fail(self._nobody)
        for slot in self._on_way:
            if slot != ANY and before[slot] is not self._topology.table[slot]:
                self._lines.setdefault(slot, Line())
        for errand in errands:
            if (line := self._lines.get(errand.slot)) is not None:
                line.add(errand)
            else:
                self._post(errand)
        for slot, line in list(self._lines.items()):
            self._go_on(slot, line)
        self.flush()


def _closed() -> DependencyDown:
    return DependencyDown("CLOSED", "the connections to the Cluster were closed here")


def _is_over(errand: Errand, now: float) -> bool:
    return errand.gone() or now - errand.waiter.born > _HANDOVER_S


def _nobody_has(slot: int) -> str:
    return f"no server of the Cluster has slot {slot}"
