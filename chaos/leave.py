"""Leaves nothing behind: ends every process of a run when the director is gone, however it went.

    python -m chaos.leave TOKEN FOLDER

The director holds the other end of our standard input. A leash in each process would not do: one that sleeps
(SIGSTOP) does not notice, and engines have none. So every process of a run carries its token in its environment, and
whoever carries it is killed by its id.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "CHAOS_RUN"
_PATIENCE_S: Final = 5.0


def of_run(token: str) -> list[int]:
    """Every process that carries the token, but this one."""
    mark = f"{MARK}={token}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def end_all(token: str, but: tuple[int, ...] = ()) -> int:
    """Kill them, and whoever they have started meanwhile; how many there were."""
    ended: set[int] = set()
    until = time.monotonic() + _PATIENCE_S
    while (left := [pid for pid in of_run(token) if pid not in but]) and time.monotonic() < until:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            ended.add(pid)
        time.sleep(0.02)
    return len(ended)


def main(token: str, folder: str) -> None:
    """Wait for the end of the director, then tidy up."""
    # Ctrl-C is for the director.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    end_all(token)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
