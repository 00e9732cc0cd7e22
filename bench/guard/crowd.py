"""`python -m bench.guard.crowd storm|stats|livez NUMBER PORT…`: those who make the noise, in a process of their own.

It says `there` when all are; `go` on its standard input begins, `stop` ends, and then it says how often they did it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Final

from bench.nodes import Node
from bench.raw import RawHttp

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A storm is so many events in a second, in strokes of a fiftieth.
EVENTS_PER_S: Final = 1_000
_STROKES_PER_S: Final = 50
#: More than any run has in flight.
_SLOTS: Final = 1_000
#: What is asked for: the fleet in numbers, and, to compare with, what no instance can answer with less.
PATHS: Final = {"stats": "/api/v1/stats", "livez": "/livez"}


class Storm:
    """Nodes that do every job at once, and cry that a model is not there. With each `go` it is another model."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._rounds = 0
        self.times = 0

    async def gather(self, number: int, ports: Sequence[int]) -> None:
        """All of them join, evenly."""
        for place in range(number):
            self._nodes.append(await Node.join(ports[place % len(ports)], f"crier-{place}", _SLOTS, careful=True))

    async def rage(self) -> None:
        """Until it is cancelled."""
        self._rounds += 1
        begun, cried = time.monotonic(), 0
        while True:
            due = round(EVENTS_PER_S * (time.monotonic() - begun))
            for number in range(cried, due):
                self._nodes[number % len(self._nodes)].cry(f"voice-{self._rounds}")
            self.times += due - cried
            cried = due
            await asyncio.sleep(1 / _STROKES_PER_S)


class Pollers:
    """Whoever asks for the same, again and again, as fast as he can."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._callers: list[RawHttp] = []
        self.times = 0

    async def gather(self, number: int, ports: Sequence[int]) -> None:
        """All of them connect."""
        self._callers = [await RawHttp.connect(ports[place % len(ports)]) for place in range(number)]

    async def rage(self) -> None:
        """Until it is cancelled. Whoever was given up in the middle of an answer begins anew."""
        await asyncio.gather(*(self._poll(caller) for caller in self._callers))

    async def _poll(self, caller: RawHttp) -> None:
        while True:
            status, _ = await asyncio.shield(caller.ask("GET", self._path))
            if status != 200:
                raise RuntimeError(f"{self._path}: {status}")
            self.times += 1


async def main(kind: str, number: int, ports: Sequence[int]) -> None:
    """Do as is said on standard input, until that ends."""
    crowd = Storm() if kind == "storm" else Pollers(PATHS[kind])
    await crowd.gather(number, ports)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("there", flush=True)
    raging: asyncio.Task[None] | None = None
    while line := await reader.readline():
        if line.strip() == b"go":
            crowd.times = 0
            raging = asyncio.create_task(crowd.rage())
        elif raging is not None:
            raging.cancel()
            await asyncio.wait([raging])
            print(json.dumps(crowd.times), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), [int(port) for port in sys.argv[3:]]))
