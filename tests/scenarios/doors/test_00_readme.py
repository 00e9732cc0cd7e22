"""What the README shows runs as it stands, but for the port."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.programs import ran

if TYPE_CHECKING:
    from tests.support.house import Scheduler

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")


def example(language: str, port: int) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1].replace("5010", str(port))


async def test_with_websockets(scheduler: Scheduler) -> None:
    code, said, errors = await ran(sys.executable, "-W", "error", "-c", example("python", scheduler.port))
    assert code == 0, errors
    assert "早上好" in said
