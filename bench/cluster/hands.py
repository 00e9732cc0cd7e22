"""Nodes that take some time for a job, and come back to any instance when they lose theirs."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from bench.raw import RawSocket
from bench.serving import registration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from bench.cluster.instances import Instance

#: As the SDK does when it is not asked to wait longer.
_COMES_BACK_S: Final = 0.2
_FEATURES: Final = ("job_ack", "job_started", "job_stopped")


class Hand:
    """A node. What it was given and has not told the end of, it says when it comes back."""

    def __init__(self, node_id: str, slots: int, work_s: float) -> None:
        self._node_id = node_id
        self._slots = slots
        self._work_s = work_s
        self._process_id = secrets.token_hex(4)
        self._epoch = ""
        self._socket: RawSocket | None = None
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        #: What it could not tell when it was done.
        self._untold: list[dict[str, Any]] = []
        self.joined = asyncio.Event()

    async def run(self, instances: Sequence[Instance]) -> None:
        """Serve at one after the other."""
        while True:
            with suppress(OSError):
                await self._serve(random.choice(instances).port)
            await asyncio.sleep(random.random() * _COMES_BACK_S)

    async def _serve(self, port: int) -> None:
        socket = await RawSocket.connect(port, "/ws/node")
        said = registration(self._node_id, self._slots, _FEATURES) | {"process_id": self._process_id}
        if self._epoch:
            running = [{"job_id": job_id, "attempt_id": attempt} for job_id, attempt in self._running]
            said |= {"epoch": self._epoch, "running": running}
        socket.write(json.dumps({"type": "node_register"} | said).encode())
        ack = json.loads(await socket.read())
        if ack["type"] != "node_register_ack":
            socket.close()
            return
        self._epoch, self._socket = ack["epoch"], socket
        self._say({"type": "node_heartbeat", "node_id": self._node_id, "health": "ready"})
        untold, self._untold = self._untold, []
        for message in untold:
            self._say(message)
        self.joined.set()
        socket.serve(self._hear)
        try:
            await socket.closed
        finally:
            self._socket = None
            socket.close()

    def _say(self, message: dict[str, Any]) -> bool:
        if self._socket is None or self._socket.closed.done():
            return False
        self._socket.write(json.dumps(message).encode())
        return True

    def _hear(self, data: bytes) -> None:
        message = json.loads(data)
        attempt = (message.get("job_id", ""), message.get("attempt_id", 0))
        if message["type"] == "job_assign" and attempt not in self._running:
            self._running[attempt] = asyncio.create_task(self._do(message, attempt))
        elif message["type"] == "job_cancel":
            task = self._running.pop(attempt, None)
            if task is not None:
                task.cancel()
            self._say(self._about(attempt) | {"type": "job_stopped"})

    def _about(self, attempt: tuple[str, int]) -> dict[str, Any]:
        return {"job_id": attempt[0], "attempt_id": attempt[1], "node_id": self._node_id}

    async def _do(self, job: dict[str, Any], attempt: tuple[str, int]) -> None:
        self._say(self._about(attempt) | {"type": "job_ack"})
        await asyncio.sleep(self._work_s)
        result = self._about(attempt) | {"type": "job_result", "success": True, "text_translated": "b"}
        result |= {name: job[name] for name in ("session_id", "utterance_index", "trace_id")}
        if not self._say(result):
            self._untold.append(result)
        self._running.pop(attempt, None)


@asynccontextmanager
async def hands(instances: Sequence[Instance], number: int, slots: int, work_s: float) -> AsyncIterator[None]:
    """So many nodes, all there; at the end they stop."""
    found = [Hand(f"node-{place}", slots, work_s) for place in range(number)]
    tasks = [asyncio.create_task(hand.run(instances)) for hand in found]
    try:
        async with asyncio.timeout(30):
            await asyncio.gather(*(hand.joined.wait() for hand in found))
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
