"""The state engines that can be broken: embedded, behind Sentinels, a Cluster. Each runs from a folder of its own.

What is done to them is done to processes, by their ids, and with commands that go past every client of ours.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import hiredis

from chaos.network import Way
from lingua_scheduler.store.embedded import Embedded
from lingua_scheduler.store.keys import DIRECTORY
from lingua_scheduler.store.slots import slot_of
from tests.support.asking import ask_one
from tests.support.clusters import Sixpack
from tests.support.proxy import Proxy
from tests.support.sentinels import Trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from chaos.plan import EngineKind
    from tests.support.clusters import Node
    from tests.support.sentinels import Member
    from tests.support.servers import Server

_WELL_S: Final = 30.0
_TAKES_OVER_S: Final = 10.0
#: A primary that is silent for so long has a successor.
_SILENT_MS: Final = 1_500
#: What is in a slot of its own, and much in use.
_SLOTS: Final = ("c0", DIRECTORY, "c1", "c2")
#: A slow engine runs for one of these and sleeps for the other.
_RUNS_S, _SLEEPS_S = 0.01, 0.06


class ChaosEngine(Protocol):
    """What the nemesis can do to an engine. `whom` chooses among its processes."""

    #: Where the auditor looks, past every proxy.
    url: str
    #: How instances get to it, where we stand between.
    ways: list[Way]

    def url_for(self, number: int) -> str:
        """Where the instance of this number finds it; "": it shares the embedded one by its data directory."""

    def pids(self) -> list[int]:
        """The processes that serve."""

    def alone(self) -> AbstractAsyncContextManager[None]:
        """One fault of the engine at a time, where a second one would lose what was confirmed by definition."""

    async def primaries(self) -> list[str]:
        """Who answers for the data now: when that changes, the engine has failed over."""

    async def kill(self, whom: int, how: signal.Signals) -> None:
        """End one that serves; somebody brings it, or another, back."""

    async def flush_scripts(self) -> None:
        """Let every server forget the scripts."""

    async def fail_over(self, whom: int) -> None:
        """Let a replica take over."""

    async def kill_replica(self, whom: int, for_s: float) -> None:
        """A replica is gone for a while."""

    async def kill_guardian(self) -> None:
        """Whoever looks after the engine is gone."""

    async def move_slot(self, whom: int) -> None:
        """Under load, another primary gets a cell, or the directory."""

    async def well(self) -> None:
        """Everything runs, and has its data: nothing is left of what was done."""


class OnOneServer:
    """The embedded engine. Its first instance is a user of it as in real life; between it and the others we stand."""

    def __init__(self, embedded: Embedded, ways: list[Way]) -> None:
        self._embedded = embedded
        self.ways = ways
        self.url = embedded.url

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path, instances: int) -> AsyncIterator[OnOneServer]:
        """Start it."""
        async with AsyncExitStack() as stack:
            embedded = await stack.enter_async_context(Embedded(folder / "engine"))
            wires = [
                await stack.enter_async_context(Proxy(str(embedded.socket_path))) for _ in range(max(1, instances - 1))
            ]
            yield cls(embedded, [Way(number, wire.url, [wire], []) for number, wire in enumerate(wires, 1)])

    def url_for(self, number: int) -> str:
        """Every other one through a proxy of its own."""
        return self.ways[number - 1].url if number else ""

    async def primaries(self) -> list[str]:
        """Always the same."""
        return []

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Its file has all that was confirmed: it bears any number of faults at once."""
        return nullcontext()

    def pids(self) -> list[int]:
        """The server, if there is one now."""
        state = self._embedded.state
        return [state.engine] if state is not None and state.engine else []

    async def kill(self, _whom: int, how: signal.Signals) -> None:
        """Its guardian starts it again."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, how)

    async def flush_scripts(self) -> None:
        """By a user who does not know better."""
        await _ask(str(self._embedded.socket_path), "SCRIPT", "FLUSH")

    async def fail_over(self, _whom: int) -> None:
        """There is nobody."""

    async def kill_replica(self, _whom: int, _for_s: float) -> None:
        """There is none."""

    async def kill_guardian(self) -> None:
        """The engine goes with it, and a user starts another."""
        state = self._embedded.state
        if state is not None:
            with suppress(ProcessLookupError):
                os.kill(state.guardian, signal.SIGKILL)

    async def move_slot(self, _whom: int) -> None:
        """Everything is in one place."""

    async def well(self) -> None:
        """It answers."""
        await _until(self._answers)

    def _answers(self) -> bool:
        return bool(ask_one(str(self._embedded.socket_path), "PING") == "PONG")


class _OnMany:
    """What a Sentinel trio and a Cluster have in common: our own servers, some of them primaries."""

    url: str

    def __init__(self, ways: list[Way]) -> None:
        self.ways = ways
        self._one = asyncio.Lock()

    def url_for(self, number: int) -> str:
        """Every instance finds the primary by itself, at the host of its own wires."""
        return self.ways[number].url

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Nothing is done to it before the replicas have what the primaries have."""
        async with self._one:
            await self.well()
            yield

    async def well(self) -> None:
        """Everything runs, and has its data."""
        raise NotImplementedError

    def _servers(self) -> list[Server]:
        raise NotImplementedError

    async def primaries(self) -> list[str]:
        """Who says that he is one, by their sockets."""
        return await asyncio.to_thread(lambda: sorted(server.path for server in self._servers() if _leads(server)))

    async def _advise(self) -> None:
        """As docs/architecture.md tells: a primary without its replica takes nothing. And this machine is busy."""
        for server in self._servers():
            await _ask(server.path, "CONFIG", "SET", "min-replicas-to-write", "1", "min-replicas-max-lag", "10")

    def pids(self) -> list[int]:
        """All that run, primaries or not."""
        return [server.pid for server in self._servers() if server.process.poll() is None]

    async def flush_scripts(self) -> None:
        """On every server that answers."""
        for server in self._servers():
            await _ask(server.path, "SCRIPT", "FLUSH")

    async def kill_guardian(self) -> None:
        """There is none."""

    async def move_slot(self, whom: int) -> None:
        """Everything is in one place."""


