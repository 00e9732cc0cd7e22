"""The callers of the demo: each speaks, waits for the end of what it said, and speaks again."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.release import release
from lingua_scheduler.front.ask import Ask
from lingua_scheduler.views.job import Job, read_job

if TYPE_CHECKING:
    import random

    from lingua_scheduler.app import App
    from lingua_scheduler.operate.demo.fleet import Fleet
    from lingua_scheduler.operate.demo.tally import Tally


class Caller:
    """Somebody who talks in one language pair."""

    def __init__(self, name: str, pair: tuple[str, str], rng: random.Random, fleet: Fleet, tally: Tally) -> None:
        self._name = name
        self._pair = pair
        self._random = rng
        self._fleet = fleet
        self._tally = tally
        self._utterance = 0

    async def talk(self, app: App, over: asyncio.Event) -> None:
        """One utterance after the other until it is over; the last one is waited for."""
        while not over.is_set():
            await self._speak(app)
            try:
                async with asyncio.timeout(self._random.uniform(0.05, 0.5)):
                    await over.wait()
            except TimeoutError:
                continue

    async def _speak(self, app: App) -> None:
        tally = self._tally
        tally.submitted += 1
        self._utterance += 1
        began = time.monotonic()
        wanted = Wanted(wait_ms=2_000)
        ask = Ask(self._name, *self._pair, '{"audio_ref": "…"}', self._utterance, app.limits, wanted)
        submitted = await app.submitter.submit(ask, principal="demo", request_id=f"{self._name}-{self._utterance}")
        if isinstance(submitted, Refusal):
            tally.refused[submitted.code] += 1
            return
        tally.accepted += 1
        job_id, placed = submitted.job_id, submitted.placed
        ended = self._fleet.expect(job_id)
        if submitted.is_new:
            await self._fleet.assign(job_id, placed.attempt_id, placed.node_id, placed.epoch)
        job = await self._read(app, job_id)
        if job.record.state not in ENDS:
            await ended
            job = await self._read(app, job_id)
        tally.heard[job.record.state] += 1
        if job.record.state == "FINISHED":
            tally.latencies_ms.append((time.monotonic() - began) * 1000)
        await release(app.engine, job_id)

    @staticmethod
    async def _read(app: App, job_id: str) -> Job:
        job = await read_job(app.engine, job_id)
        if isinstance(job, Refusal):
            raise LinguaError(f"job {job_id} is gone: {job.detail}")
        return job
