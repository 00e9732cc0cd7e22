"""How the commands that run on are ended, and what is said of a process that did."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def how_it_ended(code: int) -> str:
    """What is said of a process that ended with this exit code; a negative one is the signal that killed it."""
    if code >= 0:
        return f"ended with exit code {code}"
    names = {known.value: known.name for known in signal.Signals}
    return f"was killed by {names.get(-code, f'signal {-code}')}"


def end_on_signal(over: asyncio.Event) -> None:
    """The first signal sets `over`, and this task ends in peace; a second one stops everything at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def heard() -> None:
        if over.is_set() and task is not None:
            task.cancel()
        over.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heard)


def on_hangup(do: Callable[[], None]) -> None:
    """What SIGHUP means to a service. On a terminal it says that this is gone, and whoever runs there ends as usual."""
    # A service may have closed some of them.
    if not any(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr) if stream is not None):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, do)


async def first_of(*events: asyncio.Event) -> None:
    """Wait until one of them is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()
