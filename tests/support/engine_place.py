"""A data directory with the real processes around it: its users, its guardian, its engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from lingua_scheduler.store.embedded.paths import Paths, paths_of
from lingua_scheduler.store.embedded.state import State, read_state
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Sequence

    from tests.support.nursery import Watched

_PROGRAM: Final = Path(__file__).parents[1] / "scenarios" / "programs" / "engine_user.py"


class User:
    """A process that uses the embedded engine of a place."""

    def __init__(self, data_dir: Path, prefix: Sequence[str], *flags: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, str(_PROGRAM), str(data_dir), *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def ready(self) -> dict[str, Any]:
        """Waits for its word that the engine answers."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        said: dict[str, Any] = json.loads(line)
        return said

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(10)

    def leave(self) -> None:
        """The orderly way."""
        self.process.communicate("leave\n", timeout=10)
        assert self.process.returncode == 0

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        self.process.wait(10)


class Place:
    """One data directory in a test. Its users may see it where we do not: `prefix` starts them, `view` is our way."""

    def __init__(self, data_dir: Path, prefix: Sequence[str] = (), view: Path | None = None) -> None:
        self.data_dir = data_dir
        self.users: list[User] = []
        self.forked: list[Watched] = []
        self._prefix = prefix
        self._view = view

    @property
    def paths(self) -> Paths:
        return Paths(self._view, self._view / "engine.sock") if self._view else paths_of(self.data_dir)

    def begin(self, *flags: str, **environment: str) -> User:
        """Starts a user and does not wait for it."""
        user = User(self.data_dir, self._prefix, *flags, **environment)
        self.users.append(user)
        return user

    def join(self, *flags: str, **environment: str) -> User:
        user = self.begin(*flags, **environment)
        user.ready()
        return user

    def state(self) -> State:
        found: list[State] = []

        def there() -> bool:
            state = read_state(self.paths.state)
            found.extend([state] if state else [])
            return bool(found)

        wait_until(there, what="a guardian has written its state")
        return found[0]

    def ask(self, *words: str | int) -> Any:
        """One command on a connection of its own, sent once."""
        client = redis.Redis(
            unix_socket_path=str(self.paths.socket), retry=Retry(NoBackoff(), 0), decode_responses=True
        )
        with client:
            return client.execute_command(*words)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped

    def answers(self) -> bool:
        with suppress(redis.RedisError):
            return bool(self.ask("PING"))
        return False

    def serves_again(self, other_than: int) -> None:
        """Waits until an engine with another process id answers."""
        wait_until(lambda: self.state().engine != other_than and self.answers(), what="a new engine answers")

    def processes(self) -> set[int]:
        """Everything that runs for this directory, users too: it is named in the command, or worked in."""
        return {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and self._is_ours(entry)}

    def engines(self) -> set[int]:
        return {pid for pid in self.processes() if _program(pid).endswith("-server")}

    def is_deserted(self) -> bool:
        return not self.processes() and not self.paths.socket.exists()

    def close(self) -> None:
        for user in self.users:
            user.close()
        for child in self.forked:
            child.close()
        wait_until(self.is_deserted, what=f"nothing is left of {self.data_dir}")
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def _is_ours(self, entry: Path) -> bool:
        with suppress(OSError):
            if os.fsencode(self.data_dir) in (entry / "cmdline").read_bytes():
                return True
            return (entry / "cwd").readlink() == self.data_dir
        return False


@contextmanager
def engine_place() -> Iterator[Place]:
    """A fresh place; at the end all users are killed, and everything else must go by itself."""
    place = Place(Path(tempfile.mkdtemp(prefix="lingua-test-")).resolve())
    try:
        yield place
    finally:
        place.close()


def _program(pid: int) -> str:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/exe").readlink())
    return ""
