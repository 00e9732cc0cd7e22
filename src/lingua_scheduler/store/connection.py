"""One connection to the engine that keeps itself alive.

What was never written waits for the next socket, for a short while. What may have been written is never sent
again: its outcome is unknown, and only the caller knows by which op id to ask.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown, ScriptFailed
from lingua_scheduler.store.reign import NOBODY, SECTIONS, Home, Reign, reign_in
from lingua_scheduler.store.resp import encode
from lingua_scheduler.store.slots import turn_of
from lingua_scheduler.store.wire import Call, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from typing import Any

    from lingua_scheduler.store.address import Address
    from lingua_scheduler.store.resp import Failure
    from lingua_scheduler.store.wire import Waiter

    #: Commands, step by step; each step is sent what those of the last one were answered, or failed with.
    Entering = Generator[list[bytes], list[Any], None]

#: Error replies to the PING of a new connection that mean: nobody is served here now. Others (MISCONF is one)
#: refuse some calls and serve others, so each call is left to its own reply.
_AWAY: Final = frozenset({"BUSY", "CLUSTERDOWN", "DENIED", "LOADING", "MASTERDOWN", "MAXCLIENTS", "NOAUTH"})

#: A connection that takes longer to be made and greeted is tried anew, however long its calls may take.
_GREETING_S: Final = 1.0

_ASKING: Final = encode("ASKING")

#: While calls wait, somebody looks so often. Who comes later than that once more says that this process slept.
_TICK_S: Final = 0.1


class Carrier(Protocol):
    """What the engine's face needs of a connection; Sentinel's and Cluster's follow it too."""

    #: Commands that a new socket executes before any call.
    preamble: Callable[[], list[bytes]]
    #: What a new socket must have executed before any call, by the reign under which it serves.
    entering: Callable[[str], Entering]
    #: Names of keys that every script must declare beside its own.
    guards: tuple[str, ...]
    #: Another number whenever somebody else may have come to serve something.
    era: int

    async def ready(self) -> None:
        """Wait until the engine serves; `DependencyDown` with the reason if that takes too long."""

    def send(self, data: bytes, waiter: Waiter, cell: str) -> None:
        """Add an encoded call to this tick's write. `cell`, the hash tag of all its keys, names the slot."""

    def spread(self, data: bytes, waiter_at: Callable[[str], Waiter]) -> None:
        """Add an encoded call for every server that has cells; `waiter_at` is told which."""

    def one_cell_each(self, cell: str) -> dict[str, str]:
        """A cell on every server: `cell` itself on its own, made-up ones on the others."""

    def home_of(self, cell: str) -> Home | None:
        """Where a cell is now; None: nobody has it, or nobody was there yet."""

    def flush(self) -> None:
        """Write what was added, in that order for each cell."""

    async def close(self) -> None:
        """End. Calls that wait fail, and so does every later one."""


class Asking:
    """The waiter of the ASKING before a call: it shares its fate."""

    size = 1

    def __init__(self, asked: Waiter) -> None:
        self._asked = asked
        self.born = asked.born

    def answer(self, reply: Any) -> None:  # noqa: ANN401
        """If it was refused, so is the call."""

    def fail(self, failure: Failure) -> None:
        """The call behind it fails by itself."""

    def lost(self, why: str) -> None:
        """So it does here."""

    def gone(self) -> bool:
        return self._asked.gone()


