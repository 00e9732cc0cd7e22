"""Celery on Redis, results included."""

from __future__ import annotations

import os
import sys
import time
from importlib.metadata import version
from typing import Any

from celery import Celery

VERSION = version("celery")
STORE = os.environ["PEER_STORE"]
app = Celery("peer", broker=STORE, backend=STORE)
app.conf.update(worker_prefetch_multiplier=64, broker_connection_retry_on_startup=True, result_expires=60)


@app.task
def noop(sent: float) -> float:
    return time.monotonic() - sent


class Peer:
    def worker(self) -> list[str]:
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "bench.peers.with_celery",
            "worker",
            "-P",
            "threads",
            "-c",
            "8",
        ]
        return [*command, "--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"]

    def open(self) -> None:
        """It connects by itself."""

    def submit(self, sent: float) -> Any:  # noqa: ANN401
        return noop.delay(sent)

    def result(self, handle: Any) -> float:  # noqa: ANN401
        return float(handle.get(timeout=30))
