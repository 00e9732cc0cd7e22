"""Callers who submit jobs at any instance until each is accepted, and then ask until they know its end."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import sys
import time
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from bench.amounts import amount
from bench.raw import RawHttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from bench.cluster.instances import Instance

#: So many jobs end before, between and after what happens under load.
BREATH: Final = amount(40, 5)
#: A caller whose instance is gone, or has no room, asks again after so long.
_AGAIN_S: Final = 0.02
#: Whatever happens, a job has ended by then; what has not is lost.
_PATIENCE_S: Final = 90.0
_ANSWER_S: Final = 15.0
_ENDS: Final = ("FINISHED", "FAILED", "CANCELLED", "EXPIRED")


class History:
    """When a job was accepted, and how each ended."""

    def __init__(self) -> None:
        self.accepted_s: list[float] = []
        self.ends: dict[str, str] = {}
        self._more = asyncio.Condition()

    async def add_end(self, job_id: str, end: str) -> None:
        """A job has ended; "LOST": nobody knows it any more, or it never did."""
        async with self._more:
            self.ends[job_id] = end
            self._more.notify_all()

    async def more(self, number: int) -> None:
        """Wait for so many more ends."""
        until = len(self.ends) + number
        async with self._more, asyncio.timeout(_PATIENCE_S):
            await self._more.wait_for(lambda: len(self.ends) >= until)

    @property
    def lost(self) -> int:
        """Jobs that were accepted, and did not end well."""
        return sum(end != "FINISHED" for end in self.ends.values())

    def gap_ms(self, since_s: float) -> float:
        """The longest time from then on, or from one job that was accepted to the next, in which none was."""
        times = [since_s, *(at for at in self.accepted_s if at >= since_s)]
        return 1000 * max((later - at for at, later in pairwise(times)), default=0.0)


class Caller:
    """One who has one job at a time."""

    def __init__(self, instances: Sequence[Instance], history: History) -> None:
        self._instances = instances
        self._history = history
        self._http: RawHttp | None = None

    async def run(self, over: asyncio.Event) -> None:
        """One job after the other; the last one to its end."""
        while not over.is_set():
            job_id = await self._submit()
            self._history.accepted_s.append(time.monotonic())
            await self._history.add_end(job_id, await self._end(job_id))
        if self._http is not None:
            self._http.close()

    async def _submit(self) -> str:
        """The same request again and again: it is one job, however often it is sent."""
        said: dict[str, Any] = {"session_id": secrets.token_hex(4), "src_lang": "en", "tgt_lang": "zh"}
        said |= {"audio_ref": "blob://1", "request_id": secrets.token_hex(8)}
        while True:
            status, body = await self._ask("POST", "/v1/dispatch/f2f", json.dumps(said).encode())
            if status == 200:
                return str(json.loads(body)["job_id"])
            if status and status < 500:
                raise RuntimeError(body.decode())
            await asyncio.sleep(_AGAIN_S)

    async def _end(self, job_id: str) -> str:
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            status, body = await self._ask("GET", f"/v1/job/{job_id}?wait_ms=5000")
            if status == 404:
                return "LOST"
            state = json.loads(body)["state"] if status == 200 else ""
            if state in _ENDS:
                if state != "FINISHED":
                    print(f"job {job_id} was not done: {body.decode()}", file=sys.stderr)
                return str(state)
            if not state:
                await asyncio.sleep(_AGAIN_S)
        return "LOST"

    async def _ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """An answer; (0, b""): nobody answered, and the next one is asked elsewhere."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                if self._http is None:
                    self._http = await RawHttp.connect(random.choice(self._instances).port)
                return await self._http.ask(method, path, body)
        except (OSError, TimeoutError):
            if self._http is not None:
                self._http.close()
            self._http = None
            return 0, b""


@asynccontextmanager
async def load(instances: Sequence[Instance], callers: int) -> AsyncIterator[History]:
    """So many callers; at the end each hears of its last job."""
    history, over = History(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(Caller(instances, history).run(over))
        yield history
        over.set()
