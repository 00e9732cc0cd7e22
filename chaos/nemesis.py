"""Whoever breaks things: does what the plan says, when it says so, and mends it when its time is over."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from chaos.cast import AN_HOUR_S
from chaos.engines import asleep, slow_down

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chaos.callers import Callers
    from chaos.cast import Instance, Stage
    from chaos.network import Network, Way
    from chaos.plan import Fault
    from tests.support.proxy import Proxy

_DELAY_S = (0.02, 0.3)
#: Somebody is answered by then; if not, his way is a hole, or nobody is there.
_REPLIES_S = 3.0
#: What is done to the servers of an engine.
_OF_ENGINES = frozenset(
    {
        "engine_kill",
        "engine_restart",
        "engine_sleep",
        "engine_slow",
        "fail_over",
        "replica_kill",
        "guardian_kill",
        "slot_moves",
    }
)


class Nemesis:
    """`run` a plan; `heal` at the end, whatever is still broken."""

    def __init__(self, stage: Stage, callers: Callers) -> None:
        self._stage, self._callers, self._pen = stage, callers, stage.pen
        self._under_way: set[asyncio.Task[None]] = set()
        self.done: dict[str, int] = {}
        #: What went wrong here, and not there.
        self.failures: list[Exception] = []

    async def run(self, plan: list[Fault]) -> None:
        """Each fault at its time, whatever became of those before it."""
        begun = time.monotonic()
        for number, fault in enumerate(plan):
            await asyncio.sleep(max(0.0, begun + fault.at_s - time.monotonic()))
            task = asyncio.create_task(self._do(number, fault))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _do(self, number: int, fault: Fault) -> None:
        act = getattr(self, f"_{fault.kind}")
        engine = self._stage.engine.alone() if fault.kind in _OF_ENGINES else nullcontext()
        try:
            async with engine:
                self._pen.write("fault", number=number, kind=fault.kind, whom=fault.whom, lasts_s=fault.lasts_s)
                self.done[fault.kind] = self.done.get(fault.kind, 0) + 1
                await act(fault)
        except Exception as error:  # noqa: BLE001 - it is told when all is over
            self.failures.append(error)
        self._pen.write("healed", number=number, kind=fault.kind)

    async def heal(self) -> None:
        """Nothing new goes wrong; what is under way is waited for, and everybody who is down comes back."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        for network in self._stage.networks:
            network.delay_s = 0.0
            network.heal()
        for way in self._stage.engine.ways:
            way.heal()
        await self._stage.engine.well()
        for instance in self._stage.instances:
            async with instance.busy:
                if instance.process is None:
                    await instance.start()
        await asyncio.gather(*(node.revive() for node in self._stage.nodes))

    async def stop(self) -> None:
        """Leave everything as it is."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    # Nodes.

    async def _node_kill(self, fault: Fault) -> None:
        node = self._stage.nodes[fault.whom % len(self._stage.nodes)]
        if node.process is not None and node.process.is_up:
            await node.process.kill()
        await asyncio.sleep(fault.lasts_s)
        await self._revive_all()

    async def _node_sleep(self, fault: Fault) -> None:
        node = self._stage.nodes[fault.whom % len(self._stage.nodes)]
        if node.process is not None and node.process.is_up:
            await asleep([node.process.pid], fault.lasts_s)

    async def _revive_all(self) -> None:
        """Also those that a poisoned job took down."""
        for node in self._stage.nodes:
            await node.revive()

    async def _poison(self, fault: Fault) -> None:
        self._callers.poison()
        await asyncio.sleep(2.0 + fault.share)
        await self._revive_all()

    async def _retry_storm(self, _fault: Fault) -> None:
        self._callers.storm()

    # Instances. One that somebody is at already is left alone: what waits for it would keep it down for minutes.

    def _instance(self, fault: Fault) -> Instance:
        return self._stage.instances[fault.whom % len(self._stage.instances)]

    async def _instance_kill(self, fault: Fault) -> None:
        instance = self._instance(fault)
        if instance.busy.locked():
            return
        async with instance.busy:
            await instance.kill()
            await asyncio.sleep(fault.lasts_s)
            await instance.start()

    async def _instance_sleep(self, fault: Fault) -> None:
        instance = self._instance(fault)
        if instance.busy.locked():
            return
        async with instance.busy:
            if instance.process is not None:
                await asleep([instance.process.pid], fault.lasts_s)

    async def _rolling_restart(self, _fault: Fault) -> None:
        for instance in self._stage.instances:
            if instance.busy.locked():
                continue
            async with instance.busy:
                await instance.end()
                await instance.start()

    async def _wrong_clock(self, fault: Fault) -> None:
        """Everybody's time is the engine's."""
        instance = self._instance(fault)
        if instance.busy.locked():
            return
        async with instance.busy:
            await instance.end()
            await instance.start(AN_HOUR_S if fault.share < 1 / 2 else -AN_HOUR_S)

    # The engine.

    async def _engine_kill(self, fault: Fault) -> None:
        await self._stage.engine.kill(fault.whom, signal.SIGKILL)

    async def _engine_restart(self, fault: Fault) -> None:
        await self._stage.engine.kill(fault.whom, signal.SIGTERM)

    async def _engine_sleep(self, fault: Fault) -> None:
        pids = self._stage.engine.pids()
        if pids:
            await asleep([pids[fault.whom % len(pids)]], fault.lasts_s)

    async def _engine_slow(self, fault: Fault) -> None:
        await slow_down(self._stage.engine.pids(), fault.lasts_s)

    async def _script_flush(self, _fault: Fault) -> None:
        await self._stage.engine.flush_scripts()

    async def _fail_over(self, fault: Fault) -> None:
        await self._stage.engine.fail_over(fault.whom)

    async def _replica_kill(self, fault: Fault) -> None:
        await self._stage.engine.kill_replica(fault.whom, fault.lasts_s)

    async def _guardian_kill(self, _fault: Fault) -> None:
        await self._stage.engine.kill_guardian()

    async def _slot_moves(self, fault: Fault) -> None:
        await self._stage.engine.move_slot(fault.whom)

    # The wires between an instance and its engine: nothing is lost on its servers, and they may fail beside that.

    def _way(self, fault: Fault) -> tuple[Way, int]:
        """Of which instance, and what chooses among its wires."""
        ways = self._stage.engine.ways
        return ways[fault.whom % len(ways)], fault.whom // len(ways)

    def _strike(self, fault: Fault, way: Way, wires: list[Proxy]) -> list[Proxy]:
        """Write down whom it meets."""
        ports, links = [wire.port for wire in wires], sum(len(wire.links) for wire in wires)
        self._pen.write("wires", kind=fault.kind, instance=f"i{way.number}", ports=ports, links=links)
        return wires

    async def _engine_cut(self, fault: Fault) -> None:
        way, whom = self._way(fault)
        for wire in self._strike(fault, way, way.some(whom, fault.share)):
            wire.cut()

    async def _engine_hole(self, fault: Fault) -> None:
        way, whom = self._way(fault)
        wires = self._strike(fault, way, way.some(whom, fault.share))
        for wire in wires:
            wire.holed = True
        await asyncio.sleep(fault.lasts_s)
        for wire in wires:
            wire.heal()

    async def _engine_delay(self, fault: Fault) -> None:
        way, whom = self._way(fault)
        await self._delayed(self._strike(fault, way, way.slow(whom, fault.share)), fault)

    async def _engine_reply_lost(self, fault: Fault) -> None:
        way, whom = self._way(fault)
        (wire,) = self._strike(fault, way, [way.one(whom)])
        lost = wire.drop_reply()
        with suppress(TimeoutError):
            async with asyncio.timeout(_REPLIES_S):
                await lost.struck.wait()
                self._pen.write("reply_lost", instance=f"i{way.number}", port=wire.port)

    # The network of nodes and callers.

    def _network(self, fault: Fault) -> Network:
        return self._stage.for_nodes if fault.whom % 2 else self._stage.for_callers

    async def _reset(self, fault: Fault) -> None:
        self._network(fault).reset(fault.share)

    async def _half_open(self, fault: Fault) -> None:
        network = self._network(fault)
        struck = network.half_open(fault.share / 2)
        await asyncio.sleep(fault.lasts_s)
        network.end(struck)

    async def _black_hole(self, fault: Fault) -> None:
        network = self._network(fault)
        struck = network.hole(fault.share / 2)
        await asyncio.sleep(fault.lasts_s)
        network.end(struck)

    async def _delay(self, fault: Fault) -> None:
        await self._delayed([self._network(fault)], fault)

    async def _dropped_reply(self, fault: Fault) -> None:
        self._network(fault).drop_reply()

    @staticmethod
    async def _delayed(proxies: Iterable[Proxy], fault: Fault) -> None:
        delay_s = random.Random(fault.whom).uniform(*_DELAY_S)
        for proxy in proxies:
            proxy.delay_s = delay_s
        await asyncio.sleep(fault.lasts_s)
        for proxy in proxies:
            proxy.delay_s = 0.0
