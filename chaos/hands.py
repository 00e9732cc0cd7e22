"""What a simulated node does with a job, and writes down of it: when it physically began, and when it ended."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from chaos.history import Pen

#: How jobs go: the bounds of a probability each, and from that on the next.
_SHORT, _LONG, _FAILS = 0.84, 0.94, 0.97
_SHORT_S: Final = (0.05, 0.5)
_LONG_S: Final = (0.5, 1.5)
#: What its node had to say about a poisoned job has left by then.
_LAST_WORDS_S: Final = 0.05


class Cannot(Exception):
    """The node fails the job."""


class Job(msgspec.Struct, frozen=True):
    """What a node reads of an assignment."""

    job_id: str
    attempt_id: int
    session_id: str
    utterance_index: int
    trace_id: str
    payload: Any = None

    @property
    def request(self) -> str:
        """The request that it came from, if it came over HTTP."""
        return str(self.payload.get("request", "")) if isinstance(self.payload, dict) else ""

    @property
    def is_poison(self) -> bool:
        """It takes down whoever works on it."""
        return isinstance(self.payload, dict) and bool(self.payload.get("poison"))


def answer(job: Job, node_id: str) -> str:
    """A result that says whose it is."""
    return f"{job.session_id}|{job.utterance_index}|{job.job_id}|{job.attempt_id}|{node_id}"


class Hands:
    """The work of one node. Every job that was begun is in work until it is written down that it ended."""

    def __init__(self, pen: Pen, node_id: str, seed: str, stuck_s: float) -> None:
        self._pen = pen
        self._node_id = node_id
        self._rng = random.Random(seed)
        self._stuck_s = stuck_s
        self.busy: dict[tuple[str, int], Job] = {}

    async def work(self, job: Job) -> str:
        """Do it: the result, or `Cannot`. Whoever cancels this has stopped the work."""
        key, how = (job.job_id, job.attempt_id), "cancelled"
        self.busy[key] = job
        self._write("begin", job, session=job.session_id, index=job.utterance_index, request=job.request)
        try:
            drawn, short_s, long_s = self._rng.random(), self._rng.uniform(*_SHORT_S), self._rng.uniform(*_LONG_S)
            if job.is_poison:
                await asyncio.sleep(_LAST_WORDS_S)
                self._write("poisoned", job)
                os.kill(os.getpid(), signal.SIGKILL)
            if drawn < _SHORT:
                await asyncio.sleep(short_s)
            elif drawn < _FAILS:
                await asyncio.sleep(long_s)
            else:
                await asyncio.sleep(self._stuck_s)
            how = "failed" if _LONG <= drawn < _FAILS else "done"
        finally:
            del self.busy[key]
            self._write("end", job, how=how)
        if how == "failed":
            raise Cannot("the dice said so")
        return answer(job, self._node_id)

    def _write(self, what: str, job: Job, **more: Any) -> None:  # noqa: ANN401 - as the pen takes it
        self._pen.write(what, node=self._node_id, job=job.job_id, attempt=job.attempt_id, **more)
