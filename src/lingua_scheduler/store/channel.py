"""What may be lost: words from one instance to another by Pub/Sub. Who is not there, or slow, misses them."""

from __future__ import annotations

import asyncio
import functools
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, LinguaError, ScriptFailed
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.address import Cluster, Sentinels, parse_place
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.resp import encode
from lingua_scheduler.store.sentinel import SentinelConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Any, Self

    from lingua_scheduler.store.address import Address, Place
    from lingua_scheduler.store.engine import Engine
    from lingua_scheduler.store.wire import Wire

_PING_S: Final = 5.0

log = get_log(__name__)


class _AnyOfThem(Connection):
    """To any server of a Cluster: what is published at one is heard at all."""

    def __init__(self, place: Cluster, known: Callable[[], Sequence[Address]]) -> None:
        self._seeds = place.seeds
        self._known = known
        super().__init__(place.seeds[0])

    async def _locate(self) -> None:
        """Those that the URL names may be gone for good by now, and others be there."""
        self.address = random.choice(self._known() or self._seeds)


class _Watched(SentinelConnection):
    """To whom the Sentinels name as the primary. What is said there is heard at its replicas, too."""

    async def _examine(self, wire: Wire) -> None:
        """Who listens may ask for nothing else."""


class Ear:
    """Listens to channels, on a connection of its own, again whenever that was lost."""

    def __init__(self, engine: Engine, url: str, hear: Callable[[bytes], None], *names: str) -> None:
        """`engine`: a client of the same, which knows its servers."""
        self._engine = engine
        self._url = url
        self._names = names
        self._hear = hear
        self._connection: Connection
        self._pinging: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._connection = _connection(parse_place(self._url), lambda: self._engine.servers)
        self._connection.on_message = self._hear
        self._connection.preamble = lambda: [encode("SUBSCRIBE", name) for name in self._names]
        self._pinging = asyncio.create_task(self._ping())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pinging.cancel()
        await self._connection.close()

    async def listens(self) -> None:
        """Wait until what is said is heard."""
        await self._connection.ready()

    async def _ping(self) -> None:
        """Who only listens does not notice that nobody is there."""
        while True:
            await asyncio.sleep(_PING_S)
            with suppress(LinguaError):
                await self._connection.call("PING")


def _connection(place: Place, known: Callable[[], Sequence[Address]]) -> Connection:
    if isinstance(place, Cluster):
        return _AnyOfThem(place, known)
    return _Watched(place) if isinstance(place, Sentinels) else Connection(place)


def publish(engine: Engine, name: str, word: bytes) -> None:
    """Say it, and wait for nothing."""
    engine.command("PUBLISH", name, word, cell=name).add_done_callback(_forget)


def _forget(said: asyncio.Future[Any]) -> None:
    error = None if said.cancelled() else said.exception()
    if isinstance(error, ScriptFailed) or (isinstance(error, DependencyDown) and error.reason == "NOPERM"):
        _say_once(str(error))


@functools.cache
def _say_once(why: str) -> None:
    log.warning("hint", reason=why, detail="other instances are not told what may be lost")
