"""One peer, one round: `python -m bench.peers.race arq --store URL --engine PID`. The last line is one JSON object.

A job's result is how long it took from the moment before it was submitted to its first line in the worker: both look
at the machine's one monotonic clock.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
import json
import os
import subprocess
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

import uvloop

from bench.processes import cpu_us, family_cpu_us

if TYPE_CHECKING:
    from collections.abc import Awaitable

#: Of the room in the window, so much is filled at once: side by side, where submitting is a wait.
AT_ONCE: Final = 64
#: Jobs that nobody measures: connections open, code is loaded, a worker is there.
WARM_UP: Final = 100
#: A worker that is not there by then is not coming.
PATIENCE_S: Final = 30


class Peer(Protocol):
    """A queue: `submit` gives a handle, `result` waits for what the worker returned. Both may be coroutines."""

    def worker(self) -> list[str]:
        """The command that runs its worker."""

    def open(self) -> Awaitable[None] | None:
        """Connect."""

    def submit(self, sent: float) -> Any:  # noqa: ANN401 - each has its own
        """One job."""

    def result(self, handle: Any) -> Any:  # noqa: ANN401
        """How long it took to the worker, in seconds."""


async def _maybe(value: Any) -> Any:  # noqa: ANN401
    return await value if inspect.isawaitable(value) else value


async def jobs(peer: Peer, in_flight: int, *, most: float = float("inf"), seconds: float = float("inf")) -> int:
    """So many jobs, or as many as can be begun in so many seconds, and hear of each, in the order of submission."""
    begun, submitted, heard = time.monotonic(), 0, 0
    handles: deque[Any] = deque()
    while True:
        is_over = time.monotonic() - begun >= seconds
        room = 0 if is_over else int(min(in_flight - len(handles), most - submitted))
        if room >= AT_ONCE or (room and not handles):
            handles += await asyncio.gather(*(_maybe(peer.submit(time.monotonic())) for _ in range(room)))
            submitted += room
        if not handles:
            return heard
        await _maybe(peer.result(handles.popleft()))
        heard += 1


async def latencies_ms(peer: Peer, number: int, rate: int) -> list[float]:
    """So many jobs, one at each stroke of a steady clock: how long each took to its worker."""
    begun = time.monotonic()
    handles = []
    for stroke in range(number):
        await asyncio.sleep(max(0.0, begun + stroke / rate - time.monotonic()))
        handles.append(await _maybe(peer.submit(time.monotonic())))
    return [1000 * await _maybe(peer.result(handle)) for handle in handles]


async def run(peer: Peer, worker: int, args: argparse.Namespace) -> dict[str, Any]:
    """The figures of one peer; and what a job cost each process, the engine included, in µs of CPU time."""
    await asyncio.wait_for(_maybe(peer.open()), PATIENCE_S)
    await asyncio.wait_for(jobs(peer, args.in_flight, most=WARM_UP), PATIENCE_S)
    begun, spent = time.monotonic(), (time.process_time() * 1e6, family_cpu_us(worker), cpu_us(args.engine))
    number = await jobs(peer, args.in_flight, seconds=args.seconds)
    took_s, now = time.monotonic() - begun, (time.process_time() * 1e6, family_cpu_us(worker), cpu_us(args.engine))
    client, work, engine = ((after - before) / number for before, after in zip(spent, now, strict=True))
    return {
        "jobs_per_s": number / took_s,
        "cpu_us": {"worker": work, "client": client, "engine": engine},
        "latencies_ms": await latencies_ms(peer, args.strokes, args.rate),
    }


def main() -> None:
    """Run one round of one peer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--store", required=True, help="URL of the engine")
    parser.add_argument("--engine", type=int, required=True, help="its process")
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--strokes", type=int, default=250)
    parser.add_argument("--rate", type=int, default=50)
    args = parser.parse_args()
    os.environ["PEER_STORE"] = args.store
    module = importlib.import_module(f"bench.peers.with_{args.name}")
    peer: Peer = module.Peer()
    worker = subprocess.Popen(peer.worker(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        found = uvloop.run(run(peer, worker.pid, args)) | {"version": module.VERSION}
    finally:
        worker.kill()  # and what it has started goes with the whole group, when the bench hears that we are done
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    # Some of these leave threads behind that wait for ever.
    os._exit(0)


if __name__ == "__main__":
    main()
