"""A worker is started again, whatever kept it from starting before."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from lingua_scheduler.config import Settings
from lingua_scheduler.operate import workers
from tests.support.house import eventually
from tests.support.logs import told

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_one_for_which_there_was_no_process_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "program"

    def install(word: str) -> None:
        program.write_text(f"#!/bin/sh\nprintf '{word}'\nexec sleep 60\n")
        program.chmod(0o700)

    async def has_failed() -> bool:
        return "it could not be started" in [one["detail"] for one in told(caplog, "worker")]

    monkeypatch.setattr(workers, "_PAUSE_S", 0.01)
    monkeypatch.setattr(sys, "executable", str(program))
    install("{}\\n")
    worker = workers.Worker(1, 0, [], Settings())
    assert await worker.start() == {}
    keeping = asyncio.create_task(worker.keep())
    try:
        program.unlink()
        _kill(worker)
        await eventually(has_failed)
        install('{"pid": 1}\\n')
        await eventually(lambda: _serves(worker))
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        await worker.end(10)


def _kill(worker: workers.Worker) -> None:
    assert worker._process is not None
    worker._process.kill()


async def _serves(worker: workers.Worker) -> bool:
    return worker._process is not None and worker._process.returncode is None
