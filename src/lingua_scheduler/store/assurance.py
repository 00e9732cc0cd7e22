"""What is promised is on enough replicas: a write behind it, the *witness*, and WAIT for that.

Both go by a connection of their own to the server that has answered, for a WAIT holds up its connection; the scripts
and their order are left alone. WAIT counts only from the last write of its own connection on, so it needs one. What the
server had written before the witness is on every replica that has the witness, whoever wrote it: so a promise can also
be made of what somebody else did, as when the same request comes twice.

All who ask in one tick have one witness. While a WAIT is on its way the next ones gather for the next.

The witness must be written under the same reign as what it stands for. A server that was put in the place of the old
one would confirm that its replicas have all that it has, and that may not be what was promised. So the era of the
engine's client must not have changed since the call was sent, and the server must say under whose reign it is when the
WAIT is over. In any doubt the outcome is unknown.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import cell_key
from lingua_scheduler.store.reign import SECTIONS, reign_in
from lingua_scheduler.store.resp import encode, fail
from lingua_scheduler.store.scripts import script

if TYPE_CHECKING:
    from typing import Any

    from lingua_scheduler.store.connection import Carrier
    from lingua_scheduler.store.reign import Home

_SCRIPT: Final = script("store/witness")
#: A server that nobody asked for so long may have no cells any more; if it has, it is connected to again.
_IDLE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Replication:
    """How many replicas must have what is promised, and how long that may take."""

    replicas: int
    timeout_ms: int
    #: How long the server may take beyond that.
    call_timeout_ms: int = 900


class Assurance:
    """One for all servers of an engine."""

    def __init__(self, carrier: Carrier, prefix: str, replication: Replication) -> None:
        self._carrier = carrier
        self._prefix = prefix
        self._replication = replication
        self._witnesses: dict[Home, _Witness] = {}

    async def wait(self, cell: str, era: int) -> None:
        """Until what was done in this cell since that era began is on enough replicas, else `OutcomeUnknown`."""
        home = self._carrier.home_of(cell)
        if home is None or era != self._carrier.era:
            raise OutcomeUnknown("another server may serve by now, and may never have heard of it")
        witness = self._witnesses.get(home)
        if witness is None:
            witness = self._witnesses[home] = _Witness(home, self._replication)
        written = witness.write(cell_key(self._prefix, cell, "witness"))
        past = [self._witnesses.pop(one) for one in self._past(home)]
        await (asyncio.gather(written, *(one.close() for one in past)) if past else written)

    def _past(self, home: Home) -> list[Home]:
        """Where nobody is needed any more: an address has one reign at a time, and primaries come and go."""
        if len(self._witnesses) == 1:
            return []
        since_s = asyncio.get_running_loop().time() - _IDLE_S
        return [
            one
            for one, witness in self._witnesses.items()
            if one != home and (one.address == home.address or witness.is_idle(since_s))
        ]

    async def close(self) -> None:
        """Whoever waits is told that nobody knows."""
        witnesses, self._witnesses = list(self._witnesses.values()), {}
        for witness in witnesses:
            await witness.close()


class _Witness:
    """Of one server under one reign."""

    def __init__(self, home: Home, replication: Replication) -> None:
        self._home = home
        self._replication = replication
        self._connection = Connection(
            home.address,
            timeout_ms=replication.timeout_ms + replication.call_timeout_ms,
            patience_ms=replication.timeout_ms,
            name="lingua-waits",
        )
        self._connection.preamble = lambda: [encode("SCRIPT", "LOAD", _SCRIPT.source)]
        self._key = ""
        #: Those who will have the next witness, and whoever writes them.
        self._gathered: list[asyncio.Future[None]] = []
        self._writing: asyncio.Task[None] | None = None
        self._asked_s = 0.0

    def is_idle(self, since_s: float) -> bool:
        """Whether nobody has asked for it since then."""
        return self._writing is None and self._asked_s < since_s

    def write(self, key: str) -> asyncio.Future[None]:
        """Done when a witness that is written from now on is on enough replicas. `key` is where it may be written."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._asked_s = loop.time()
        self._gathered.append(future)
        self._key = key
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return future

    async def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        await self._connection.close()

    async def _write_all(self) -> None:
        waiting: list[asyncio.Future[None]] = []
        try:
            while self._gathered:
                waiting, self._gathered = self._gathered, []
                try:
                    await self._write(self._key)
                except LinguaError as error:
                    for future in waiting:
                        fail(future, partial(OutcomeUnknown, f"done, but perhaps not to stay: {error}"))
                else:
                    for future in waiting:
                        if not future.done():
                            future.set_result(None)
        finally:
            self._writing = None
            for future in (*waiting, *self._gathered):
                fail(future, partial(OutcomeUnknown, "done, but perhaps not to stay: nobody waited for the replicas"))

    async def _write(self, key: str) -> None:
        wanted, timeout_ms = self._replication.replicas, self._replication.timeout_ms
        written, there, info = await self._ask(key, wanted, timeout_ms)
        if isinstance(written, DependencyDown) and written.reason == "NOSCRIPT":
            # Somebody has flushed them.
            await self._connection.call("SCRIPT", "LOAD", _SCRIPT.source)
            written, there, info = await self._ask(key, wanted, timeout_ms)
        for outcome in (written, there):
            if isinstance(outcome, BaseException):
                raise outcome
        if reign_in(info).id != self._home.reign:
            raise LinguaError(f"{self._home.address} is not the primary that it was")
        if there < wanted:
            raise LinguaError(f"{there} of {wanted} replicas of {self._home.address} had it within {timeout_ms} ms")

    async def _ask(self, key: str, wanted: int, timeout_ms: int) -> tuple[Any, Any, Any]:
        """In one write, so on one socket, or on none."""
        call = self._connection.call
        asked = (
            call("EVALSHA", _SCRIPT.sha, 1, key),
            call("WAIT", wanted, timeout_ms),
            call("INFO", *SECTIONS),
        )
        return await asyncio.gather(*asked, return_exceptions=True)
