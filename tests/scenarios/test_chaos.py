"""A short storm for each of a few seeds: whatever is killed, nothing is lost, oversold or left behind.

`./dev chaos` is the same on a larger scale, for as long as you like, on every kind of engine.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.leave import MARK, of_run
from chaos.report import figures, stories
from chaos.run import Run
from chaos.scale import SMALL
from tests.support.programs import started
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from chaos.plan import EngineKind

LASTS_S = 4.0


@pytest.mark.parametrize(("seed", "engine"), [(52, "embedded"), (567, "sentinel"), (1032, "cluster")])
async def test_nothing_is_lost_oversold_or_left_behind(seed: int, engine: EngineKind, tmp_path: Path) -> None:
    """How soon all is well after a storm is looked at where there is room for it: `./dev chaos`."""
    run = Run(seed=seed, engine=engine, scale=SMALL, lasts_s=LASTS_S, mode="liveness", keep=tmp_path)
    outcome = await run.play()
    assert not outcome.violations, "\n".join((f"seed {seed} on {engine}", *stories(outcome)))
    found = figures(outcome)
    assert found["jobs"]["FINISHED"] > 10
    assert found["faults"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
async def test_no_process_is_left_however_it_ends(tmp_path: Path, how: signal.Signals) -> None:
    words = ("--small", "--minutes", "1", "--seed", "2", "--keep", tmp_path)
    async with started("-m", "chaos", *words) as program:
        await program.line("everybody is here")
        token = _token_of(tmp_path)
        assert len(of_run(token)) > SMALL.nodes
        assert await program.end(how) == (-how if how == signal.SIGKILL else 130)
    wait_until(lambda: not of_run(token), what="nobody is left")


def _token_of(folder: Path) -> str:
    """What all processes of the run carry."""
    mark = f"{MARK}=".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if os.fsencode(folder) in (entry / "cmdline").read_bytes():
                    found = [word for word in (entry / "environ").read_bytes().split(b"\0") if word.startswith(mark)]
                    if found:
                        return found[0].removeprefix(mark).decode()
            except OSError:
                continue
    raise AssertionError(f"no process of a run in {folder}, says {sys.executable}")
