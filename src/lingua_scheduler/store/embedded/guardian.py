"""The guardian's process: keeps one engine up while there are users, then stops it and goes.

Started by a user (`user.py`), which hands it guardian.lock, already locked, as an open file. The protocol
stands at the top of the package. It imports little, only the standard library: an engine answers 0.2 s after
its first user asked for it.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from lingua_scheduler.core.errors import EngineFailed
from lingua_scheduler.store.embedded.engine import Engine
from lingua_scheduler.store.embedded.locks import Lock
from lingua_scheduler.store.embedded.paths import Paths
from lingua_scheduler.store.embedded.state import State, write_state

LOOK_S: Final = 0.2
LOOK_AGAIN_S: Final = 0.02
SYNC_S: Final = 1.0

#: An engine that dies younger than this did not really start.
QUICK_S: Final = 2.0
QUICK_DEATHS_MAX: Final = 5
BACKOFF_S: Final = 0.05
#: After too many quick deaths users are told that it failed; it is still tried, since disks get emptied.
RETRY_S: Final = 5.0


class Guardian:
    """Looks around five times a second, and at once when the engine dies."""

    def __init__(self, paths: Paths, binary: str, durability: str, lock: Lock) -> None:
        self._paths = paths
        self._durability = durability
        self._lock = lock
        self._users = Lock.open(paths.users_lock)
        self._engine = Engine(paths, binary, durability)
        self._woken = _wake_when_a_child_ends()
        self._start_at = self._started_at = self._sync_at = 0.0
        self._quick_deaths = 0
        self._failure = ""

    def run(self) -> None:
        # Users first: the one that started us may be gone already, and then there is nothing to start.
        while self._is_at_home() and not self._users.try_exclusive():
            now = time.monotonic()
            self._mind_engine(now)
            if now >= self._sync_at:
                self._sync()
                self._sync_at = now + SYNC_S
            self._wait()
        if self._is_at_home():
            self._leave()
        else:
            # Somebody removed the data directory. What the engine acknowledges now is kept nowhere, and the
            # same path may already be the home of another guardian, whose socket and locks are not ours.
            self._engine.kill()

    def _is_at_home(self) -> bool:
        return self._users.is_at(self._paths.users_lock)

    def _mind_engine(self, now: float) -> None:
        if self._engine.pid:
            status = self._engine.ended()
            if status is None:
                if self._quick_deaths and now - self._started_at >= QUICK_S:
                    self._quick_deaths = 0
                    self._tell("")
                return
            self._plan_restart(now, f"the engine ended by itself, {_in_words(status)}")
        if now < self._start_at:
            return
        self._started_at = now
        try:
            if self._engine.start():
                self._tell(self._failure)
        except (OSError, EngineFailed) as error:
            self._plan_restart(now, f"the engine cannot be started: {error}")

    def _plan_restart(self, now: float, why: str) -> None:
        self._log(why)
        if now - self._started_at >= QUICK_S:
            self._quick_deaths = 0
            return
        self._quick_deaths += 1
        if self._quick_deaths < QUICK_DEATHS_MAX:
            self._start_at = now + BACKOFF_S * 2 ** (self._quick_deaths - 1)
        else:
            self._start_at = now + RETRY_S
            self._tell(f"{why} ({self._quick_deaths} times in a row)")
            self._log(f"this was try {self._quick_deaths} in a row; the next one is in {RETRY_S:.0f} s")

    def _sync(self) -> None:
        # Also with durability "fsync", where it finds nothing left to do.
        try:
            self._engine.sync()
        except OSError as error:
            self._log(f"the append-only file cannot be synced: {error}")

    def _leave(self) -> None:
        self._engine.stop()
        self._sync()
        self._paths.state.unlink(missing_ok=True)
        if self._paths.temporary.exists():
            shutil.rmtree(self._paths.data_dir, ignore_errors=True)
        # In this order: who gets users.lock next must find guardian.lock free.
        self._lock.close()
        self._users.close()

    def _tell(self, failure: str) -> None:
        self._failure = failure
        try:
            write_state(self._paths.state, State(os.getpid(), self._engine.pid, self._durability, failure))
        except OSError as error:
            self._log(f"the state file cannot be written: {error}")

    def _wait(self) -> None:
        starting = not self._engine.pid
        if select.select([self._woken], [], [], LOOK_AGAIN_S if starting else LOOK_S)[0]:
            os.read(self._woken, 4096)

    def _log(self, text: str) -> None:
        # Our standard error is the engine's log. A full disk must not end the guardian.
        with suppress(OSError):
            os.write(2, f"{os.getpid()}:G {time.strftime('%d %b %Y %H:%M:%S')} # {text}\n".encode())


def _wake_when_a_child_ends() -> int:
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    # The guardian goes when its users go, not when a service manager signals the whole group: they may need
    # the engine for their own leaving. Handlers that do nothing, because the engine would inherit SIG_IGN.
    for each in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, lambda *_: None)
    return woken


def _in_words(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


def main(arguments: list[str]) -> None:
    data_dir, socket, binary, durability, lock_fd = arguments
    # The user's child ends here, so that the user can wait for it now and is nobody's parent later.
    if os.fork():
        os._exit(0)
    lock = Lock(int(lock_fd))
    os.set_inheritable(lock.fd, False)  # else the engine would hold it, and outlive us as our own guardian
    os.umask(0o077)
    os.chdir(data_dir)
    Guardian(Paths(Path(data_dir), Path(socket)), binary, durability, lock).run()


if __name__ == "__main__":
    main(sys.argv[1:])
