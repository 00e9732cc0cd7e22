"""The people at the doors of a scheduler: nodes and clients on real sockets."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from typing import TYPE_CHECKING, Any, Final, Self

import httpx2
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

if TYPE_CHECKING:
    from types import TracebackType

    from websockets.asyncio.client import ClientConnection


#: Nothing here takes as long; whatever does is broken.
PATIENCE_S: Final = 20.0
#: A tenth of a second of silence.
SILENCE: Final = base64.b64encode(bytes(3_200)).decode()


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

    async def was_read(self) -> None:
        """Wait until the other side has read everything so far; `ConnectionClosed` if it has closed over it."""
        async with asyncio.timeout(PATIENCE_S):
            await (await self._socket.ping())

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

    async def is_ready(self) -> None:
        """Wait until its beat has arrived: from then on any instance may give it jobs."""
        async with asyncio.timeout(PATIENCE_S), httpx2.AsyncClient() as http:
            url = f"http://127.0.0.1:{self._port}/v1/nodes/{self.node_id}"
            while (await http.get(url)).json()["reported"] != "ready":  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.005)

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
