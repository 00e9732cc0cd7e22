"""Nodes on sockets that do every job at once."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bench.raw import RawSocket
from bench.serving import registration

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Heard(msgspec.Struct):
    """What a node reads of a message."""

    type: str
    job_id: str = ""
    attempt_id: int = 0
    session_id: str = ""
    utterance_index: int = 0
    trace_id: str = ""
    payload: Any = None


class _Ack(msgspec.Struct, tag_field="type", tag="job_ack"):
    job_id: str
    attempt_id: int
    node_id: str


class _Result(msgspec.Struct, tag_field="type", tag="job_result"):
    job_id: str
    attempt_id: int
    session_id: str
    utterance_index: int
    trace_id: str
    node_id: str
    success: bool = True
    text_asr: str = "a"
    text_translated: str = "b"


_read: Final = msgspec.json.Decoder(_Heard).decode
_encode: Final = msgspec.json.Encoder().encode


class Node:
    """A node on a socket. If it is careful it acknowledges a job first; while it holds, it only takes them."""

    def __init__(self, socket: RawSocket, node_id: str, *, careful: bool) -> None:
        self._socket = socket
        self._node_id = node_id
        self._careful = careful
        self._held: list[_Heard] | None = None
        #: How many jobs it was given; and of those that say when they were submitted, how long ago that was.
        self.heard = 0
        self.latencies_ms: list[float] = []

    @classmethod
    async def join(cls, port: int, node_id: str, slots: int, *, careful: bool = False) -> Node:
        """A node that serves until its socket closes."""
        socket = await _registered(port, registration(node_id, slots, ("job_ack",) if careful else ()))
        node = cls(socket, node_id, careful=careful)
        node.beat()
        socket.serve(node._hear)
        return node

    def beat(self) -> None:
        """A heartbeat, as often as the scheduler asks for it."""
        self._socket.write(b'{"type":"node_heartbeat","node_id":"%b","health":"ready"}' % self._node_id.encode())

    def cry(self, service: str) -> None:
        """A model is not there: one of those that speak."""
        self._socket.write(
            b'{"type":"node_error","node_id":"%b","code":"MODEL_NOT_AVAILABLE","message":"",'
            b'"details":{"service_id":"%b","service_type":"tts"}}' % (self._node_id.encode(), service.encode())
        )

    @property
    def is_gone(self) -> bool:
        """Whether the server has closed its socket."""
        return self._socket.closed.done()

    def hold(self) -> None:
        """Keep jobs back from now on."""
        self._held = []

    def let_go(self) -> None:
        """Do what was kept back."""
        held, self._held = self._held or [], None
        for job in held:
            self._do(job)

    def _hear(self, message: bytes) -> None:
        job = _read(message)
        if job.type != "job_assign":
            return
        if isinstance(job.payload, dict) and isinstance(sent := job.payload.get("n"), float):
            self.latencies_ms.append(1000 * (time.monotonic() - sent))
        self.heard += 1
        if self._held is None:
            self._do(job)
        else:
            self._held.append(job)

    def _do(self, job: _Heard) -> None:
        said = _Result(job.job_id, job.attempt_id, job.session_id, job.utterance_index, job.trace_id, self._node_id)
        if self._careful:
            self._socket.write_all(_encode(_Ack(job.job_id, job.attempt_id, self._node_id)), _encode(said))
        else:
            self._socket.write(_encode(said))


async def _registered(port: int, said: dict[str, Any], tries: int = 5) -> RawSocket:
    """A socket on which a node has registered. Like any node it tries again if it is told to: machines are busy."""
    socket = await RawSocket.connect(port, "/ws/node")
    socket.write(json.dumps({"type": "node_register"} | said).encode())
    ack = json.loads(await socket.read())
    if ack["type"] == "node_register_ack":
        return socket
    socket.close()
    if not ack.get("retryable") or tries <= 1:
        raise RuntimeError(ack)
    await asyncio.sleep(1)
    return await _registered(port, said, tries - 1)


async def all_heard(nodes: Iterable[Node], number: int, patience_s: float = 10) -> None:
    """Wait until the nodes were given so many jobs."""
    until = time.monotonic() + patience_s
    while sum(node.heard for node in nodes) < number:
        if time.monotonic() > until:
            raise TimeoutError(f"of {number} jobs only {sum(node.heard for node in nodes)} came to their nodes")
        await asyncio.sleep(0.002)