class OnSentinels(_OnMany):
    """A primary, a replica, three Sentinels."""

    def __init__(self, trio: Trio, ways: list[Way]) -> None:
        super().__init__(ways)
        self._trio = trio
        self.url = trio.url

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path, instances: int) -> AsyncIterator[OnSentinels]:
        """Start all of it. To servers and Sentinels themselves there is no host but their own."""
        (folder / "engine").mkdir()
        trio = Trio(folder / "engine")
        ports = [[member.port for member in members] for members in (trio.servers, trio.sentinels)]
        async with AsyncExitStack() as stack:
            stack.callback(trio.stop)
            await asyncio.to_thread(trio.start)
            ways = [await stack.enter_async_context(Way.open(n, trio.url, *ports)) for n in range(instances)]
            engine = cls(trio, ways)
            await engine._advise()
            yield engine

    def _servers(self) -> list[Server]:
        return [member.server for member in self._trio.servers]

    async def kill(self, _whom: int, how: signal.Signals) -> None:
        """The primary: the other one takes over, and it comes back as a replica."""
        primary = await self._found(is_primary=True)
        if primary is not None:
            others = [one for one in self._trio.servers if one is not primary]
            await asyncio.to_thread(primary.server.stop, how)
            await _until(lambda: others[0].is_primary, _TAKES_OVER_S)
            await self._start_again()

    async def fail_over(self, _whom: int) -> None:
        """As an operator asks for it."""
        replica = await self._found(is_primary=False)
        await _ask(self._trio.sentinels[0].server.path, "SENTINEL", "FAILOVER", "lingua")
        if replica is not None:
            await _until(lambda: replica.is_primary, _TAKES_OVER_S)

    async def kill_replica(self, _whom: int, for_s: float) -> None:
        """Nobody could take over meanwhile."""
        replica = await self._found(is_primary=False)
        if replica is not None:
            await asyncio.to_thread(replica.server.stop)
            await asyncio.sleep(for_s)
            await self._start_again()

    async def _found(self, *, is_primary: bool) -> Member | None:
        for member in self._trio.servers:
            with suppress(OSError, hiredis.HiredisError):
                if member.server.process.poll() is None and await asyncio.to_thread(_is_primary, member) == is_primary:
                    return member
        return None

    async def _start_again(self) -> None:
        for member in self._trio.servers:
            if member.server.process.poll() is not None:
                others = [one for one in self._trio.servers if one is not member]
                await asyncio.to_thread(member.start, "--replicaof", f"127.0.0.1 {others[0].port}")
        await self._advise()

    async def _advise(self) -> None:
        await super()._advise()
        for sentinel in self._trio.sentinels:
            await _ask(sentinel.server.path, "SENTINEL", "SET", "lingua", "down-after-milliseconds", str(_SILENT_MS))

    async def well(self) -> None:
        """One primary, one replica that has its data, and every Sentinel knows it."""
        await self._start_again()
        await _until(self._is_well)

    def _is_well(self) -> bool:
        self._trio.settled()
        roles = sorted(member.is_primary for member in self._trio.servers)
        return roles == [False, True] and self._trio.replica().has_its_primary