class Connection:
    """A `Carrier` to one address, for ever: it reconnects until it is closed."""

    guards: tuple[str, ...] = ()
    #: Begins the error reply after which another connection is made.
    leaves_on = ""
    #: Told what comes over a channel that the preamble subscribes to.
    on_message: Callable[[bytes], None] | None = None

    def __init__(
        self,
        address: Address,
        *,
        timeout_ms: int = 900,
        patience_ms: int = 500,
        backoff_ms: tuple[int, int] = (10, 500),
        max_pending: int = 100_000,
        name: str = "lingua",
        tls: ssl.SSLContext | None = None,
        on_lost: Callable[[], None] | None = None,
        asks_reign: bool = False,
    ) -> None:
        """A call fails after `patience_ms` when it could not be sent, after `timeout_ms` without a reply."""
        self._asks_reign = asks_reign
        self.address = address
        self._on_lost = on_lost
        #: Under whom the socket serves; `NOBODY` before the first one, and where that is not asked.
        self.reign: Reign = NOBODY
        self.era = 0
        self.preamble: Callable[[], list[bytes]] = list
        self.entering: Callable[[str], Entering] = nothing
        self._timeout = timeout_ms / 1000
        self._patience = min(patience_ms, timeout_ms) / 1000
        self._backoff = (backoff_ms[0] / 1000, backoff_ms[1] / 1000)
        self._max_pending = max_pending
        self._name = name
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._chunks: deque[bytes] = deque()
        self._queue: deque[Waiter] = deque()
        self._queued = 0
        self._flush_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        #: When it rings. It need not know itself: to uvloop what is due within half a millisecond is due now.
        self._due_at = 0.0
        self._away = partial(DependencyDown, "UNREACHABLE", f"not yet connected to {address}")
        self._ready = asyncio.Event()
        self._closed = False
        self._keeper = self._loop.create_task(self._keep(), name=f"keep {address}")

    @property
    def named(self) -> str:
        """Who this is, in a message."""
        return str(self.address)

    @property
    def serves(self) -> bool:
        """Whether a socket is there, and was greeted."""
        return self._ready.is_set()

    @property
    def on_way(self) -> int:
        """Callers whose calls were written and not answered yet."""
        return self._wire.size if self._wire is not None else 0

    async def ready(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._ready.wait()
        except TimeoutError:
            raise self._away() from None

    def call(self, *args: bytes | str | int) -> asyncio.Future[Any]:
        """Send a plain command with the others of this tick."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self.send(encode(*args), Call(future, self._loop.time()))
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self.flush)
        return future

    def send(self, data: bytes, waiter: Waiter, cell: str = "") -> None:  # noqa: ARG002 - one server has every cell
        if self._takes(waiter, waiter.size):
            self._add(data, waiter)

    def spread(self, data: bytes, waiter_at: Callable[[str], Waiter]) -> None:
        self.send(data, waiter_at(self.named))

    def one_cell_each(self, cell: str) -> dict[str, str]:
        return {self.named: cell}

    def home_of(self, cell: str) -> Home | None:  # noqa: ARG002 - one server has every cell
        return Home(self.address, self.reign.id, self.reign.is_told) if self.reign.id else None

    def ask(self, data: bytes, waiter: Waiter) -> None:
        """`send` to a server that serves the slot only to those who were told so by the slot's owner."""
        if self._takes(waiter, waiter.size + Asking.size):
            self._add(_ASKING, Asking(waiter))
            self._add(data, waiter)

    def recall(self) -> list[Waiter]:
        """Take back what was never written, in its order."""
        return [self._drop() for _ in range(len(self._queue))]

    def _takes(self, waiter: Waiter, size: int) -> bool:
        if self._closed:
            waiter.fail(self._away)
        elif self._queued + size + self.on_way > self._max_pending:
            waiter.fail(partial(DependencyDown, "OVERLOADED", f"{self._max_pending} calls are waiting for replies"))
        else:
            return True
        return False

    def _add(self, data: bytes, waiter: Waiter) -> None:
        self._chunks.append(data)
        self._queue.append(waiter)
        self._queued += waiter.size

    def flush(self) -> None:
        self._flush_scheduled = False
        queue = self._queue
        if not queue:
            return
        wire = self._wire
        if wire is not None and wire.writable:
            wire.write(b"".join(self._chunks), queue, self._queued)
            self._chunks.clear()
            queue.clear()
            self._queued = 0
        if self._timer is None:
            # Nobody waited before, so these are all of this tick. If it began long ago, it was interrupted.
            self._forgive(self._loop.time() - self._oldest())
            self._watch()

    async def close(self) -> None:
        self._shut()
        self._keeper.cancel()
        await asyncio.wait([self._keeper])

    # Deadlines: one timer, on whoever has waited longest. Silence counts only while this process was awake to hear.

    def _waiters(self) -> Iterable[Waiter]:
        return chain(self._wire.waiters if self._wire is not None else (), self._queue)

    def _oldest(self) -> float:
        return min(waiter.born for waiter in self._waiters())

    def _watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = []
        if self._wire is not None and self._wire.waiters:
            due.append(self._wire.waiters[0].born + self._timeout)
        if self._queue:
            due.append(self._queue[0].born + self._patience)
        self._due_at = min(*due, self._loop.time() + _TICK_S) if due else 0.0
        self._timer = self._loop.call_at(self._due_at, self._expire) if due else None

    def _forgive(self, slept: float) -> None:
        """What waited while this process slept is younger by that time."""
        if slept > _TICK_S:
            now = self._loop.time()
            for waiter in self._waiters():
                waiter.born = min(waiter.born + slept, now)

    def _expire(self) -> None:
        now = self._loop.time()
        self._forgive(now - self._due_at)
        wire = self._wire
        if wire is not None and wire.waiters and wire.waiters[0].born + self._timeout <= now:
            wire.die(f"no reply within {self._timeout * 1000:.0f} ms")
        while self._queue and self._queue[0].born + self._patience <= now:
            self._drop().fail(self._away)
        self._watch()

    def _drop(self) -> Waiter:
        self._chunks.popleft()
        waiter = self._queue.popleft()
        self._queued -= waiter.size
        return waiter

    # The life of the socket.

    async def _keep(self) -> None:
        failures = 0
        wire: Wire | None = None
        try:
            while True:
                # The first attempt comes at once; then full jitter, so that instances come back one by one.
                if failures:
                    low, high = self._backoff
                    await asyncio.sleep(random.uniform(0, min(high, low * 2 ** min(failures - 1, 16))))
                failures += 1
                try:
                    await self._locate()
                    async with asyncio.timeout(min(self._timeout, _GREETING_S)):
                        wire = await self._dial()
                        await self._greet(wire)
                except DependencyDown as refusal:
                    self._away = partial(DependencyDown, refusal.reason, f"{self.named}: {refusal.detail}")
                except TimeoutError:
                    self._away = partial(DependencyDown, "UNREACHABLE", f"{self.named}: no answer to a new connection")
                except (OSError, ValueError) as error:  # ValueError: a name that cannot be looked up
                    self._away = partial(DependencyDown, "UNREACHABLE", f"{self.named}: {error}")
                else:
                    self._serve(wire)
                    await wire.closed.wait()
                    if wire.answered:
                        failures = 0
                if wire is not None:
                    wire.die("it was refused")
                    wire = None
        finally:
            # Also when the loop ends and cancels every task, before anybody called `close`.
            self._shut()
            if wire is not None:
                wire.die("the connection was closed here")
                await wire.closed.wait()

    async def _locate(self) -> None:
        """Say in `address` where the next socket goes; here it is always the same."""

    async def _dial(self) -> Wire:
        address = self.address

        def make() -> Wire:
            return Wire(self.flush, self._lost, self.leaves_on, self.on_message)

        if address.path:
            _, wire = await self._loop.create_unix_connection(make, address.path)
        else:
            tls = (self._tls or ssl.create_default_context()) if address.tls else None
            _, wire = await self._loop.create_connection(make, address.host, address.port, ssl=tls)
        return wire

    async def _greet(self, wire: Wire) -> None:
        """Log in and see that the engine serves. The preamble travels along, but its errors refuse nobody."""
        address = self.address
        login: list[tuple[str | int, ...]] = []
        if address.password:
            login.append(("AUTH", *([address.username] if address.username else []), address.password))
        if address.database:
            login.append(("SELECT", address.database))
        commands = [encode(*args) for args in (*login, ("CLIENT", "SETNAME", self._name), ("PING",))]
        checked = len(commands)
        if self._asks_reign:
            commands.append(encode("INFO", *SECTIONS))
        commands += self.preamble()
        calls = [Call(self._loop.create_future(), 0) for _ in commands]
        wire.write(b"".join(commands), calls, len(calls))
        outcomes = await asyncio.gather(*(call.future for call in calls), return_exceptions=True)
        for index, outcome in enumerate(outcomes[:checked]):
            if isinstance(outcome, DependencyDown) and (index < len(login) or outcome.reason in _AWAY):
                raise outcome
            if isinstance(outcome, ScriptFailed) and index < len(login):
                raise DependencyDown("REFUSED", str(outcome))
        if wire.why:
            raise DependencyDown("UNREACHABLE", wire.why)
        if self._asks_reign:
            self.reign = reign_in(outcomes[checked])
        await self._examine(wire)
        await self._enter(wire)
        wire.answered = False

    async def _examine(self, wire: Wire) -> None:
        """`DependencyDown` if this is not the server that was meant."""

    async def _enter(self, wire: Wire) -> None:
        """Nobody is served before this was done. What belongs to a cell of another server is done there."""
        if not self.reign.is_told:
            return
        steps = self.entering(self.reign.id)
        with suppress(StopIteration):
            commands = next(steps)
            while True:
                commands = steps.send(await self._step(wire, commands))

    async def _step(self, wire: Wire, commands: list[bytes]) -> list[Any]:
        calls = [Call(self._loop.create_future(), 0) for _ in commands]
        wire.write(b"".join(commands), calls, len(calls))
        outcomes = await asyncio.gather(*(call.future for call in calls), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, DependencyDown) and outcome.reason != "TRYAGAIN":
                raise outcome
            if isinstance(outcome, ScriptFailed) and turn_of(str(outcome)) is None:
                raise DependencyDown("REFUSED", str(outcome))
            if isinstance(outcome, OutcomeUnknown):
                raise DependencyDown("UNREACHABLE", wire.why)
        return outcomes

    def _serve(self, wire: Wire) -> None:
        for _ in range(len(self._queue)):
            data, waiter = self._chunks[0], self._drop()
            if waiter.gone():
                waiter.fail(self._away)
            else:
                self._add(data, waiter)
        self._away = partial(DependencyDown, "UNREACHABLE", f"{self.named}: it takes no more bytes")
        self._wire = wire
        self.era += 1
        self._ready.set()
        self.flush()

    def _lost(self, wire: Wire) -> None:
        if wire is not self._wire:
            return
        self._wire = None
        self._ready.clear()
        self._away = partial(DependencyDown, "UNREACHABLE", f"{self.named}: {wire.why}")
        self._watch()
        if self._on_lost is not None:
            self._on_lost()

    def _shut(self) -> None:
        self._closed = True
        if self._wire is not None:
            self._wire.die("the connection was closed here")
        self._away = partial(DependencyDown, "CLOSED", f"the connection to {self.named} was closed here")
        while self._queue:
            self._drop().fail(self._away)
        self._watch()


def nothing(_reign: str) -> Entering:
    """Whoever is connected is served."""
    yield from ()
