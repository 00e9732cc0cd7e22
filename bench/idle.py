"""Five thousand nodes on one instance that have nothing to do but beat, as often as they are asked to."""

from __future__ import annotations

import asyncio
import resource
import time
from typing import TYPE_CHECKING, Any, Final

from bench.amounts import amount
from bench.nodes import Node
from bench.processes import cpu_us, resident_bytes
from bench.serving import serving

if TYPE_CHECKING:
    from bench.serving import Store

SOCKETS: Final = amount(5_000, 50)
#: Nodes that join before anything is measured: by then what the first one needs is loaded.
_FIRST: Final = 50
_AT_ONCE: Final = 32
#: A multiple of the default heartbeat (15 s) and of the default ping (10 s).
_WATCHED_S: Final = amount(30, 1)
_BEAT_S: Final = 15
_STROKES_PER_S: Final = 20
_SPARE_FILES: Final = 200
_SETTINGS: Final = {"LINGUA_CELL__CELL_CAPACITY": "10000", "LINGUA_SERVER__MAX_CONNECTIONS": "10000"}


async def measure(store: Store) -> dict[str, Any]:
    """The server's memory for each socket, and the CPU time of server and engine while all only beat."""
    allow_files(SOCKETS + _SPARE_FILES)
    with serving(store, _SETTINGS) as (pid, port):
        nodes = await _join(port, 0, _FIRST)
        before = resident_bytes(pid)
        nodes += await _join(port, _FIRST, SOCKETS + _FIRST)
        await _beat(nodes, amount(_BEAT_S, 1))
        taken = resident_bytes(pid) - before
        begun, spent = time.monotonic(), (cpu_us(pid), cpu_us(store.pid))
        await _beat(nodes, _WATCHED_S)
        took_us = 1e6 * (time.monotonic() - begun)
        server, engine = (
            (now - was) / took_us for now, was in zip((cpu_us(pid), cpu_us(store.pid)), spent, strict=True)
        )
        if gone := sum(node.is_gone for node in nodes):
            raise RuntimeError(f"{gone} of {len(nodes)} idle sockets were closed")
    return {
        "idle_sockets": SOCKETS,
        "bytes_per_socket": round(taken / SOCKETS),
        "idle_cpu_share": {"server": round(server, 3), "engine": round(engine, 3)},
    }


def allow_files(number: int) -> None:
    """Let this process, and those that it starts, have so many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < number:
        raise RuntimeError(
            f"{SOCKETS} idle sockets need {number} open files; at most {hard} are allowed here (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number) if soft != resource.RLIM_INFINITY else soft, hard))


async def _join(port: int, first: int, end: int) -> list[Node]:
    """Nodes with these numbers, some at a time."""
    nodes: list[Node] = []
    numbers = iter(range(first, end))

    async def one() -> None:
        for number in numbers:
            nodes.append(await Node.join(port, f"idle-{number}", 4))  # noqa: PERF401 - others append in between

    await asyncio.gather(*(one() for _ in range(_AT_ONCE)))
    return nodes


async def _beat(nodes: list[Node], seconds: float) -> None:
    """For so long each node beats once in a heartbeat's time, all of them evenly spread."""
    begun, beaten = time.monotonic(), 0
    while (passed := time.monotonic() - begun) < seconds:
        due = round(len(nodes) * passed / _BEAT_S)
        for number in range(beaten, due):
            nodes[number % len(nodes)].beat()
        beaten = due
        await asyncio.sleep(1 / _STROKES_PER_S)
