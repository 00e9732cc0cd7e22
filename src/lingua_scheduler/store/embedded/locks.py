"""File locks that the kernel drops with the process that holds them."""

from __future__ import annotations

import fcntl
import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Lock:
    """An open lock file; closing it lets go, unless a child has inherited it: then the child holds it."""

    __slots__ = ("__weakref__", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        _open_locks.add(self)

    @classmethod
    def open(cls, path: Path) -> Lock:
        return cls(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))

    def try_shared(self) -> bool:
        return self._try(fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        return self._try(fcntl.LOCK_EX)

    def is_at(self, path: Path) -> bool:
        """Whether the file that we hold is still the one that others find there."""
        try:
            return os.path.samestat(os.fstat(self.fd), path.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        # Never LOCK_UN: that would take the lock from a child to whom it was handed.
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self.fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_open_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def drop_all_locks() -> None:
    for lock in list(_open_locks):
        lock.close()
