"""Which files are looked at, and how a change is seen."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.sdk.nodes import reload
from lingua_scheduler.sdk.nodes.reload import Reloader, python_files, stamps_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_python_files_beside_and_below_are_looked_at_but_not_what_is_installed(tmp_path: Path) -> None:
    seen = ["node.py", "models/asr.py"]
    unseen = ["notes.txt", ".git/hook.py", "__pycache__/a.py", "env/lib/b.py", "site-packages/c.py"]
    for name in seen + unseen:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in python_files(tmp_path)) == sorted(seen)


def test_a_change_a_new_file_and_a_lost_one_are_seen(tmp_path: Path) -> None:
    file = tmp_path / "node.py"
    file.write_text("one")
    before = stamps_of(tmp_path)
    file.write_text("another")
    changed = stamps_of(tmp_path)
    assert changed != before
    (tmp_path / "new.py").write_text("x")
    assert stamps_of(tmp_path).keys() - changed.keys() == {tmp_path / "new.py"}
    file.unlink()
    assert file not in stamps_of(tmp_path)


#: It changes its own file, and when it is told to end it has something to do that takes a moment.
BUSY = """
import signal, time
from pathlib import Path
def end(*_):
    time.sleep(0.2)
    Path(__file__).with_name("done").touch()
    raise SystemExit(0)
signal.signal(signal.SIGTERM, end)
Path(__file__).write_text("# It ends.")
time.sleep(600)
"""


@pytest.fixture
def _signals() -> Iterator[None]:
    """A reloader has them while it runs."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals")
def test_a_node_that_takes_long_to_end_its_jobs_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reload, "_LONG_S", 0)
    file = tmp_path / "node.py"
    file.write_text(BUSY)
    assert Reloader([sys.executable, str(file)], tmp_path).run() == 0
    assert (tmp_path / "done").exists()
    said = capsys.readouterr().err
    assert "still ends its jobs" in said
    assert "node.py changed: starting again" in said
