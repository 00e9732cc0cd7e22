"""Programs that a test starts, hears and ends."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.people import PATIENCE_S

if TYPE_CHECKING:
    import signal
    from collections.abc import AsyncIterator
    from pathlib import Path


class Program:
    """A process, and what it says on standard error, line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def line(self, *parts: str) -> str:
        """The next line with all of these in it."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while text := (await self.process.stderr.readline()).decode():
                self.lines.append(text)
                if all(part in text for part in parts):
                    return text
        raise AssertionError(f"{parts} did not come: {self.lines}")

    async def end(self, *signals: signal.Signals) -> int:
        """Its exit code, when it has ended."""
        for number in signals:
            self.process.send_signal(number)
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()


@asynccontextmanager
async def started(*command: str | Path, **env: str) -> AsyncIterator[Program]:
    """A Python program that runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *map(str, command), stderr=asyncio.subprocess.PIPE, env=os.environ | env
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def ran(*command: str | Path, **env: str) -> tuple[int | None, str, str]:
    """Any program, from its beginning to its end: its exit code, what it said, and its errors."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ | env
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, out.decode(), err.decode()


def find(package: str, *names: str) -> str:
    """Where one of these programs is. Tests without it have not been run: that is a failure."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(
            f"This needs a program that is not here: {' or '.join(names)}. "
            f"As root, ./dev test installs Debian's {package}; otherwise: sudo apt-get install {package}.",
            pytrace=False,
        )
    return found
