"""Huey: a list with a blocking pop, and threads."""

from __future__ import annotations

import os
import sys
import time
from importlib.metadata import version
from typing import Any

from huey import RedisHuey

VERSION = version("huey")
huey = RedisHuey("peer", url=os.environ["PEER_STORE"])


@huey.task()
def noop(sent: float) -> float:
    return time.monotonic() - sent


class Peer:
    def worker(self) -> list[str]:
        return [sys.executable, "-m", "huey.bin.huey_consumer", "bench.peers.with_huey.huey", "-w", "8", "-n", "-q"]

    def open(self) -> None:
        """It connects by itself."""

    def submit(self, sent: float) -> Any:  # noqa: ANN401
        return noop(sent)

    def result(self, handle: Any) -> float:  # noqa: ANN401
        return float(handle.get(blocking=True, timeout=30, backoff=1, max_delay=0.005))
