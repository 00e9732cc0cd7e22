"""SAQ: a list, a blocking move, and a notice to whoever waits for a job."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import uvloop
from saq import Job, Queue
from saq.worker import start

VERSION = version("saq")
queue = Queue.from_url(os.environ["PEER_STORE"])


async def noop(_context: dict[str, Any], *, sent: float) -> float:
    return time.monotonic() - sent


settings = {"queue": queue, "functions": [noop], "concurrency": 256}


class Peer:
    def worker(self) -> list[str]:
        return [sys.executable, "-m", "bench.peers.with_saq"]

    async def open(self) -> None:
        await queue.connect()

    async def submit(self, sent: float) -> Job | None:
        return await queue.enqueue("noop", sent=sent)

    async def result(self, handle: Job) -> float:
        # A notice that comes between its look and its wait is missed, so it looks again soon.
        while not handle.completed:
            with suppress(TimeoutError):
                await handle.refresh(until_complete=0.02)
        return float(handle.result)


if __name__ == "__main__":
    uvloop.install()
    start("bench.peers.with_saq.settings")
