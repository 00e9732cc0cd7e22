"""What was written is read, by time, whoever was killed meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.history import Pen, read_history

if TYPE_CHECKING:
    from pathlib import Path


def test_all_parts_are_one_history(tmp_path: Path) -> None:
    one, other = Pen(tmp_path, "n1.1"), Pen(tmp_path, "director")
    one.write("up", node="n1", slots=2)
    other.write("fault", kind="reset")
    one.write("begin", node="n1", job="c0.a", attempt=1)
    one.close()
    other.close()
    found = read_history(tmp_path)
    assert [(event.actor, event.what) for event in found] == [("n1.1", "up"), ("director", "fault"), ("n1.1", "begin")]
    assert (found[0].more, found[2].job) == ({"slots": 2}, "c0.a")


def test_half_a_line_is_nobodys_word(tmp_path: Path) -> None:
    pen = Pen(tmp_path, "n1.1")
    pen.write("up", node="n1", slots=2)
    pen.close()
    with (tmp_path / "n1.1.jsonl").open("ab") as file:
        file.write(b'{"at_s":1.0,"act')
    assert [event.what for event in read_history(tmp_path)] == ["up"]
