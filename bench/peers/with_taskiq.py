"""Taskiq on a stream, with its result backend."""

from __future__ import annotations

import os
import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING

from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

if TYPE_CHECKING:
    from taskiq import AsyncTaskiqTask

VERSION = f"{version('taskiq')} (taskiq-redis {version('taskiq-redis')})"
STORE = os.environ["PEER_STORE"]
broker = RedisStreamBroker(STORE).with_result_backend(RedisAsyncResultBackend(STORE, result_ex_time=60))


@broker.task
async def noop(sent: float) -> float:
    return time.monotonic() - sent


class Peer:
    def worker(self) -> list[str]:
        options = ["--workers", "1", "--max-async-tasks", "256", "--log-level", "ERROR", "--no-configure-logging"]
        return [sys.executable, "-m", "taskiq", "worker", "bench.peers.with_taskiq:broker", *options]

    async def open(self) -> None:
        await broker.startup()

    async def submit(self, sent: float) -> AsyncTaskiqTask[float]:
        return await noop.kiq(sent)

    async def result(self, handle: AsyncTaskiqTask[float]) -> float:
        return float((await handle.wait_result(check_interval=0.005, timeout=30)).return_value)
