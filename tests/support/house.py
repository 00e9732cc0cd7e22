"""A scheduler as a process of its own or inside the test's, and callers over HTTP at its doors."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import httpx2
import msgspec

from lingua_scheduler.app import open_engine, serve
from lingua_scheduler.config import load
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.front.server import bind
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import CELL_KEY_NAMES, cell_key
from lingua_scheduler.views.audit import audit_whole
from lingua_scheduler.views.cell import read_cell
from lingua_scheduler.views.fleet import Fleet, read_fleet
from lingua_scheduler.views.routes import read_routes
from tests.support.people import PATIENCE_S, Client, Node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import TracebackType

    from lingua_scheduler.app import Serving
    from lingua_scheduler.core.cell import Cell
    from tests.support.servers import Server

CELL: Final = "c0"
LINGUA: Final = str(Path(sys.executable).parent / "lingua")


class Heap:
    """Things that pile up, for whoever waits until there are enough."""

    def __init__(self) -> None:
        self.things: list[Any] = []
        self._more = asyncio.Condition()

    async def add(self, thing: object) -> None:
        """One more."""
        async with self._more:
            self.things.append(thing)
            self._more.notify_all()

    async def reach(self, number: int) -> None:
        """Wait for so many."""
        async with self._more, asyncio.timeout(PATIENCE_S):
            await self._more.wait_for(lambda: len(self.things) >= number)


class Doors:
    """The doors of a scheduler, wherever it runs."""

    port = 0
    http: httpx2.AsyncClient

    @property
    def url(self) -> str:
        """Where they are."""
        return f"http://127.0.0.1:{self.port}"

    def open_http(self, **how: Any) -> None:
        """A caller over HTTP."""
        self.http = httpx2.AsyncClient(base_url=self.url, timeout=PATIENCE_S, **how)

    async def post(self, path: str, message: dict[str, Any], status: int = 200) -> Any:
        """The answer, which must have this status."""
        answer = await self.http.post(path, json=message)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json()

    async def get(self, path: str, status: int = 200) -> Any:
        """The same for what is only read."""
        answer = await self.http.get(path)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json()

    async def stats(self) -> Any:
        """The fleet in numbers, as it is seen by somebody who begins to look from now on."""
        # One that is being made while this is asked may have begun before.
        seen: set[int] = set()
        stats: Any = {}

        async def is_made() -> bool:
            nonlocal stats
            stats = await self.get("/api/v1/stats")
            seen.add(stats["generated_at_ms"])
            return len(seen) > 2

        await eventually(is_made)
        return stats

    async def dispatch(self, session_id: str = "room-888", status: int = 200, **said: Any) -> Any:
        """Submit a job over HTTP."""
        message = {"session_id": session_id, "src_lang": "en", "tgt_lang": "zh", "audio_ref": "blob://1"} | said
        return await self.post("/v1/dispatch/f2f", message, status)

    async def ended(self, job_id: str) -> Any:
        """The job, when it has ended."""
        return await self.get(f"/v1/job/{job_id}?wait_ms=15000")

    def node(self, node_id: str = "node-1") -> Node:
        """A node that will join."""
        return Node(self.port, node_id)

    def client(self) -> Client:
        """A client that will open a session."""
        return Client(self.port)


class House(Doors):
    """A scheduler inside the test's own process, on an engine that it shares with others by its prefix."""

    def __init__(self, store: str, **settings: Any) -> None:
        flags = {"engine.url": store, "engine.key_prefix": f"test:{secrets.token_hex(6)}", "server.port": 0}
        flags |= {"loops.snapshot_interval_ms": 50}
        self.settings = load(env={}, flags=flags | settings).settings
        self.serving: Serving

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        """Serve; at the end the auditor looks at everything."""
        with bind("127.0.0.1", self.settings.server.port) as bound:
            async with serve(self.settings, bound) as self.serving:
                self.port = self.serving.server.port
                self.open_http()
                async with self.http:
                    yield self
        async with open_engine(self.settings) as (engine, _):
            for cell in self.serving.app.directory.cells:
                assert await audit_whole(engine, cell) == []
                keys = [cell_key(engine.prefix, cell, name) for name in CELL_KEY_NAMES]
                await engine.command("UNLINK", *keys, cell=cell)


class Scheduler(Doors):
    """`lingua serve`, as an operator starts it."""

    def __init__(self, store: str, **environment: str) -> None:
        self._store = store
        self._environment = {"LINGUA_LOOPS__SNAPSHOT_INTERVAL_MS": "100"} | environment
        self._process: subprocess.Popen[str] | None = None
        #: Where it writes its log; None: to ours.
        self.log: Path | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Return when it serves."""
        command = [LINGUA, "serve", "--json"]
        command += ["--port", str(self.port), "--store", self._store]
        with ExitStack() as stack:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - nobody else is in this loop yet
                command,
                stdout=subprocess.PIPE,
                stderr=None if self.log is None else stack.enter_context(self.log.open("ab")),
                text=True,
                env=os.environ | self._environment,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(self._process.stdout.readline), PATIENCE_S)
        assert line, f"the scheduler ended with {self._process.wait(PATIENCE_S)} and said nothing"
        self.port = json.loads(line)["port"]
        self.open_http()

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it, and wait for that."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(how)
        code = await asyncio.wait_for(asyncio.to_thread(process.wait), PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()
        await self.http.aclose()
        return code

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid


async def look(server: Server) -> Cell:
    """The whole cell, past the scheduler."""
    async with await _engine(server) as engine:
        return await read_cell(engine, CELL)  # type: ignore[return-value] # the name is right


async def judge(server: Server) -> list[Any]:
    """What the auditor finds, in every cell. Whoever would sweep may have ended a while ago, on a busy machine."""
    async with await _engine(server) as engine:
        cells = [cell for cell, _ in (await read_routes(engine)).cells] or [CELL]
        found = [await audit_whole(engine, cell, overdue_ms=10_000) for cell in cells]
        return [violation for violations in found for violation in violations]  # type: ignore[union-attr] # as above


async def empty(server: Server) -> None:
    """Let the engine forget everything."""
    async with await _engine(server) as engine:
        await engine.command("FLUSHALL")


async def _engine(server: Server) -> Engine:
    """A look of the test's own: that a busy machine takes its time for a new connection is no matter of the product."""
    rules = msgspec.msgpack.encode(Rules())
    return await Engine.connect(server.url, "lingua:v1", rules, timeout_ms=round(1_000 * PATIENCE_S))


async def eventually(look: Callable[[], Awaitable[object]]) -> None:
    """Wait until something is so that nobody is told of."""
    async with asyncio.timeout(PATIENCE_S):
        while not await look():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.005)


async def somebody_waits(house: House) -> None:
    """Until a long poll, or whoever submits and has no slot yet, waits for news in this house."""
    desk = house.serving.desk

    async def is_so() -> bool:
        fleet = await read_fleet(desk.engine, CELL)
        assert isinstance(fleet, Fleet)
        return bool(len(desk.hearing._ends) or len(desk.delivery._mailboxes) or fleet.waiting)

    await eventually(is_so)


async def is_away(house: House, session_id: str) -> None:
    """Until the scheduler knows that the client of a session is gone."""
    session = house.serving.desk.sessions.get(session_id)
    assert session is not None

    async def is_so() -> bool:
        return session.connection is None

    await eventually(is_so)


async def no_session_is_left(house: House) -> None:
    """Until the scheduler has forgotten every session."""

    async def is_so() -> bool:
        return len(house.serving.desk.sessions) == 0

    await eventually(is_so)
