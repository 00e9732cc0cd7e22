"""Several workers side by side, each asked for the next mutant as soon as it is free."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from tools.mutation.worker import Hello, Request, Verdict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

_LINE_BYTES: Final = 1 << 26


class WorkerFailed(RuntimeError):
    """A worker did not come up, or went away: a test file does not load, most likely."""


class Driver:
    """The parent's end of one worker."""

    def __init__(self, process: asyncio.subprocess.Process, tests: Sequence[str]) -> None:
        self._process = process
        self.tests = tests

    async def ask(self, request: Request) -> Verdict:
        """Have it run a mutant."""
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        self._process.stdin.write(msgspec.json.encode(request) + b"\n")
        await self._process.stdin.drain()
        return msgspec.json.decode(await _line(self._process), type=Verdict)


@contextlib.asynccontextmanager
async def workers(
    root: Path, number: int, arguments: Sequence[str], environment: Mapping[str, str]
) -> AsyncIterator[list[Driver]]:
    """So many workers that have collected the tests; they end with the block."""
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tools.mutation.worker",
            *arguments,
            cwd=root,
            env={**os.environ, **environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
        )
        for _ in range(number)
    ]
    try:
        hellos = [msgspec.json.decode(await _line(process), type=Hello) for process in processes]
        yield [Driver(process, hello.tests) for process, hello in zip(processes, hellos, strict=True)]
    finally:
        for process in processes:
            # At the end of its input it goes by itself, after the mutant that it is at.
            if process.stdin is not None:
                process.stdin.close()
        for process in processes:
            await process.wait()


async def _line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None  # noqa: S101 - it was asked for
    line = await process.stdout.readline()
    if not line:
        raise WorkerFailed(f"worker {process.pid} is gone, with status {await process.wait()}")
    return line
