"""`lingua config show`, as an operator runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

LINGUA = str(Path(sys.executable).parent / "lingua")


def test_a_wrong_setting_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[nodes]\nstale = 5\n")
    ran = subprocess.run(
        [LINGUA, "config", "show", "--config", str(config)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 2
    assert len(ran.stderr.strip().splitlines()) == 1
    assert "stale" in ran.stderr


def test_a_value_is_shown_as_it_is_whatever_is_in_it(tmp_path: Path) -> None:
    config = tmp_path / "[dim] config.toml"
    config.write_text(
        '[server]\nallowed_origins = ["http://[fd00::1]:5010"]\n'
        '[engine]\ndata_dir = "/srv/[/x]"\n[catalog]\nfile = "\\u001b[2J"\n',
        encoding="utf-8",
    )
    ran = subprocess.run(
        [LINGUA, "config", "show", "--origin", "--config", str(config)],
        env=os.environ | {"COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    for said in ("http://[fd00::1]:5010", "/srv/[/x]", "[dim] config.toml"):
        assert said in ran.stdout
    assert "\x1b" not in ran.stdout


def test_config_show_says_where_each_value_came_from(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[nodes]\nrest_ms = 1234\n")
    environment = os.environ | {"LINGUA_JOBS__MAX_RETRY": "1"}
    command = [LINGUA, "config", "show", "--origin", "--json", "--config", str(config)]
    shown = json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert shown["nodes.rest_ms"]["value"] == 1234
    assert "config.toml" in shown["nodes.rest_ms"]["origin"]
    assert shown["jobs.max_retry"] == {"value": 1, "origin": "env LINGUA_JOBS__MAX_RETRY"}
    assert shown["nodes.stale_ms"] == {"value": 35000, "origin": "default"}
