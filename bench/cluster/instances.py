"""Several `lingua serve` on one engine, that can be killed, and start again where they were."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.processes import end
from bench.serving import start_serving

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator


class Instance:
    """One of them."""

    def __init__(self, url: str, settings: dict[str, str]) -> None:
        self._url = url
        self._settings = settings
        self._process: subprocess.Popen[bytes]
        self.port = 0
        self.start()

    def start(self) -> None:
        """Return when it serves, on the port that it always had."""
        self._process, self.port = start_serving(self._url, self._settings, self.port)

    async def start_again(self) -> None:
        """The same, while others go on."""
        await asyncio.to_thread(self.start)

    def kill(self) -> None:
        """It is gone, and could say nothing."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """It may drain."""
        end(self._process, patience_s=15)


@contextmanager
def instances(url: str, number: int, **settings: str) -> Iterator[list[Instance]]:
    """So many, with these settings."""
    found: list[Instance] = []
    try:
        found += (Instance(url, settings) for _ in range(number))
        yield found
    finally:
        for one in found:
            one.end()
