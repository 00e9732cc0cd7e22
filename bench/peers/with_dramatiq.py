"""Dramatiq: lists behind a script, and threads."""

from __future__ import annotations

import os
import sys
import time
from importlib.metadata import version
from typing import Any

os.environ["dramatiq_worker_timeout"] = "5"  # noqa: SIM112 - its name; milliseconds, here and in the worker

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

VERSION = version("dramatiq")
STORE = os.environ["PEER_STORE"]
broker = RedisBroker(url=STORE)
broker.add_middleware(Results(backend=RedisBackend(url=STORE)))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def noop(sent: float) -> float:
    return time.monotonic() - sent


class Peer:
    def worker(self) -> list[str]:
        return [sys.executable, "-m", "dramatiq", "bench.peers.with_dramatiq", "-p", "1", "-t", "8"]

    def open(self) -> None:
        """It connects by itself."""

    def submit(self, sent: float) -> Any:  # noqa: ANN401
        return noop.send(sent)

    def result(self, handle: Any) -> float:  # noqa: ANN401
        return float(handle.get_result(block=True, timeout=30_000))
