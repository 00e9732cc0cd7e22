"""Arq: sorted sets, polled by the worker and by whoever wants a result."""

from __future__ import annotations

import os
import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import uvloop
from arq import create_pool, run_worker
from arq.connections import ArqRedis, RedisSettings

if TYPE_CHECKING:
    from arq.jobs import Job

VERSION = version("arq")
SETTINGS = RedisSettings.from_dsn(os.environ["PEER_STORE"])


async def noop(_context: dict[str, Any], sent: float) -> float:
    return time.monotonic() - sent


class WorkerSettings:
    functions = (noop,)
    redis_settings = SETTINGS
    max_jobs = 256
    poll_delay = 0.005
    queue_read_limit = 256


class Peer:
    pool: ArqRedis

    def worker(self) -> list[str]:
        return [sys.executable, "-m", "bench.peers.with_arq"]

    async def open(self) -> None:
        self.pool = await create_pool(SETTINGS)

    async def submit(self, sent: float) -> Job | None:
        return await self.pool.enqueue_job("noop", sent)

    async def result(self, handle: Job) -> float:
        return float(await handle.result(timeout=30, poll_delay=0.005))


if __name__ == "__main__":
    uvloop.install()
    run_worker(WorkerSettings)
