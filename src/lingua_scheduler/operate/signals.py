"""How the commands that run on are ended."""

from __future__ import annotations

import asyncio
import signal


def end_on_signal(over: asyncio.Event) -> None:
    """The first signal sets `over`, and this task ends in peace; a second one stops everything at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def heard() -> None:
        if over.is_set() and task is not None:
            task.cancel()
        over.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heard)
