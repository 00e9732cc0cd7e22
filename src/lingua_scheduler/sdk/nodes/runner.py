"""A node on its socket: what is heard goes through its membership, and what comes of that is done. It comes back."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, assert_never

from websockets.exceptions import ConnectionClosed

from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.sdk._backoff import Backoff
from lingua_scheduler.sdk._connect import close_socket, fetch_audio, open_socket
from lingua_scheduler.sdk.client_errors import ClientError, Refused, Unreachable
from lingua_scheduler.sdk.nodes.attempts import Begin, Ping, Say, Stop
from lingua_scheduler.sdk.nodes.membership import ComeAgain, GiveUp, Joined, Leave, Note
from lingua_scheduler.sdk.nodes.work import Work, ends_all, in_thread, is_async

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from websockets.asyncio.client import ClientConnection

    from lingua_scheduler.sdk._address import Address
    from lingua_scheduler.sdk.nodes.attempts import Answer, Attempts, Key
    from lingua_scheduler.sdk.nodes.membership import Act, Membership
    from lingua_scheduler.sdk.nodes.work import Handler

    Load = Callable[[], object]

#: A socket that lived so long was a good one: the next try is the first again.
_GOOD_S: Final = 5.0
#: So long a scheduler may take to answer a registration.
_ANSWER_S: Final = 10.0
#: More than this waits to be written: partials are left out.
_MANY: Final = 64
#: So long a heartbeat waits for `load_fn`; then the last load is said again.
_LOAD_S: Final = 1.0
#: When it is time to go, the last words get so long.
_LAST_WORDS_S: Final = 2.0
#: The event loop should never be held up for so long: acks, pings and heartbeats wait.
_HELD_UP_S: Final = 1.0

STOPPED: Final = "the node ended before it was in the fleet"

log: Final = logging.getLogger("lingua.node")


class Runner:
    """From the first connection to the last. `drain` and `stop` may be called in the loop's own thread."""

    def __init__(
        self,
        membership: Membership,
        attempts: Attempts,
        handler: Handler,
        *,
        address: Address,
        token: str | None,
        drain_s: float,
        load: Load | None = None,
    ) -> None:
        self._membership = membership
        self._attempts = attempts
        self._address = address
        self._token = token
        self._drain_s = drain_s
        self._load = load
        self._last_load: dict[str, float] | None = None
        self._measuring: asyncio.Task[None] | None = None
        self._work = Work(handler, self._fetch, self)
        self._backoff = Backoff()
        self._outbox: deque[Say | Ping] = deque()
        self._has_mail = asyncio.Event()
        self._draining = asyncio.Event()
        #: Nothing is in hand.
        self._quiet = asyncio.Event()
        #: Nothing waits to be written.
        self._written = asyncio.Event()
        self._over = asyncio.Event()
        self._failed: Refused | None = None
        #: Set while the node is in the fleet.
        self.joined = asyncio.Event()

    async def run(self) -> None:
        """Until it is drained or stopped; raises `Refused` if it cannot be in the fleet."""
        self._quiet.set()
        helpers = [asyncio.create_task(one) for one in (self._stay(), self._drained(), self._watch_loop())]
        try:
            await self._over.wait()
        finally:
            # Also if this is cancelled: whoever waits for the fleet waits no longer.
            self._over.set()
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            await self._work.close()
        for helper in helpers:
            if not helper.cancelled() and (error := helper.exception()) is not None:
                raise error
        if self._failed is not None:
            raise self._failed

    def drain(self) -> None:
        """Take no new job, end those that are here, and go."""
        if not self._attempts.is_draining:
            log.info("draining", extra={"jobs": self._attempts.busy, "at_most_s": self._drain_s})
        self._attempts.is_draining = True
        self._do(self._membership.beat(self._last_load))
        self._draining.set()

    def stop(self) -> None:
        """Go at once."""
        self._over.set()

    async def in_fleet(self) -> None:
        """Wait until it is in the fleet; an error says why it will not be."""
        ways = [asyncio.create_task(self.joined.wait()), asyncio.create_task(self._over.wait())]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
        if ways[0] not in done:
            raise self._failed or ClientError("NODE_STOPPED", STOPPED)

    async def _drained(self) -> None:
        await self._draining.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._drain_s):
                await self._quiet.wait()
        self._do(self._attempts.abandon("the node stopped before it was done"))
        self._do(self._membership.gone())
        if self.joined.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_S):
                    await self._quiet.wait()
                    await self._written.wait()
        self._over.set()

    async def _stay(self) -> None:
        """In the fleet, whatever happens to the socket."""
        try:
            while True:
                verdict = await self._once()
                if isinstance(verdict, GiveUp):
                    self._failed = verdict.error
                    return
                delay_s = self._backoff.next_s(verdict.after_s)
                log.warning("not in the fleet", extra={"why": verdict.reason, "again_in_ms": round(delay_s * 1000)})
                await asyncio.sleep(delay_s)
        finally:
            self._over.set()

    async def _once(self) -> ComeAgain | GiveUp:
        """One socket, from its opening to its end."""
        try:
            socket = await open_socket(self._address, "/ws/node", self._token)
        except Unreachable as away:
            hint = " (`lingua serve` starts one)" if self._address.is_loopback else ""
            return ComeAgain(f"no scheduler at {self._address}: {away.detail}{hint}")
        except Refused as refused:
            return self._membership.refused(refused)
        clock = asyncio.get_running_loop().time
        began = clock()
        self._outbox.clear()
        self._do(self._membership.connected())
        helpers = [asyncio.create_task(one) for one in (self._write(socket), self._beat())]
        verdict: ComeAgain | GiveUp | None = None
        try:
            verdict = await self._listen(socket)
        finally:
            self.joined.clear()
            for helper in helpers:
                helper.cancel()
            await close_socket(socket)
            await asyncio.gather(*helpers, return_exceptions=True)
            closed = self._membership.lost(socket.close_code, socket.close_reason or "")
            self._settle()
        if clock() - began > _GOOD_S:
            self._backoff.reset()
        return verdict or closed

    async def _listen(self, socket: ClientConnection) -> ComeAgain | GiveUp | None:
        """Do what is said, until we hang up; None: the other side did, or the socket broke."""
        try:
            async with asyncio.timeout(_ANSWER_S) as patience:
                async for data in socket:
                    verdict = self._do(self._membership.hear(data))
                    if verdict is not None:
                        return verdict
                    if self._membership.is_in:
                        patience.reschedule(None)
        except ConnectionClosed:
            return None
        except TimeoutError:
            return ComeAgain(f"no answer to the registration within {_ANSWER_S:g} s")
        return None

    def _do(self, acts: Iterable[Act]) -> ComeAgain | GiveUp | None:
        """Do what is to be done, in its order."""
        for act in acts:
            match act:
                case Say() | Ping():
                    self._outbox.append(act)
                    self._has_mail.set()
                    self._written.clear()
                case Begin(message, audio):
                    self._work.begin(message, audio, self._membership.node_id)
                case Stop(key, _):
                    self._work.stop(key)
                case Joined(ack):
                    fields = {"node_id": ack.node_id, "pools": ack.pools, "scheduler": str(self._address)}
                    log.info("joined", extra=fields)
                    for warning in ack.warnings:
                        log.warning("the scheduler warns", extra={"warning": warning})
                    self.joined.set()
                case Leave(reason):
                    log.info("told to end", extra={"why": reason})
                    self.drain()
                case Note(text):
                    log.info("heard", extra={"said": text})
                case ComeAgain() | GiveUp():
                    return act
                case _:
                    assert_never(act)
        self._settle()
        return None

    def _settle(self) -> None:
        (self._quiet.set if self._attempts.is_idle else self._quiet.clear)()

    async def _write(self, socket: ClientConnection) -> None:
        """Write what is to be said, at the pace of the other side."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self._has_mail.wait()
                self._has_mail.clear()
                while self._outbox:
                    match self._outbox.popleft():
                        case Say(message):
                            await socket.send(encode(message).decode())
                        case Ping(number):
                            pong = asyncio.ensure_future(await socket.ping())
                            pong.add_done_callback(functools.partial(self._ponged, number))
                self._written.set()

    def _ponged(self, number: int, pong: asyncio.Future[float]) -> None:
        if not pong.cancelled() and pong.exception() is None:
            self._do(self._attempts.ponged(number))

    async def _beat(self) -> None:
        """At once, and then so often as the scheduler wants it."""
        await self.joined.wait()
        while True:
            await self._measure()
            self._do(self._membership.beat(self._last_load))
            await asyncio.sleep(self._membership.interval_s)

    async def _measure(self) -> None:
        """Ask `load_fn`, which may block; nobody waits long for it, and it is never asked twice at once."""
        if self._load is None:
            return
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.create_task(self._ask(self._load))
        await asyncio.wait([self._measuring], timeout=_LOAD_S)

    async def _ask(self, load: Load) -> None:
        try:
            self._last_load = as_load(await call_load(load))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # A node that cannot say how busy it is can still work.
            if ends_all(error, blocks=not is_async(load)):
                raise
            log.warning("load_fn failed", extra={"error": f"{type(error).__name__}: {error}"})
            self._last_load = None

    async def _watch_loop(self) -> None:
        """Say so when a handler holds up the event loop: then nobody hears that the node is alive."""
        clock = asyncio.get_running_loop().time
        while True:
            before = clock()
            await asyncio.sleep(_HELD_UP_S / 2)
            held_up_s = clock() - before - _HELD_UP_S / 2
            if held_up_s > _HELD_UP_S:
                log.warning(HELD_UP, extra={"held_up_ms": round(held_up_s * 1000)})

    async def _fetch(self, ref: str) -> bytes:
        return await fetch_audio(self._address, ref, self._token, self._membership.node_id or "")

    def finished(self, key: Key, answer: Answer) -> None:
        """A handler has ended."""
        self._do(self._attempts.finished(key, answer))

    def partial(self, key: Key, text: str, is_final: bool) -> None:
        """A handler has understood something."""
        if len(self._outbox) < _MANY:
            self._do(self._attempts.partial(key, text, is_final=is_final))


HELD_UP: Final = (
    "the handler held up the event loop; write it as a plain `def`, and it runs in a thread, or await what takes long"
)


async def call_load(load: Load) -> object:
    """How busy the node is, by its own word."""
    if is_async(load):
        return await load()  # type: ignore[misc] # `is_async` says so
    return await in_thread(load, name="load_fn")


def as_load(value: object) -> dict[str, float]:
    """A number from 0 to 1 is that of the GPU; a dict may name cpu, gpu and mem."""
    named = value if isinstance(value, dict) else {"gpu": value}
    load: dict[str, float] = {}
    for name, share in named.items():
        if name not in {"cpu", "gpu", "mem"} or isinstance(share, bool) or not isinstance(share, int | float):
            raise ValueError("load_fn returns a number from 0 to 1, or a dict of such for some of cpu, gpu and mem")
        load[name] = min(max(float(share), 0.0), 1.0)
    return load
