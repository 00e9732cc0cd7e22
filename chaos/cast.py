"""Who plays: the instances, the nodes and the crowds of a run, as processes that come and go."""

from __future__ import annotations

import asyncio
import random
import signal
from typing import TYPE_CHECKING, Final

from chaos.node import KINDS
from chaos.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from chaos.engines import ChaosEngine
    from chaos.history import Pen
    from chaos.network import Network
    from chaos.scale import Scale

#: DESIGN: not ready, hand over, go, within 15 s.
TERM_S: Final = 15.0
#: How far a wrong clock is off.
AN_HOUR_S: Final = 3_600
_DRAIN_MS: Final = 3_000


class Instance:
    """A scheduler and whoever takes its place when it is gone."""

    def __init__(self, number: int, stage: Stage) -> None:
        self.number, self.name = number, f"i{number}"
        self._stage = stage
        self._process: Process | None = None
        #: Nobody starts, ends or kills it while somebody else does.
        self.busy = asyncio.Lock()
        self.lives = 0
        #: Its name, in this life.
        self.instance_id = ""

    @property
    def process(self) -> Process | None:
        """The one that runs, or sleeps."""
        return self._process if self._process is not None and self._process.is_up else None

    async def start(self, clock_off_s: int = 0) -> None:
        """Return when it serves. While the engine is away there is no start: it is tried again, as by a supervisor."""
        stage = self._stage
        self.lives += 1
        url = stage.engine.url_for(self.number)
        store = {"LINGUA_ENGINE__URL": url} if url else {"LINGUA_ENGINE__DATA_DIR": str(stage.folder / "engine")}
        settings = stage.scale.environment() | store | {"LINGUA_SERVER__DRAIN_MS": str(_DRAIN_MS)}
        while True:
            process = self._process = await Process.start(
                *(stage.folder / f"{self.name}.log", "chaos.instance", clock_off_s, "serve", "--json", "--port", 0),
                settings=settings,
            )
            try:
                ready = await process.ready()
            except (RuntimeError, TimeoutError):
                await process.kill()
                stage.pen.write("did_not_start", instance=self.name)
                await asyncio.sleep(0.2)
                continue
            self.instance_id = ready["instance_id"]
            stage.pen.write("instance_up", instance=self.name, name=self.instance_id, clock_off_s=clock_off_s)
            for network in stage.networks:
                network.ports[self.name] = ready["port"]
            return

    def out_of_sight(self) -> None:
        """Nobody new is sent there."""
        for network in self._stage.networks:
            network.ports.pop(self.name, None)

    async def kill(self) -> None:
        """By kill -9."""
        self.out_of_sight()
        if self.process is not None:
            await self.process.kill()
            self._stage.pen.write("instance_killed", instance=self.name)

    async def end(self) -> None:
        """SIGTERM."""
        if self.process is not None:
            self.out_of_sight()
            code = await self.process.end(TERM_S)
            self._stage.pen.write("instance_ended", instance=self.name, code=code)


class Member:
    """A node, life after life."""

    def __init__(self, number: int, stage: Stage) -> None:
        self.node_id = f"n{number:02}"
        self.kind = KINDS[number % len(KINDS)]
        # A legacy node says nothing of its slots: it has as many as the settings say.
        legacy = self.kind in {"legacy", "stubborn"}
        self.slots = 2 if legacy else random.Random(f"{stage.seed}/{number}").choice((1, 2, 2, 3))
        self._stage = stage
        self.process: Process | None = None
        self.lives = 0
        self._reviving = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Another life."""
        stage, scale = self._stage, self._stage.scale
        self.lives += 1
        process = self.process = await Process.start(
            *(stage.folder / "nodes.log", "chaos.node", self.kind, self.node_id, stage.for_nodes.port),
            *("--slots", self.slots, "--life", self.lives, "--seed", f"{stage.seed}/{self.node_id}/{self.lives}"),
            *("--beat-s", scale.beat_ms / 1000, "--stuck-s", 1.3 * scale.run_ms / 1000, "--folder", stage.history),
            # Who hangs up on an instance sooner than others miss it is not given up by anybody: it leaves.
            *("--patience-s", scale.presence_ttl_ms / 1000),
        )
        self._watching = asyncio.create_task(self._watch(process))

    async def _watch(self, process: Process) -> None:
        """However it ended, its work ended with it."""
        code = await process.wait()
        self._stage.pen.write("node_ended", node=self.node_id, code=code, life=self.lives)

    async def revive(self) -> None:
        """Start it if it is down. There are never two of it."""
        async with self._reviving:
            if self.process is None or not self.process.is_up:
                if self._watching is not None:
                    await self._watching
                await self.start()

    async def end(self, patience_s: float = 5.0) -> None:
        """SIGTERM."""
        if self.process is not None:
            await self.process.end(patience_s)
        if self._watching is not None:
            await self._watching


class Stage:
    """Everything that a run is made of, for whoever acts on it."""

    def __init__(self, seed: int, scale: Scale, folder: Path, pen: Pen, engine: ChaosEngine) -> None:
        self.seed, self.scale, self.folder, self.pen, self.engine = seed, scale, folder, pen, engine
        self.history = folder / "history"
        self.for_nodes: Network
        self.for_callers: Network
        self.instances = [Instance(number, self) for number in range(scale.instances)]
        self.nodes = [Member(number, self) for number in range(scale.nodes)]
        self.crowds: list[Process] = []

    @property
    def networks(self) -> Iterable[Network]:
        """Both ways to the instances."""
        return (self.for_nodes, self.for_callers)

    async def start_crowds(self) -> None:
        """The sessions."""
        scale = self.scale
        for first in range(scale.crowds):
            self.crowds.append(
                await Process.start(
                    *(self.folder / "crowds.log", "chaos.crowd", self.for_callers.port),
                    *("--sessions", scale.sessions, "--first", first, "--step", scale.crowds),
                    *("--seed", self.seed, "--every-s", scale.says_every_s, "--ping-s", scale.ping_ms / 1000),
                    *("--folder", self.history),
                )
            )

    def hush_crowds(self) -> None:
        """They say nothing more, and wait for what they are owed."""
        for crowd in self.crowds:
            crowd.signal(signal.SIGTERM)
