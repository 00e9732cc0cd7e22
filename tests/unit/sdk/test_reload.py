"""Which files are looked at, and how a change is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.sdk.nodes.reload import python_files, stamps_of

if TYPE_CHECKING:
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
