"""The processes that the demo starts, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import deque
from contextlib import suppress
from signal import Signals
from typing import TYPE_CHECKING, Any, Final, Self

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.operate.signals import how_it_ended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

#: Of what a child says on standard error, so many lines are kept for the case that it dies of it.
_LAST_WORDS: Final = 20
#: The user's settings are for his own scheduler and nodes.
_OURS: Final = "LINGUA_"


class BrokenOff(LinguaError):
    """A process without which there is no demo has ended by itself."""


class Child:
    """A process of ours, on a leash. It is in a session of its own: Ctrl-C is for us, and we tell it what to do."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process
        self._last_words: deque[str] = deque(maxlen=_LAST_WORDS)
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, name: str, module: str, *arguments: str, settings: Mapping[str, str] | None = None) -> Self:
        """Start one of our own modules; it must hold its leash. `settings` are the only ones that it has."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            module,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=kept | dict(settings or {}),
            start_new_session=True,
        )
        return cls(name, process)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._process.returncode is not None

    def tell(self, line: str) -> None:
        """Say something to it; one that is gone does not hear it."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        if not self.has_ended:
            self._process.stdin.write(f"{line}\n".encode())

    async def said(self) -> AsyncIterator[dict[str, Any]]:
        """What it says on standard output, an object on a line, until it ends."""
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        async for line in self._process.stdout:
            yield json.loads(line)

    async def wait(self) -> int:
        """Its exit code, when it has ended; negative: the signal."""
        code = await self._process.wait()
        # Not `await`: whoever is cancelled here must not take the listener along.
        await asyncio.wait([self._listening])
        return code

    async def end(self, patience_s: float) -> bool:
        """Ask it to end, and make it if it takes too long. Whether it ended well.

        If it was so young that it could not hear yet, the kernel ended it: then there was nothing to drain.
        """
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(patience_s):
                return await self.wait() in {0, -Signals.SIGTERM}
        except TimeoutError:
            await self.kill()
            return False

    async def kill(self) -> None:
        """End it on the spot."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self.wait()

    def obituary(self) -> str:
        """How it ended, and its last words."""
        how = how_it_ended(self._process.returncode or 0)
        words = "\n".join(line.removeprefix("lingua: ") for line in self._last_words)
        return f"{self.name} {how}: {words}" if words else f"{self.name} {how}"

    async def _listen(self) -> None:
        assert self._process.stderr is not None  # noqa: S101 - it is a pipe
        async for line in self._process.stderr:
            self._last_words.append(line.decode(errors="replace").rstrip())