class OnCluster(_OnMany):
    """Three primaries, three replicas."""

    def __init__(self, six: Sixpack, ways: list[Way]) -> None:
        super().__init__(ways)
        self._six = six
        self.url = six.url

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path, instances: int) -> AsyncIterator[OnCluster]:
        """Start all of it. To clients a server names only ports: whoever they name is at the host that was asked."""
        (folder / "engine").mkdir()
        six = Sixpack(folder / "engine", words=("--cluster-preferred-endpoint-type", "unknown-endpoint"))
        ports = [node.port for node in six.nodes]
        async with AsyncExitStack() as stack:
            stack.callback(six.stop)
            await asyncio.to_thread(six.start)
            ways = [await stack.enter_async_context(Way.open(n, six.url, ports)) for n in range(instances)]
            engine = cls(six, ways)
            await engine._advise()
            yield engine

    def _servers(self) -> list[Server]:
        return [node.server for node in self._six.nodes]

    async def kill(self, whom: int, how: signal.Signals) -> None:
        """A primary: its replica takes over, and it comes back as one."""
        found = await self._found(whom, is_primary=True)
        if found is not None:
            replica = await asyncio.to_thread(self._six.replica_of, found)
            await asyncio.to_thread(found.server.stop, how)
            await _until(lambda: replica.is_primary, _TAKES_OVER_S)
            await self._start_again()

    async def fail_over(self, whom: int) -> None:
        """As an operator asks for it, of a replica."""
        found = await self._found(whom, is_primary=False)
        if found is not None:
            await _ask(found.server.path, "CLUSTER", "FAILOVER")
            await _until(lambda: found.is_primary, _TAKES_OVER_S)

    async def kill_replica(self, whom: int, for_s: float) -> None:
        """Nobody could take over from its primary meanwhile."""
        found = await self._found(whom, is_primary=False)
        if found is not None:
            await asyncio.to_thread(found.server.stop)
            await asyncio.sleep(for_s)
            await self._start_again()

    async def move_slot(self, whom: int) -> None:
        """Key by key, or all keys in one moment. What was interrupted is gone on with."""
        slot = slot_of(_SLOTS[whom % len(_SLOTS)])
        six, at_once = self._six, whom // len(_SLOTS) % 2

        def moved() -> bool:
            target = targets[whom % len(targets)]
            if six.primary_of(slot) is not target:
                (six.hand_over_at_once if at_once else six.hand_over)(slot, target)
            return True

        home = await asyncio.to_thread(six.primary_of, slot)
        targets = [node for node in await asyncio.to_thread(six.primaries) if node is not home]
        await _until(moved)

    async def _found(self, whom: int, *, is_primary: bool) -> Node | None:
        nodes = self._six.nodes
        for number in range(len(nodes)):
            node = nodes[(whom + number) % len(nodes)]
            with suppress(OSError, hiredis.HiredisError):
                if node.server.process.poll() is None and await asyncio.to_thread(_is_primary, node) == is_primary:
                    return node
        return None

    async def _start_again(self) -> None:
        for node in self._six.nodes:
            if node.server.process.poll() is not None:
                await asyncio.to_thread(node.start)
        await self._advise()

    async def _advise(self) -> None:
        await super()._advise()
        for server in self._servers():
            await _ask(server.path, "CONFIG", "SET", "cluster-node-timeout", str(_SILENT_MS))

    async def well(self) -> None:
        """Every process sees a whole Cluster, and every replica has its primary's data."""
        await self._start_again()
        await _until(self._is_well)

    def _is_well(self) -> bool:
        self._six.settled()
        return True


_OPEN: Final[dict[str, Callable[[Path, int], Any]]] = {
    "embedded": OnOneServer.open,
    "sentinel": OnSentinels.open,
    "cluster": OnCluster.open,
}


def open_engine(kind: EngineKind, folder: Path, instances: int) -> Any:  # noqa: ANN401 - a context with a ChaosEngine
    """An engine of this kind, as an asynchronous context."""
    return _OPEN[kind](folder, instances)


async def slow_down(pids: list[int], for_s: float) -> None:
    """Give these processes a small part of their time."""
    until = time.monotonic() + for_s
    rng = random.Random(for_s)
    while time.monotonic() < until:
        await asleep(pids, rng.uniform(0, _SLEEPS_S))
        await asyncio.sleep(_RUNS_S)


async def asleep(pids: list[int], for_s: float) -> None:
    """SIGSTOP, and SIGCONT whatever happens."""
    try:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(for_s)
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _leads(server: Server) -> bool:
    try:
        return server.process.poll() is None and bool(ask_one(server.path, "ROLE")[0] == "master")
    except (OSError, hiredis.HiredisError):
        return False


def _is_primary(server: Member | Node) -> bool:
    return server.is_primary


async def _ask(path: str, *words: str) -> None:
    """Whether or not anybody answers."""
    with suppress(OSError, hiredis.HiredisError):
        await asyncio.to_thread(ask_one, path, *words)


async def _until(is_so: Callable[[], object], patience_s: float = _WELL_S) -> None:
    """Look until it is so, or patience is over: what is not well then is seen by whoever needs it."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        with suppress(OSError, hiredis.HiredisError, AssertionError, StopIteration):
            if await asyncio.to_thread(is_so):
                return
        await asyncio.sleep(0.05)
