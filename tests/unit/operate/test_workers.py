"""A worker is started again, whatever kept it from starting before."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.config import load
from lingua_scheduler.operate import workers
from tests.support.house import eventually
from tests.support.logs import told

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Program:
    """What is started in the place of a worker: it says a word, and stays."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def install(self, word: str) -> None:
        self.path.write_text(f"#!/bin/sh\nprintf '{word}'\nexec sleep 60\n")
        self.path.chmod(0o700)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    found = Program(tmp_path / "program")
    monkeypatch.setattr(workers, "_PAUSE_S", 0.01)
    monkeypatch.setattr(sys, "executable", str(found.path))
    found.install("{}\\n")
    return found


@asynccontextmanager
async def kept() -> AsyncIterator[workers.Worker]:
    """A worker that serves, and is started again when it does not."""
    soon = {"instance.presence_ttl_ms": 100, "instance.presence_beat_ms": 10}
    worker = workers.Worker(1, 0, [], load(env={}, flags=soon).settings)
    assert await worker.start() == {}
    keeping = asyncio.create_task(worker.keep())
    try:
        yield worker
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        await worker.end(10)


async def test_one_for_which_there_was_no_process_is_started_later(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    async def has_failed() -> bool:
        return "it could not be started" in [one["detail"] for one in told(caplog, "worker")]

    async with kept() as worker:
        program.path.unlink()
        _kill(worker)
        await eventually(has_failed)
        program.install('{"pid": 1}\\n')
        await eventually(lambda: _serves(worker))


async def test_one_that_says_nothing_is_ended_and_started_again(
    program: Program, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workers, "_START_S", 1.0)

    async def was_ended() -> bool:
        details = [one["detail"] for one in told(caplog, "worker")]
        return details[-2:] == ["it does not serve yet, and is ended", "it starts again"]

    async with kept() as worker:
        program.install("half a word")
        _kill(worker)
        await eventually(was_ended)
        program.install("{}\\n")
        await eventually(lambda: _serves(worker))


def _kill(worker: workers.Worker) -> None:
    assert worker._process is not None
    worker._process.kill()


async def _serves(worker: workers.Worker) -> bool:
    return worker._process is not None and worker._process.returncode is None
