"""Forks users of embedded engines: one for each line, which names a data directory, until the input ends.

A fork costs a few milliseconds where a new interpreter costs a fifth of a second. Each user says `begun PID` and then
`ready PID`, or `failed PID`. It leaves in order at SIGTERM, as a service does, and when this process has gone; Ctrl-C
and SIGKILL are left to Python and to the kernel.

usage: python engine_users.py [TERMINAL]   (with a terminal: Ctrl-C there goes to this process and all its users)
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.store.embedded import Embedded


def fork_users() -> tuple[str, int]:
    """Returns in each user, with its data directory and a pipe that ends with this process; never in this one."""
    # Nobody waits for the users here, and Ctrl-C is for them, as in a shell.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lifeline, held = os.pipe()
    for line in iter(sys.stdin.readline, ""):
        if os.fork() == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(held)
            return line.rstrip("\n"), lifeline
    os._exit(0)


def say(word: str) -> None:
    os.write(1, f"{word} {os.getpid()}\n".encode())


async def use(data_dir: str, lifeline: int) -> None:
    leave = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, leave.set)
    loop.add_reader(lifeline, leave.set)
    say("begun")
    try:
        async with Embedded(data_dir):
            say("ready")
            await leave.wait()
    except LinguaError:
        say("failed")
        raise


if __name__ == "__main__":
    if len(sys.argv) > 1:
        # The first terminal that the leader of a session opens is its own from then on.
        os.open(sys.argv[1], os.O_RDWR)
    directory, pipe = fork_users()
    os.chdir(directory)  # by this a test finds us
    try:
        asyncio.run(use(directory, pipe))
    finally:
        os._exit(0)  # what an interpreter does after its last line takes longer than all the rest
