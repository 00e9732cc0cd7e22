"""A user of the embedded engine: joins it or starts it, and replaces its guardian if that is killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from lingua_scheduler.core.errors import EngineFailed
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.embedded.binary import find_binary
from lingua_scheduler.store.embedded.locks import Lock, drop_all_locks
from lingua_scheduler.store.embedded.options import APPENDFSYNC
from lingua_scheduler.store.embedded.paths import TEMPORARY_PREFIX, Paths, is_private, make_data_dir, paths_of
from lingua_scheduler.store.embedded.state import State, log_tail, read_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from lingua_scheduler.store.embedded.options import Durability

START_S: Final = 10.0
WATCH_S: Final = 0.25
_POLL_S: Final = 0.01
_PING_S: Final = 1.0
#: A guardian that dies at once is not started again in a tight loop.
_LAUNCH_AGAIN_S: Final = 1.0
_LEAVE_S: Final = 8.0
_LOG_BYTES_MAX: Final = 4 << 20

log = get_log(__name__)

# A child by fork without exec (multiprocessing) is not a user: it may outlive the one that it came from.
os.register_at_fork(after_in_child=drop_all_locks)


class Embedded:
    """`async with Embedded(data_dir) as engine:` a state engine at `engine.url`, for all who do the same."""

    def __init__(
        self,
        data_dir: Path | str | None,
        durability: Durability = "default",
        *,
        start_timeout_s: float = START_S,
    ) -> None:
        if durability not in APPENDFSYNC:
            raise ValueError(f"durability is one of {', '.join(APPENDFSYNC)}, not {durability!r}")
        self._wanted = data_dir
        self._durability: str = durability
        self._start_timeout_s = start_timeout_s
        self._paths: Paths | None = None
        self._binary = Path()
        self._users: Lock | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._launcher: subprocess.Popen[bytes] | None = None
        self._launched_at = float("-inf")
        self._complaint = ""

    @classmethod
    def temporary(cls, durability: Durability = "default") -> Self:
        """An engine in a directory of its own, which is removed with its data when its last user is gone."""
        return cls(None, durability)

    @property
    def paths(self) -> Paths:
        if self._paths is None:
            raise EngineFailed("the embedded engine was not started")
        return self._paths

    @property
    def socket_path(self) -> Path:
        return self.paths.socket

    @property
    def url(self) -> str:
        return f"unix://{self.paths.socket}"

    @property
    def state(self) -> State | None:
        """What the guardian last said: process ids, durability, failure."""
        return read_state(self.paths.state)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Returns when the engine answers; `EngineMissing` or `EngineFailed` if it cannot."""
        if self._users is not None:
            raise EngineFailed("this embedded engine was started already")
        self._binary = find_binary()
        self._paths = paths_of(make_data_dir(Path(self._wanted) if self._wanted is not None else _new_directory()))
        self._launched_at = float("-inf")
        deadline = time.monotonic() + self._start_timeout_s
        try:
            await self._join(deadline)
            await self._see_it_ready(deadline)
        except OSError as error:
            await self.stop()
            raise self._failed(str(error)) from error
        except BaseException:
            await self.stop()
            raise
        self._watcher = asyncio.create_task(self._watch(), name="embedded engine watcher")

    async def stop(self) -> None:
        """Leaves. If this was the last user, the engine stops by itself within a second or so."""
        watcher, self._watcher = self._watcher, None
        users, self._users = self._users, None
        deadline = time.monotonic() + _LEAVE_S
        try:
            if watcher is not None:
                watcher.cancel()
                await asyncio.gather(watcher, return_exceptions=True)
            await _until(lambda: not self._is_launching(), deadline)
        finally:
            if users is not None:
                users.close()
        if users is not None and self._wanted is None:
            # The guardian removes it, not we: somebody else may have joined.
            await _until(lambda: not self.paths.data_dir.exists(), deadline)

    async def _join(self, deadline: float) -> None:
        self._users = Lock.open(self.paths.users_lock)
        # Only a guardian that is leaving keeps us out.
        if not await _until(self._users.try_shared, deadline):
            raise self._failed("the one before is still being stopped")

    async def _see_it_ready(self, deadline: float) -> None:
        while True:
            self._replace_guardian()
            if await self._is_ready():
                return
            if time.monotonic() > deadline:
                raise self._failed(f"it did not answer within {self._start_timeout_s:g} s")
            await asyncio.sleep(_POLL_S)

    async def _is_ready(self) -> bool:
        # No state yet means a new guardian: what answers now would be the engine before, about to die.
        state = self.state
        if state is None:
            return False
        if state.failure:
            raise self._failed(state.failure)
        if state.durability != self._durability:
            if self._durability == "fsync":
                raise self._failed(
                    'it runs with durability "default" for another process: stop that, or ask for the same'
                )
            self._durability = state.durability  # the stronger one, also if we have to start the next guardian
        try:
            # Not `wait_for`: in Python 3.11 it loses a cancellation that comes together with the answer.
            async with asyncio.timeout(_PING_S):
                return is_private(self.socket_path.parent) and await self._ping()
        except (OSError, TimeoutError):
            return False

    async def _ping(self) -> bool:
        reader, writer = await asyncio.open_unix_connection(self.socket_path)
        try:
            writer.write(b"PING\r\n")
            # -LOADING while it reads its file.
            return await reader.readline() == b"+PONG\r\n"
        finally:
            writer.close()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                self._replace_guardian()
            except OSError as error:
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    log.warning("embedded", reason=error, detail="its guardian cannot be started")

    def _replace_guardian(self) -> None:
        """Starts a guardian if there is none, and hands it the lock that proved it."""
        if self._is_launching() or time.monotonic() < self._launched_at + _LAUNCH_AGAIN_S:
            return
        lock = Lock.open(self.paths.guardian_lock)
        try:
            if lock.try_exclusive():
                self._launched_at = time.monotonic()
                self._launch(lock)
        finally:
            lock.close()

    def _launch(self, lock: Lock) -> None:
        paths = self.paths
        before = self.state
        if before is not None and before.durability == "fsync":
            self._durability = "fsync"  # somebody who asked for it may still be here
        paths.state.unlink(missing_ok=True)
        if paths.log.exists() and paths.log.stat().st_size > _LOG_BYTES_MAX:
            paths.log.replace(paths.log.with_suffix(".log.old"))
        module = "lingua_scheduler.store.embedded.guardian"
        words = (paths.data_dir, paths.socket, self._binary, self._durability, lock.fd)
        fd = os.open(paths.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # A session of its own: Ctrl-C in the user's terminal is not meant for it.
            self._launcher = subprocess.Popen(  # noqa: S603 - our own module, no shell
                [sys.executable, "-P", "-m", module, *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=fd,
                stderr=fd,
                pass_fds=(lock.fd,),
                start_new_session=True,
            )
        finally:
            os.close(fd)

    def _is_launching(self) -> bool:
        if self._launcher is not None and self._launcher.poll() is not None:
            self._launcher = None
        return self._launcher is not None

    def _failed(self, why: str) -> EngineFailed:
        log = self.paths.log
        return EngineFailed(f"the embedded engine in {self.paths.data_dir} failed: {why}\n{log}:\n{log_tail(log)}")


async def _until(condition: Callable[[], bool], deadline: float) -> bool:
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL_S)
    return True


def _new_directory() -> Path:
    made = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX))
    (made / "temporary").touch()
    return made
