"""The demo from the server's ready line to the auditor's verdict."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.config import Settings
from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.operate.demo.callers import Caller
from lingua_scheduler.operate.demo.children import BrokenOff, Child
from lingua_scheduler.operate.demo.frame import Frame, Place, Pulse
from lingua_scheduler.operate.demo.picture import NEWS
from lingua_scheduler.operate.demo.plan import conversations_of, fleet_of, processes_for
from lingua_scheduler.operate.demo.tally import Tally, discrepancies, report
from lingua_scheduler.operate.demo.trapdoor import open_trapdoor
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.views.audit import audit_whole
from lingua_scheduler.views.fleet import Fleet, fleet_everywhere
from lingua_scheduler.views.routes import read_routes
from lingua_scheduler.views.slots import slots_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.core.audit import Violation
    from lingua_scheduler.operate.demo.begin import Show
    from lingua_scheduler.operate.demo.screen import Screen
    from lingua_scheduler.store.embedded import Embedded

_HOST: Final = "lingua_scheduler.operate.demo.host"
_CELL: Final = "c0"
_FRAME_S: Final = 0.25
#: Callers pick up their phones one after the other.
_PICK_UP_S: Final = 0.03
#: How long a process may take to end when it is asked to.
_PATIENCE_S: Final = 15.0
#: How long a node may take to die.
_DYING_S: Final = 3.0


class Play:
    """One show. The server is starting already; whatever else it needs is started, and ended, here."""

    def __init__(self, show: Show, engine: Embedded, server: Child, over: asyncio.Event, screen: Screen) -> None:
        self._show = show
        self._embedded = engine
        self._server = server
        self._over = over
        self._screen = screen
        self._hosts: list[Child] = []
        self._tally = Tally()
        self._fleet = fleet_of(show.seed, show.nodes)
        self._languages = {member.node_id: member.languages for member in self._fleet}
        self._callers = [
            Caller(one, self._tally, over) for one in conversations_of(show.seed, show.callers, self._fleet)
        ]
        self._news: deque[str] = deque(maxlen=NEWS)
        self._dead: set[str] = set()
        #: Who waits until a node has died, and how many jobs it had then.
        self._dying: dict[str, asyncio.Future[int]] = {}
        self._wrong: list[str] = []
        self._pulse = Pulse()
        self._began = time.monotonic()
        self._is_closing = False

    async def run(self) -> int:
        """Play it. The exit code: 0 if everything adds up and the auditor found nothing."""
        try:
            place = await self._served()
            url = place.url
            self._screen.ready(self._show, place)
            self._began = time.monotonic()
            async with await self._look_in() as engine:
                await self._start_hosts(url)
                try:
                    async with (
                        self._watched(engine, place),
                        open_trapdoor(self._embedded.paths.data_dir, url, self._kill),
                    ):
                        await self._talk(url)
                        await self._look(engine, place)
                        await self._go_home()
                finally:
                    self._screen.close()
                return await self._judge(engine)
        finally:
            for host in self._hosts:
                await host.kill()

    async def _served(self) -> Place:
        """Where the server is, when it is ready. One instance alone is the server itself."""
        async for said in self._server.said():
            return Place(said["url"], self._server.pid, tuple(one["pid"] for one in said.get("workers", [said])))
        await self._server.wait()
        raise BrokenOff(self._server.obituary())

    async def _look_in(self) -> Engine:
        """The engine, past the server: for the screen and for the auditor."""
        usual = Settings()
        return await Engine.connect(self._embedded.url, usual.engine.key_prefix, msgspec.msgpack.encode(usual.rules()))

    async def _start_hosts(self, url: str) -> None:
        show, number = self._show, processes_for(self._show.nodes)
        usual = ("--url", url, "--seed", str(show.seed), "--failure-rate", str(show.failure_rate))
        for first in range(number):
            part = ("--nodes", str(show.nodes), "--first", str(first), "--step", str(number))
            self._hosts.append(await Child.start(f"node process {first + 1}", _HOST, *usual, *part))

    # What happens meanwhile.

    @asynccontextmanager
    async def _watched(self, engine: Engine, place: Place) -> AsyncIterator[None]:
        """Whoever ends by itself is noticed: without the server, or without any nodes, it is over for all."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch_server())
                group.create_task(self._show_all(engine, place))
                for host in self._hosts:
                    group.create_task(self._watch_host(host))
                yield
        except* LinguaError as broken:
            raise broken.exceptions[0] from None

    async def _watch_server(self) -> None:
        await self._server.wait()
        if not self._is_closing:
            raise BrokenOff(self._server.obituary())

    async def _watch_host(self, host: Child) -> None:
        async for said in host.said():
            self._hear(said["event"], said["node_id"], said.get("jobs", 0))
        await host.wait()
        if self._is_closing:
            return
        if all(one.has_ended for one in self._hosts):
            raise BrokenOff(host.obituary())
        self._news.append(f"{host.obituary()}; its jobs go to other nodes".splitlines()[0])

    def _hear(self, event: str, node_id: str, jobs: int) -> None:
        if event == "died":
            self._dead.add(node_id)
            if (dying := self._dying.pop(node_id, None)) is not None and not dying.done():
                dying.set_result(jobs)
            self._news.append(
                f"{node_id} died with {jobs} job{'s' * (jobs != 1)}, which go{'es' * (jobs == 1)} elsewhere"
            )
        elif event == "joined":
            if node_id in self._dead:
                self._dead.remove(node_id)
                self._news.append(f"{node_id} is back")
            for caller in self._callers:
                caller.meets(self._languages[node_id])

    async def _kill(self, node_id: str) -> int | None:
        """A node dies. How many jobs it had; None: there is none, or it is dead already."""
        if node_id not in self._languages or node_id in self._dead:
            return None
        dying = self._dying.setdefault(node_id, asyncio.get_running_loop().create_future())
        for host in self._hosts:
            host.tell(node_id)
        try:
            async with asyncio.timeout(_DYING_S):
                return await asyncio.shield(dying)
        except TimeoutError:
            return None

    async def _show_all(self, engine: Engine, place: Place) -> None:
        while not self._is_closing:
            await self._look(engine, place)
            await asyncio.sleep(_FRAME_S)

    async def _look(self, engine: Engine, place: Place) -> None:
        """One picture, if there is a fleet to be seen: an engine that is away for a moment is shown when it is back."""
        try:
            cells = await self._cells(engine)
            fleet = await fleet_everywhere(engine, cells)
            nodes = await asyncio.gather(*(slots_in(engine, cell) for cell in cells))
        except LinguaError:
            return
        if isinstance(fleet, Refusal) or self._is_closing:
            return
        elapsed_s = time.monotonic() - self._began
        self._pulse.see(elapsed_s, self._tally.done)
        self._screen.see(
            Frame(
                show=self._show,
                place=place,
                elapsed_s=elapsed_s,
                is_draining=self._over.is_set(),
                tally=self._tally,
                fleet=fleet,
                nodes=[node for some in nodes for node in some],
                languages=self._languages,
                pulse=self._pulse,
                news=list(self._news),
            )
        )

    async def _cells(self, engine: Engine) -> list[str]:
        """All cells; the first is there also before any node is."""
        return [cell for cell, _ in (await read_routes(engine)).cells] or [_CELL]

    # From the first word to the last.

    async def _talk(self, url: str) -> None:
        """Until the time is up or somebody ends it; every answer is waited for."""
        async with asyncio.TaskGroup() as group:
            for number, caller in enumerate(self._callers):
                group.create_task(caller.talk(url, number * _PICK_UP_S))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._show.duration_s):
                    await self._over.wait()
            self._over.set()
            for caller in self._callers:
                caller.may_begin.set()

    async def _go_home(self) -> None:
        """Nodes first, the server last."""
        self._is_closing = True
        for children in (self._hosts, [self._server]):
            there = [child for child in children if not child.has_ended]
            went_well = await asyncio.gather(*(child.end(_PATIENCE_S) for child in there))
            self._wrong += [child.obituary() for child, well in zip(there, went_well, strict=True) if not well]

    async def _judge(self, engine: Engine) -> int:
        cells = await self._cells(engine)
        violations: list[Violation] = []
        for cell in cells:
            found = await audit_whole(engine, cell)
            assert isinstance(found, list)  # noqa: S101 - the cell's name is right
            violations += found
        fleet = await fleet_everywhere(engine, cells)
        assert isinstance(fleet, Fleet)  # noqa: S101 - the same
        counts = fleet.counts
        wrong = self._wrong + discrepancies(self._tally, counts) + [str(violation) for violation in violations]
        said = report(self._tally, counts) | {"audit_violations": len(violations)}
        self._screen.end(said, wrong)
        return 1 if wrong else 0
