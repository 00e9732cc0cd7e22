"""Dispatches one after the other, in turns: with a crowd that makes noise, and without."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from bench.amounts import amount
from bench.serving import job, submit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from bench.raw import RawHttp

ROUNDS: Final = amount(8, 2)
#: A round lasts so long; a storm is then at its height.
ROUND_S: Final = amount(2, 1)


class Crowd:
    """As it is told."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def go(self) -> None:
        """Begin."""
        await self._say(b"go\n")

    async def stop(self) -> int:
        """End; how often they did it."""
        await self._say(b"stop\n")
        return int(json.loads(await self.hear()))

    async def hear(self) -> bytes:
        """The next line."""
        assert self._process.stdout is not None  # noqa: S101 - it is piped
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the crowd is gone")
        return line

    async def _say(self, word: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is piped
        self._process.stdin.write(word)
        await self._process.stdin.drain()


@asynccontextmanager
async def crowd(kind: str, number: int, ports: Sequence[int]) -> AsyncIterator[Crowd]:
    """So many of them, all there."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.guard.crowd", kind, str(number), *map(str, ports)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        found = Crowd(process)
        await found.hear()
        yield found
    finally:
        process.kill()
        await process.wait()


async def dispatches(caller: RawHttp, seconds: float) -> list[float]:
    """For so long one job after the other; how many milliseconds each took until its caller was answered."""
    took: list[float] = []
    until = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < until:
        await submit(caller, job(f"s{len(took)}"))
        took.append(1000 * (time.perf_counter() - begun))
    return took
