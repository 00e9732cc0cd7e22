"""What the doors are measured on: one Valkey on loopback, one `lingua serve`, and what is said to it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bench.processes import end
from bench.raw import RawHttp, RawSocket
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Rates are for strangers: here they would measure themselves.
_UNBOUNDED: Final = {
    "LINGUA_RATES__SUBMITS_PER_S": "1000000",
    "LINGUA_RATES__SUBMITS_BURST": "1000000",
    "LINGUA_RATES__UTTERANCES_PER_S": "1000000",
    "LINGUA_RATES__UTTERANCES_BURST": "1000000",
}


class _Placed(msgspec.Struct):
    job_id: str


_read_placed: Final = msgspec.json.Decoder(_Placed).decode


@dataclass(frozen=True, slots=True)
class Store:
    """A Valkey that everybody in the run shares, one after the other."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        """As every client understands it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def flush(self) -> None:
        """Forget what the last one left."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(b"FLUSHALL\r\n")
            if not connection.recv(64).startswith(b"+OK"):
                raise RuntimeError("the store was not flushed")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def storing() -> Iterator[Store]:
    """A plain valkey-server without persistence. On TCP, for not every peer knows Unix sockets."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        server = start_server(Path(folder), "--port", str(port), "--bind", "127.0.0.1")
        try:
            yield Store(port, server.pid)
        finally:
            server.stop()


def start_serving(url: str, settings: dict[str, str], port: int = 0) -> tuple[subprocess.Popen[bytes], int]:
    """A scheduler that serves, and on which port."""
    command = [str(Path(sys.executable).parent / "lingua"), "serve", "--port", str(port), "--store", url, "--json"]
    environment = os.environ | _UNBOUNDED | settings
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    assert process.stdout is not None  # noqa: S101 - it is piped
    with process.stdout:
        ready = json.loads(process.stdout.readline() or "{}")
    if "port" not in ready:
        end(process)
        raise RuntimeError("lingua serve did not start")
    return process, ready["port"]


@contextmanager
def serving(store: Store, settings: dict[str, str] | None = None) -> Iterator[tuple[int, int]]:
    """A scheduler of its own: its pid and its port."""
    process, port = start_serving(store.url, settings or {})
    try:
        yield process.pid, port
    finally:
        end(process)


def registration(node_id: str, slots: int, features: tuple[str, ...] = ()) -> dict[str, Any]:
    """A node for what is asked for here."""
    return {
        "node_id": node_id,
        "semantic_langs": ["en", "zh"],
        "nmt_pairs": [["en", "zh"]],
        "tts_langs": [],
        "max_concurrent_jobs": slots,
        "advanced_features": list(features),
    }


def job(session: str, payload: object = 1) -> bytes:
    """A job over HTTP, for a node that fetches the audio itself."""
    said = {
        "session_id": session,
        "src_lang": "en",
        "tgt_lang": "zh",
        "audio_ref": "blob://1",
        "payload": {"n": payload},
    }
    return json.dumps(said).encode()


async def submit(caller: RawHttp, said: bytes) -> str:
    """The id of a job that has its node."""
    status, body = await caller.ask("POST", "/v1/dispatch/f2f", said)
    if status != 200:
        raise RuntimeError(body.decode())
    return _read_placed(body).job_id


async def submit_and_hear(caller: RawHttp, said: bytes) -> None:
    """A job and its end in one request: the caller would rather wait. It must end well."""
    _, body = await caller.ask("POST", "/v1/dispatch/f2f", said, b"prefer: wait=10\r\n")
    if b'"FINISHED"' not in body:
        raise RuntimeError(body.decode())


async def hear(caller: RawHttp, job_id: str) -> None:
    """Wait until a job has ended, and well."""
    _, body = await caller.ask("GET", f"/v1/job/{job_id}?wait_ms=10000")
    if b'"FINISHED"' not in body:
        raise RuntimeError(body.decode())


async def opened(port: int, number: int) -> list[tuple[RawSocket, str]]:
    """So many sessions: their sockets and ids. They should speak soon."""
    sessions = []
    for _ in range(number):
        talk = await RawSocket.connect(port, "/ws/session")
        init = {"type": "session_init", "client_version": "1", "platform": "api-gateway"}
        talk.write(json.dumps(init | {"src_lang": "en", "tgt_lang": "zh"}).encode())
        ack = json.loads(await talk.read())
        if ack["type"] != "session_init_ack":
            raise RuntimeError(ack)
        sessions.append((talk, ack["session_id"]))
    return sessions


def utterance(session_id: str, index: int) -> bytes:
    """A few samples of speech, whole."""
    said = {
        "type": "utterance",
        "session_id": session_id,
        "utterance_index": index,
        "manual_cut": True,
        "src_lang": "en",
        "tgt_lang": "zh",
        "audio": "AAAA" * 16,
        "audio_format": "pcm16",
        "sample_rate": 16_000,
    }
    return json.dumps(said).encode()
