from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.store.scripts import read_packaged
from tools.mutation.fleet import WorkerFailed, workers
from tools.mutation.overlay import parts_of
from tools.mutation.worker import Request, Verdict

if TYPE_CHECKING:
    from tools.mutation.fleet import Driver

ROOT = Path(__file__).parents[3]

TESTS = """
import os, time
from lingua_scheduler.flows import ack, done
from lingua_scheduler.store.scripts import script

def test_ack_moves_the_job():
    if "sleep()" in ack._ACK.script.source:
        time.sleep(60)
    if "crash()" in ack._ACK.script.source:
        os._exit(7)
    assert '"ACCEPTED"' in ack._ACK.script.source

def test_clock():
    for one in (ack._ACK.script, done._DONE.script, script("flows/done")):
        assert "TIME" in one.source
"""


async def ask(driver: Driver, timeout_s: float = 30.0, **texts: str) -> Verdict:
    verdict = await driver.ask(
        Request({f"flows/{name}": text for name, text in texts.items()}, [*driver.tests], timeout_s)
    )
    return Verdict(verdict.by.rsplit(":", 1)[-1])


async def test_a_worker_says_which_test_notices_a_mutant(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    ack, clock = read_packaged("flows/ack"), read_packaged("flows/shared/clock")
    async with workers(ROOT, 1, [str(tmp_path)], {}) as (driver,):
        assert [test.rsplit(":", 1)[-1] for test in driver.tests] == ["test_ack_moves_the_job", "test_clock"]
        assert await ask(driver) == Verdict("")
        assert await ask(driver, ack=ack.replace('"ACCEPTED"', '"RUNNING"')) == Verdict("test_ack_moves_the_job")
        assert await ask(driver, 30.0, **{"shared/clock": clock.replace("TIME", "PING")}) == Verdict("test_clock")
        assert await ask(driver, ack=ack + "sleep()\n", timeout_s=0.5) == Verdict("timeout")
        assert await ask(driver, ack=ack + "crash()\n") == Verdict("crash")
        assert await ask(driver) == Verdict(""), "one mutant leaves nothing behind for the next"


async def test_a_test_file_that_cannot_be_read_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text("import nothing_of_the_kind\n", encoding="utf-8")
    with pytest.raises(WorkerFailed, match="is gone, with status 3"):
        async with workers(ROOT, 1, [str(tmp_path)], {}):
            pass


def test_the_parts_of_a_script_are_its_file_and_its_includes() -> None:
    assert {"flows/ack", "flows/shared/clock", "flows/shared/attempt_of"} <= parts_of("flows/ack")
    assert "flows/shared/settle" not in parts_of("flows/ack")
