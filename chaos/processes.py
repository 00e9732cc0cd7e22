"""The processes of a run: each is on a leash, carries the run's token, and complains into a file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from chaos.leave import MARK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

READY_S: Final = 30.0


class Process:
    """One of ours."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, log: Path, module: str, *words: object, settings: Mapping[str, str] | None = None) -> Self:
        """Start a module of ours; the user's settings are for his own scheduler."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("LINGUA_")}
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, *map(str, words)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=kept | dict(settings or {}),
                start_new_session=True,
            )
        return cls(process)

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    @property
    def is_up(self) -> bool:
        """Whether it runs, or sleeps."""
        return self._process.returncode is None

    async def ready(self) -> dict[str, Any]:
        """The first line that it says."""
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        async with asyncio.timeout(READY_S):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process ended before it was ready, with {await self._process.wait()}")
        said: dict[str, Any] = json.loads(line)
        return said

    def signal(self, number: signal.Signals) -> None:
        """Whether or not it is still there."""
        if self.is_up:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def wait(self) -> int:
        """Its exit code."""
        return await self._process.wait()

    async def end(self, patience_s: float) -> int | None:
        """Ask it to end; its exit code, or None if it had to be made to."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        try:
            async with asyncio.timeout(patience_s):
                return await self.wait()
        except TimeoutError:
            await self.kill()
            return None

    async def kill(self) -> None:
        """By kill -9."""
        self.signal(signal.SIGKILL)
        await self.wait()


async def start_leaver(token: str, folder: Path | None) -> asyncio.subprocess.Process:
    """Whoever tidies up if we cannot; it does not carry the token."""
    environment = {key: value for key, value in os.environ.items() if key != MARK}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "chaos.leave", token, str(folder or "")),
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
