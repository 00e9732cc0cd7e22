"""What the README shows runs as it stands, but for the port and the job's id."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.house import Scheduler

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")


def example(language: str, port: int) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1].replace("5010", str(port))


async def run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    return said.decode()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
async def test_with_curl(scheduler: Scheduler) -> None:
    script = example("sh", scheduler.port)
    # Whoever reads it types the id of his own job.
    script = re.sub(r"^(api /v1/dispatch/f2f .*)$", r'placed=$(\1); echo "$placed"', script, flags=re.MULTILINE)
    script = re.sub(
        r"^job=\S+", r"job=$(echo $placed | sed 's/.*\"job_id\":\"\\([^\"]*\\)\".*/\\1/')", script, flags=re.MULTILINE
    )
    said = await run("sh", "-euc", script)
    assert '"state":"FINISHED"' in said
    assert "早上好" in said
    assert said.strip().endswith('{"ok":true}')


async def test_with_websockets(scheduler: Scheduler) -> None:
    assert "早上好" in await run(sys.executable, "-W", "error", "-c", example("python", scheduler.port))
