"""Many short-lived users of embedded engines, cheaply: a process that has everything imported forks them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from tests.support.engine_place import Place

_PROGRAM: Final = Path(__file__).parents[1] / "scenarios" / "programs" / "engine_users.py"


class Watched:
    """A running process, held by a descriptor: its end is an event, and its number cannot become another's."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        self._fd = -1

    def send(self, how: signal.Signals) -> None:
        """Sends a signal, unless it has ended already."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, how)

    def gone(self, timeout_s: float = 10.0) -> None:
        """Waits for its end."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        assert poll.poll(timeout_s * 1000), f"process {self.pid} has not ended within {timeout_s:g} s"

    def end(self, how: signal.Signals) -> None:
        self.send(how)
        self.gone()

    def close(self) -> None:
        """Ends it if it still runs, and lets go."""
        with self:
            self.end(signal.SIGKILL)


class Nursery:
    """The process that forks users. With a terminal, it and they are the terminal's foreground group."""

    def __init__(self, terminal: str = "") -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed when we leave
        self._process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), *([terminal] if terminal else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._words = self._process.stdin, self._process.stdout
        self._ready: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._orders.close()
        self._process.wait(10)
        self._words.close()
        self._errors.close()

    def begin(self, place: Place) -> Watched:
        """Starts a user of this place, and does not wait for its engine."""
        self._orders.write(f"{place.data_dir}\n")
        begun = 0
        while not begun:
            begun = self._hear()
        user = Watched(begun)
        place.forked.append(user)
        return user

    def join(self, place: Place) -> Watched:
        """Starts a user, and waits until the engine answers it."""
        user = self.begin(place)
        while user.pid not in self._ready:
            self._hear()
        return user

    def _hear(self) -> int:
        """The next word of a user; its number if it has just begun."""
        word, _, pid = self._words.readline().partition(" ")
        if word not in {"begun", "ready"}:
            self._errors.seek(0)
            raise AssertionError(self._errors.read().decode())
        if word == "ready":
            self._ready.add(int(pid))
        return int(pid) if word == "begun" else 0
