from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.config.load import LEAVES
from lingua_scheduler.config.old_keys import OLD_KEYS
from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.job_state import MOVES
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.store.keys import CELL_KEY_NAMES, OUTSIDE_KEY_NAMES
from tools.docs import PAGES, config, job_states, keys, main, stale, table

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_pages_say_what_the_code_says() -> None:
    assert stale() == [], "run ./dev docs"


def test_a_stale_or_missing_page_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], tmp_path) == 0
    assert {path.name for path in tmp_path.iterdir()} == set(PAGES)
    assert main(["--check"], tmp_path) == 0
    (tmp_path / "keys.md").write_text("old\n")
    (tmp_path / "config.md").unlink()
    capsys.readouterr()
    assert main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out == (
        "docs/config.md is stale: run ./dev docs\ndocs/keys.md is stale: run ./dev docs\n"
    )
    assert (tmp_path / "keys.md").read_text() == "old\n"
    assert main([], tmp_path) == 0
    assert stale(tmp_path) == []


def test_an_unknown_argument_is_refused(tmp_path: Path) -> None:
    assert main(["--chek"], tmp_path) == 2
    assert list(tmp_path.iterdir()) == []


def test_every_setting_and_every_old_key_is_described() -> None:
    text = config()
    for key in (*LEAVES, *OLD_KEYS):
        assert f"| `{key}` |" in text
    assert "| `server.port` | whole number | `5010` | 0 … 65535 | `LINGUA_SERVER__PORT` | Port to listen on." in text
    assert "| `engine.durability` | `default` or `fsync` or `replicated` | `default` |  |" in text
    assert "| `engine.url` | text | empty | at most 2048 characters |" in text
    assert "| `cell.name` | text | `c0` | `^[a-z][a-z0-9]{0,15}$` |" in text
    assert "| `scheduler.phase2.redis_url` | `engine.url` |" in text
    assert "- `nodes.stale_ms` < `nodes.offline_ms`" in text
    assert "ms` + `nodes.handover_grace_ms` + `nodes.socket_beat_ms` < `nodes.offline_ms`" in text


def test_every_key_is_described() -> None:
    for name in (*CELL_KEY_NAMES, *OUTSIDE_KEY_NAMES):
        assert f"| `{name}` |" in keys()
    assert "`lingua:v1:{c0}:jobs`" in keys()


def test_every_move_and_every_cause_is_described() -> None:
    text = job_states()
    for source, targets in MOVES.items():
        for target, event in targets.items():
            assert f"  {source} --> {target}: {event}\n" in text
            assert f"| `{source}` | `{target}` | {event} |" in text
    assert "  FINISHED --> [*]\n" in text
    for cause in CAUSES:
        assert f"| `{cause.name}` | {cause.event} |" in text
        assert not cause.counts or f"max_{cause.counts}" in Rules.__struct_fields__


def test_a_bar_in_a_cell_does_not_break_its_table() -> None:
    assert table(("a",), [("x|y",)]) == "| a |\n| --- |\n| x\\|y |"
