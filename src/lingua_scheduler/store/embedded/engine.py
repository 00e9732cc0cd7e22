"""The engine as its guardian's child: start, notice its end, stop, sync its file."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

from lingua_scheduler.store.embedded.locks import Lock
from lingua_scheduler.store.embedded.options import engine_arguments
from lingua_scheduler.store.embedded.paths import make_socket_dir

if TYPE_CHECKING:
    from lingua_scheduler.store.embedded.paths import Paths

STOP_S: Final = 5.0
_POLL_S: Final = 0.01
_PR_SET_PDEATHSIG: Final = 1
_CANNOT_EXECUTE: Final = 127


class Engine:
    """One valkey-server at a time."""

    def __init__(self, paths: Paths, binary: str, durability: str) -> None:
        self._paths = paths
        self._command = [binary, *engine_arguments(paths, durability)]
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._synced: dict[str, int] = {}
        self.pid = 0

    def start(self) -> bool:
        """Starts it, unless an earlier one is not wholly gone yet: then that one is killed, and False."""
        lock = self._claim()
        if lock is None:
            return False
        try:
            make_socket_dir(self._paths.socket)
            guardian = os.getpid()
            self.pid = os.fork()
            if self.pid == 0:
                self._become_engine(lock, guardian)
        finally:
            lock.close()
        return True

    def ended(self) -> int | None:
        """Its exit status if it has ended (negative: the signal), else None."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def stop(self) -> None:
        """Asks it to end, then makes it; returns when it and its children are gone."""
        if self.pid:
            os.kill(self.pid, signal.SIGTERM)
            patience = time.monotonic() + STOP_S
            while self.ended() is None:
                if time.monotonic() > patience:
                    os.kill(self.pid, signal.SIGKILL)
                time.sleep(_POLL_S)
        self._paths.socket.unlink(missing_ok=True)
        if self._paths.socket.parent != self._paths.data_dir:
            with suppress(OSError):
                self._paths.socket.parent.rmdir()
        patience = time.monotonic() + STOP_S
        while (lock := self._claim()) is None and time.monotonic() < patience:
            time.sleep(_POLL_S)
        if lock is not None:
            lock.close()

    def kill(self) -> None:
        """Ends it on the spot and touches no file."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def sync(self) -> None:
        """Brings what was appended since the last call to the disk; the engine syncs base files itself."""
        synced: dict[str, int] = {}
        with suppress(FileNotFoundError), os.scandir(self._paths.data_dir / "appendonlydir") as found:
            for entry in found:
                if not entry.name.endswith(".incr.aof"):
                    continue
                with suppress(FileNotFoundError):
                    size = entry.stat().st_size
                    if size != self._synced.get(entry.name):
                        _sync_file(entry.path)
                    synced[entry.name] = size
        self._synced = synced

    def _claim(self) -> Lock | None:
        lock = Lock.open(self._paths.engine_lock)
        if lock.try_exclusive():
            os.ftruncate(lock.fd, 0)
            return lock
        group = os.pread(lock.fd, 20, 0)
        lock.close()
        if group.isdigit():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(group), signal.SIGKILL)
        return None

    def _become_engine(self, lock: Lock, guardian: int) -> NoReturn:
        try:
            # A group of its own, so that a child that rewrites the AOF can be killed after the engine was.
            os.setpgid(0, 0)
            if self._libc is not None:
                self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == guardian:
                os.write(lock.fd, str(os.getpid()).encode())
                os.set_inheritable(lock.fd, True)
                os.execv(self._command[0], self._command)  # noqa: S606 - no shell is meant
        except BaseException as error:  # noqa: BLE001 - nothing may return into the guardian's code
            os.write(2, f"cannot start {self._command[0]}: {error}\n".encode())
        finally:
            os._exit(_CANNOT_EXECUTE)


def _sync_file(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(fd) if hasattr(os, "fdatasync") else os.fsync(fd)
    finally:
        os.close(fd)
