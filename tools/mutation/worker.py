"""A process that has collected the tests and forks for every mutant: a mutant costs its tests and no start.

`python -m tools.mutation.worker [pytest arguments]` says on its output, a JSON line each, which tests it has, and then
answers each `Request` on its input with a `Verdict`. Every mutant has its own process group, with an engine of its
own, and all of it is killed at the end: a script that hangs takes nobody with it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import pytest

from tools.mutation.overlay import Overlay

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from io import BufferedReader, FileIO

    from lingua_scheduler.store.engine import Engine
    from lingua_scheduler.store.scripts import Script


class Hello(msgspec.Struct):
    """The tests that were collected, by their ids."""

    tests: list[str]


class Request(msgspec.Struct):
    """Run these tests on these texts, to the first failure; `record` all of them and what they call."""

    texts: dict[str, str]
    tests: list[str]
    timeout_s: float
    record: bool = False


class Verdict(msgspec.Struct):
    """`by` is the test that failed first, or "timeout", or "crash"; "" if none did. The rest is for the record."""

    by: str = ""
    why: str = ""
    failed: dict[str, str] = {}
    calls: dict[str, list[str]] = {}
    seconds: dict[str, float] = {}


class Worker:
    """A pytest plugin that stands in for the loop over the tests."""

    def __init__(self, overlay: Overlay, requests: BufferedReader, answers: FileIO) -> None:
        self._overlay = overlay
        self._requests = requests
        self._answers = answers
        self._failed: dict[str, str] = {}

    def pytest_configure(self) -> None:
        """What a mutant fails on is no example to remember, and not worth shrinking."""
        from hypothesis import Phase, settings  # noqa: PLC0415 - not before pytest, which rewrites its asserts

        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp(prefix="mutate-")
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutate", database=None, deadline=None, derandomize=True, phases=phases)
        settings.load_profile("mutate")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure, in one line."""
        if report.failed:
            self._failed.setdefault(report.nodeid, report.longreprtext.split("\n", 1)[0][:200])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A test file that cannot be read must not pass for one that notices nothing."""
        if report.failed:
            os.write(2, report.longreprtext.encode())
            os._exit(3)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Serve requests until there are no more."""
        items = {item.nodeid: item for item in session.items}
        gc.freeze()  # what a child does not touch, it need not copy
        self._say(Hello(list(items)))
        with contextlib.suppress(EOFError):
            while line := self._requests.readline():
                request = msgspec.json.decode(line, type=Request)
                self._say(self._fork(request, [items[test] for test in request.tests]))
        return True

    def _say(self, message: Hello | Verdict) -> None:
        self._answers.write(msgspec.json.encode(message) + b"\n")

    def _fork(self, request: Request, items: list[pytest.Item]) -> Verdict:
        inlet, outlet = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(inlet)
            self._be_the_child(request, items, outlet)
        os.close(outlet)
        with contextlib.suppress(OSError):
            os.setpgid(child, child)
        try:
            return self._heard(inlet, request.timeout_s)
        finally:
            os.close(inlet)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def _heard(self, inlet: int, timeout_s: float) -> Verdict:
        """What the child has to say before its time is up."""
        doors = [inlet, self._requests.fileno()]
        deadline = time.monotonic() + timeout_s
        data = b""
        while ready := select.select(doors, [], [], max(0.0, deadline - time.monotonic()))[0]:
            if inlet not in ready:
                raise EOFError("whoever asked has gone")  # it would not ask again before it has its answer
            chunk = os.read(inlet, 1 << 16)
            if not chunk:
                return msgspec.json.decode(data, type=Verdict) if data else Verdict("crash")
            data += chunk
        return Verdict("timeout")

    def _be_the_child(self, request: Request, items: list[pytest.Item], outlet: int) -> NoReturn:
        try:
            os.setpgid(0, 0)
            self._overlay.install(request.texts)
            verdict = self._run_all(items) if request.record else self._run(items)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it was the mutant
            verdict = Verdict("crash", repr(error)[:200])
        os.write(outlet, msgspec.json.encode(verdict))
        os._exit(0)

    def _run(self, items: list[pytest.Item]) -> Verdict:
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self._failed:
                break
        return Verdict(*next(iter(self._failed.items()), ()))

    def _run_all(self, items: list[pytest.Item]) -> Verdict:
        calls: dict[str, list[str]] = {}
        seconds: dict[str, float] = {}
        for item, after in zip(items, [*items[1:], None], strict=True):
            began = time.monotonic()
            with _calls_noted() as called:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            seconds[item.nodeid] = time.monotonic() - began
            calls[item.nodeid] = sorted(called)
        return Verdict(failed=self._failed, calls=calls, seconds=seconds)


@contextlib.contextmanager
def _calls_noted() -> Iterator[set[str]]:
    """The names of the scripts that are run meanwhile."""
    from lingua_scheduler.store.engine import Engine  # noqa: PLC0415 - not before the overlay is there

    called: set[str] = set()
    run = Engine.run

    def noting(self: Engine, script: Script, *more: Any) -> asyncio.Future[Any]:  # noqa: ANN401 - whatever it is called with
        called.add(script.name)
        return run(self, script, *more)

    setattr(Engine, "run", noting)  # noqa: B010 - mypy takes no method for an assignment
    try:
        yield called
    finally:
        setattr(Engine, "run", run)  # noqa: B010


def main(arguments: list[str]) -> int:
    """Keep the door to the parent apart from what the tests read and print, then become pytest."""
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb", 0) as answers:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        worker = Worker(Overlay(), requests, answers)
        return pytest.main(["-q", "-s", "--tb=line", "-p", "no:cacheprovider", *arguments], plugins=[worker])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
