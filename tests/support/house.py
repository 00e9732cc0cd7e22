"""A scheduler as a process of its own, and the people at its doors: nodes, callers and clients on real sockets."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import httpx2
import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from lingua_scheduler.app import open_engine, serve
from lingua_scheduler.config import load
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.front.server import bind
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import CELL_KEY_NAMES, cell_key
from lingua_scheduler.views.audit import audit_whole
from lingua_scheduler.views.cell import read_cell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import TracebackType

    from websockets.asyncio.client import ClientConnection

    from lingua_scheduler.app import Serving
    from lingua_scheduler.core.cell import Cell
    from tests.support.servers import Server

#: Nothing here takes as long; whatever does is broken.
PATIENCE_S: Final = 20.0
CELL: Final = "c0"
LINGUA: Final = str(Path(sys.executable).parent / "lingua")
#: A tenth of a second of silence.
SILENCE: Final = base64.b64encode(bytes(3_200)).decode()


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

    def open_http(self, **how: Any) -> None:
        """A caller over HTTP."""
        self.http = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE_S, **how)

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
        self.settings = load(env={}, flags=flags | settings).settings
        self.serving: Serving

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        """Serve; at the end the auditor looks at everything."""
        with bind("127.0.0.1", 0) as bound:
            async with serve(self.settings, bound) as self.serving:
                self.port = self.serving.server.port
                self.open_http()
                async with self.http:
                    yield self
        async with open_engine(self.settings) as (engine, _):
            assert await audit_whole(engine, CELL) == []
            keys = [cell_key(engine.prefix, CELL, name) for name in CELL_KEY_NAMES]
            await engine.command("UNLINK", *keys)


class Scheduler(Doors):
    """`lingua serve`, as an operator starts it."""

    def __init__(self, store: str, **environment: str) -> None:
        self._store = store
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

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
        self._process = subprocess.Popen(  # noqa: ASYNC220 - nobody else is in this loop yet
            command, stdout=subprocess.PIPE, text=True, env=os.environ | self._environment, start_new_session=True
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


class Peer:
    """Whoever is at the other end of a socket of ours: reads in the background, so that nothing is missed."""

    path = ""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: ClientConnection
        self._reader: asyncio.Task[None]
        #: Everything that came and was not taken, in order.
        self.heard: list[Any] = []
        self._news = asyncio.Condition()
        self.closed: tuple[int, str] | None = None

    async def connect(self, **how: Any) -> None:
        """Open the socket."""
        url = f"ws://127.0.0.1:{self._port}{self.path}"
        how = {"compression": None, "max_size": 2**24, "ping_interval": None} | how
        self._socket = await connect(url, proxy=None, **how)
        self.closed = None
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for raw in self._socket:
                async with self._news:
                    self.heard.append(json.loads(raw) if isinstance(raw, str) else raw)
                    self._news.notify_all()
        except ConnectionClosed:
            pass
        async with self._news:
            self.closed = (self._socket.close_code or 0, self._socket.close_reason or "")
            self._news.notify_all()

    async def say(self, kind: str, **said: Any) -> None:
        """Send a message."""
        await self._socket.send(json.dumps({"type": kind} | said))

    async def send(self, raw: str | bytes) -> None:
        """Send anything."""
        await self._socket.send(raw)

    async def next(self, *kinds: str, timeout_s: float = PATIENCE_S, **said: Any) -> Any:
        """Take the first message of these kinds that says this; others stay."""

        def found() -> Any:
            return next((message for message in self.heard if _fits(message, kinds, said)), None)

        async with self._news:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._news.wait_for(lambda: found() is not None or self.closed is not None)
            message = found()
            assert message is not None, f"{kinds} {said} did not come; closed: {self.closed}; heard: {self.heard}"
            self.heard.remove(message)
            return message

    async def next_bytes(self) -> bytes:
        """Take the first binary frame."""
        async with self._news, asyncio.timeout(PATIENCE_S):
            await self._news.wait_for(lambda: any(isinstance(message, bytes) for message in self.heard))
            found: bytes = next(message for message in self.heard if isinstance(message, bytes))
            self.heard.remove(found)
            return found

    async def gone(self) -> tuple[int, str]:
        """Wait until the other side has closed; with what."""
        async with self._news:
            async with asyncio.timeout(PATIENCE_S):
                await self._news.wait_for(lambda: self.closed is not None)
        assert self.closed is not None
        return self.closed

    async def next_left(self, *kinds: str, **said: Any) -> Any:
        """The same of a socket that may have been closed since."""
        found = [message for message in self.heard if _fits(message, kinds, said)]
        assert found, self.heard
        return found[0]

    def stop_reading(self) -> None:
        """Take nothing more out of the socket."""
        self._socket.transport.pause_reading()

    def read_again(self) -> None:
        """Take out what is there."""
        self._socket.transport.resume_reading()

    def cut(self) -> None:
        """Lose the connection, without a word."""
        self._socket.transport.abort()

    async def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(AttributeError):
            await self._socket.close()
            await self._reader

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _fits(message: Any, kinds: tuple[str, ...], said: dict[str, Any]) -> bool:
    if not isinstance(message, dict) or message["type"] not in kinds:
        return False
    return all(message.get(name) == value for name, value in said.items())


class Node(Peer):
    """A node in the field: the legacy dialect, no acks, unless its features say more."""

    path = "/ws/node"

    def __init__(self, port: int, node_id: str) -> None:
        super().__init__(port)
        self.node_id = node_id
        self.epoch = ""

    async def register(self, *, features: tuple[str, ...] = (), slots: int | None = None, **said: Any) -> Any:
        """Join, beat once, and be ready. `langs` as `language_capabilities`."""
        message: dict[str, Any] = {
            "node_id": self.node_id,
            "version": "2.0.0",
            "capability_schema_version": "2.0",
            "platform": "linux",
            "hardware": {"cpu_cores": 16, "memory_gb": 64, "gpus": [{"name": "RTX 4090", "memory_gb": 24}]},
            "installed_models": [],
            "installed_services": [],
            "capability_by_type": [{"type": kind, "ready": True} for kind in ("asr", "nmt", "tts", "semantic")],
            "features_supported": {},
            "advanced_features": list(features),
            "accept_public_jobs": True,
            "language_capabilities": {
                "asr_languages": ["en", "zh"],
                "semantic_languages": ["en", "zh"],
                "tts_languages": ["en", "zh"],
            },
        }
        if slots is not None:
            message["max_concurrent_jobs"] = slots
        await self.say("node_register", **(message | said))
        ack = await self.next("node_register_ack", "error")
        assert ack["type"] == "node_register_ack", ack
        self.epoch = ack["epoch"]
        await self.beat()
        return ack

    async def beat(self, **said: Any) -> None:
        """A heartbeat as field nodes send it."""
        usage = {"cpu_percent": 10.0, "gpu_percent": 20.0, "mem_percent": 30.0, "running_jobs": 0}
        message = {
            "node_id": self.node_id,
            "timestamp": 1,
            "resource_usage": usage,
            "installed_services": [],
            "capability_by_type": [{"type": kind, "ready": True} for kind in ("asr", "nmt", "tts", "semantic")],
        }
        await self.say("node_heartbeat", **(message | said))

    async def job(self, **said: Any) -> Any:
        """The next assignment."""
        return await self.next("job_assign", **said)

    async def result(self, job: dict[str, Any], **said: Any) -> None:
        """Do a job."""
        message = {
            "job_id": job["job_id"],
            "attempt_id": job["attempt_id"],
            "node_id": self.node_id,
            "session_id": job["session_id"],
            "utterance_index": job["utterance_index"],
            "success": True,
            "text_asr": f"heard {job['utterance_index']}",
            "text_translated": f"said {job['utterance_index']}",
            "tts_audio": "",
            "tts_format": "pcm16",
            "trace_id": job["trace_id"],
        }
        await self.say("job_result", **(message | said))


class Client(Peer):
    """A web client."""

    path = "/ws/session"

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.session_id = ""
        self.ack: Any = None

    async def init(self, **said: Any) -> Any:
        """Open a session."""
        message = {"client_version": "1.0", "platform": "api-gateway", "src_lang": "en", "tgt_lang": "zh"}
        await self.say("session_init", **(message | said))
        self.ack = await self.next("session_init_ack", "error")
        assert self.ack["type"] == "session_init_ack", self.ack
        self.session_id = self.ack["session_id"]
        return self.ack

    async def utter(self, index: int, **said: Any) -> None:
        """Say one utterance."""
        message = {
            "session_id": self.session_id,
            "utterance_index": index,
            "manual_cut": True,
            "src_lang": "en",
            "tgt_lang": "zh",
            "audio": SILENCE,
            "audio_format": "pcm16",
            "sample_rate": 16_000,
        }
        await self.say("utterance", **(message | said))

    async def end_of(self, index: int) -> Any:
        """The one end of an utterance."""
        return await self.next("translation_result", "missing_result", utterance_index=index)


async def look(server: Server) -> Cell:
    """The whole cell, past the scheduler."""
    async with await _engine(server) as engine:
        return await read_cell(engine, CELL)  # type: ignore[return-value] # the name is right


async def judge(server: Server) -> list[Any]:
    """What the auditor finds."""
    async with await _engine(server) as engine:
        return await audit_whole(engine, CELL)  # type: ignore[return-value] # the name is right


async def empty(server: Server) -> None:
    """Let the engine forget everything."""
    async with await _engine(server) as engine:
        await engine.command("FLUSHALL")


async def _engine(server: Server) -> Engine:
    return await Engine.connect(server.url, "lingua:v1", msgspec.msgpack.encode(Rules()))


async def eventually(look: Callable[[], Awaitable[object]]) -> None:
    """Wait until something is so that nobody is told of."""
    async with asyncio.timeout(PATIENCE_S):
        while not await look():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.005)
