"""`dev` with reload: runs a node's file, and runs it again when it, or a Python file beside or below it, changes.

It is a process of its own that never imports the file, so that a mistake in it ends nothing and models are loaded once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

#: The child of a reloader knows that it is one.
UNDER_RELOAD: Final = "LINGUA_NODE_RELOADS"
_LOOK_S: Final = 0.3
#: A node that takes longer to end its jobs is told of. It is waited for: it knows itself how long it may (`drain_s`).
_LONG_S: Final = 10.0
#: More files than these are not looked at.
_MAX_FILES: Final = 2_000

Stamps = dict[Path, tuple[int, int]]


def can_reload() -> bool:
    """Whether this is a program in a file, and not yet the child of a reloader."""
    is_module = {"-m", "-c"} & set(_flags())
    return not os.environ.get(UNDER_RELOAD) and not is_module and Path(sys.argv[0]).is_file()


def become_reloader() -> None:
    """Put the reloader in the place of this process; it runs the same command as its child."""
    command = [sys.executable, *_flags(), "-m", __name__, *sys.argv]
    os.execv(sys.executable, command)  # noqa: S606 - our own interpreter


def _flags() -> list[str]:
    """What this interpreter was started with, in front of the file."""
    return sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv)]


def python_files(directory: Path) -> Iterator[Path]:
    """The Python files of a project: no hidden directories, caches or virtual environments."""
    seen = 0
    for place, directories, names in os.walk(directory):
        directories[:] = sorted(
            name
            for name in directories
            if not name.startswith((".", "__pycache__", "node_modules", "site-packages"))
            and not Path(place, name, "pyvenv.cfg").exists()
        )
        for name in sorted(names):
            if name.endswith(".py"):
                seen += 1
                if seen > _MAX_FILES:
                    return
                yield Path(place, name)


def stamps_of(directory: Path) -> Stamps:
    """When each of them was last changed, and its size."""
    stamps: Stamps = {}
    for path in python_files(directory):
        try:
            status = path.stat()
        except OSError:
            continue
        stamps[path] = (status.st_mtime_ns, status.st_size)
    return stamps


class Reloader:
    """Starts, watches, ends and starts again."""

    def __init__(self, command: list[str], directory: Path) -> None:
        self._command = command
        self._directory = directory
        self._child: subprocess.Popen[bytes] | None = None
        self._signals = 0

    def run(self) -> int:
        """Until a signal, or until the node ends well."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._heard)
        while True:
            stamps = stamps_of(self._directory)
            self._child = subprocess.Popen(  # noqa: S603 - what the person at the terminal asked for
                self._command, env=os.environ | {UNDER_RELOAD: "1"}, start_new_session=True
            )
            changed = self._watch(stamps)
            code = self._end()
            if self._signals or not changed:
                return code
            _say(f"{changed} changed: starting again")

    def _watch(self, stamps: Stamps) -> str:
        """Which file changed; "": none, and the node is to end or has ended."""
        assert self._child is not None  # noqa: S101 - it was just started
        is_told = False
        while not self._signals:
            time.sleep(_LOOK_S)
            now = stamps_of(self._directory)
            changed = [path for path in stamps.keys() | now.keys() if stamps.get(path) != now.get(path)]
            if changed:
                return changed[0].name
            code = self._child.poll()
            if code == 0:
                return ""
            if code is not None and not is_told:
                is_told = True
                _say(f"the node ended with {code}; it starts again when a file changes")
        return ""

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        """The first signal lets the node drain, a second one ends it: it hears both."""
        self._signals += 1
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)

    def _end(self) -> int:
        """Let the node end its jobs."""
        assert self._child is not None  # noqa: S101 - it was started
        if not self._signals and self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._child.wait(_LONG_S)
        _say("the node still ends its jobs; Ctrl-C ends it at once")
        return self._child.wait()


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)  # noqa: T201 - for whoever looks on


def main() -> int:
    """`python -m lingua_scheduler.sdk.nodes.reload my_node.py dev …`."""
    file = Path(sys.argv[1]).resolve()
    command = [sys.executable, *_flags_of_module(), str(file), *sys.argv[2:]]
    return Reloader(command, file.parent).run()


def _flags_of_module() -> list[str]:
    """The interpreter's own flags: everything before `-m`."""
    return sys.orig_argv[1 : sys.orig_argv.index("-m")]


if __name__ == "__main__":
    raise SystemExit(main())
