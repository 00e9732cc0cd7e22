"""Nodes are killed while they have a job: how long until another node has it.

Each is a process of its own, ended by SIGKILL. The clock starts before the signal and stops when the other node, in
this process, reads the assignment. The half second in which a node may come back (`nodes.reconnect_grace_ms`) is in it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from itertools import count
from typing import Any, Final

from bench.amounts import amount
from bench.cluster.instances import instances
from bench.figures import percentile, rounded
from bench.raw import RawHttp, RawSocket
from bench.serving import registration, storing

KILLS: Final = amount(100, 2)
#: So many are killed at the same time.
AT_ONCE: Final = 5
BOUND_MS: Final = 1_000
_PATIENCE_S: Final = 60.0
_HEARD_S: Final = 6.0


class Heir:
    """A node that does every job at once, and knows when it got which."""

    def __init__(self, socket: RawSocket, node_id: str) -> None:
        self._socket = socket
        self._node_id = node_id
        self._got: dict[str, asyncio.Future[float]] = {}

    @classmethod
    async def join(cls, port: int, node_id: str) -> Heir:
        """One that has room for everything."""
        socket = await RawSocket.connect(port, "/ws/node")
        said = registration(node_id, 64, ("job_ack",))
        socket.write(json.dumps({"type": "node_register"} | said).encode())
        await socket.read()
        socket.write(json.dumps({"type": "node_heartbeat", "node_id": node_id, "health": "ready"}).encode())
        heir = cls(socket, node_id)
        socket.serve(heir._hear)
        return heir

    def got(self, job_id: str) -> asyncio.Future[float]:
        """When it gets this job."""
        return self._got.setdefault(job_id, asyncio.get_running_loop().create_future())

    def _hear(self, data: bytes) -> None:
        job = json.loads(data)
        if job["type"] != "job_assign":
            return
        got = self.got(job["job_id"])
        if not got.done():
            got.set_result(time.monotonic())
        said = {name: job[name] for name in ("job_id", "attempt_id", "session_id", "utterance_index", "trace_id")}
        result = {"type": "job_result", "node_id": self._node_id, "success": True, "text_translated": "b"}
        self._socket.write(json.dumps(result | said).encode())


async def measure() -> dict[str, Any]:
    """Victims at both of two instances, a few at a time; each has a job that was submitted at the other."""
    took_ms: list[float] = []
    numbers = count()
    with storing() as store, instances(store.url, 2) as both:
        heirs = [await Heir.join(one.port, f"heir-{place}") for place, one in enumerate(both)]
        while len(took_ms) < KILLS:
            batch = [next(numbers) for _ in range(min(AT_ONCE, KILLS - len(took_ms)))]
            ports = [(both[number % 2].port, both[1 - number % 2].port) for number in batch]
            took_ms += await asyncio.gather(
                *(_kill_one(f"victim-{number}", *at, heirs) for number, at in zip(batch, ports, strict=True))
            )
    return {
        "node_kills": len(took_ms),
        "node_kill_to_new_assignment_ms": {
            "p50": rounded(percentile(took_ms, 50), 0),
            "p99": rounded(percentile(took_ms, 99), 0),
            "max": rounded(max(took_ms), 0),
        },
        "node_kills_over_1_s": sum(took > BOUND_MS for took in took_ms),
    }


async def _kill_one(node_id: str, port: int, other_port: int, heirs: list[Heir]) -> float:
    """How many milliseconds after its kill another node had its job."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.cluster.victim", str(port), node_id), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await process.stdout.readline()
        caller = await RawHttp.connect(other_port)
        job_id = await _given(caller, node_id, process.stdout)
        caller.close()
        got = [heir.got(job_id) for heir in heirs]
        killed_s = time.monotonic()
        process.kill()
        done, _ = await asyncio.wait(got, timeout=_PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        # What nobody has by then has taken as long, for whoever reads the figures.
        return 1000 * (done.pop().result() - killed_s if done else _PATIENCE_S)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _given(caller: RawHttp, node_id: str, told: asyncio.StreamReader) -> str:
    """A job that the node has, by its own word, as soon as the node is known to be ready."""
    said = {"session_id": node_id, "src_lang": "en", "tgt_lang": "zh", "audio_ref": "blob://1"}
    until_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until_s:
        placed = await caller.post("/v1/dispatch/f2f", said | {"options": {"preferred_node_id": node_id}})
        if placed["node_id"] == node_id and await _hears(told, placed["job_id"]):
            return str(placed["job_id"])
        await asyncio.sleep(0.02)
    raise TimeoutError(f"{node_id} was given no job")


async def _hears(told: asyncio.StreamReader, job_id: str) -> bool:
    """Whether the node says that it has the job. On a busy machine that may take so long that another is asked."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_HEARD_S):
            while line := await told.readline():
                if line.strip().decode() == job_id:
                    return True
    return False
