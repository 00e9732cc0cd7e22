"""kill -9 of the guardian, of the engine, of everything: it comes back, with all that was acknowledged."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.counting import count_until_hung_up
from tests.support.engine_place import Place, engine_place
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLOW_SYNC = Path(__file__).parent / "programs" / "slow_sync"


@pytest.fixture
def place() -> Iterator[Place]:
    with engine_place() as fresh:
        yield fresh


def count_until_killed(place: Place, is_time: Callable[[int], bool]) -> int:
    """Counts up, many commands in flight, and kills the engine in time; returns the last number answered."""
    engine = place.state().engine
    return count_until_hung_up(place.paths.socket, is_time, lambda: os.kill(engine, signal.SIGKILL))


def test_a_killed_engine_comes_back_with_everything_it_acknowledged(place: Place) -> None:
    place.join()
    guardian, count = place.state().guardian, 0
    for _ in range(3):
        engine = place.state().engine
        acknowledged = count_until_killed(place, (count + 5000).__le__)
        place.serves_again(other_than=engine)
        count = int(place.ask("GET", "count"))
        assert count >= acknowledged
    assert place.state().guardian == guardian
    assert len(place.engines()) == 1


def slow_guardian(place: Place) -> dict[str, str]:
    path = os.pathsep.join([str(SLOW_SYNC), os.environ.get("PYTHONPATH", "")])
    return {"PYTHONPATH": path, "SLOW_SYNC_WITNESS": str(place.data_dir / "witness")}


def slow_everything(place: Place) -> dict[str, str]:
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no C compiler: only the guardian's own sync is slowed down, in the test beside this one")
    library = place.data_dir / "slow_sync.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(SLOW_SYNC / "slow_sync.c")], check=True)
    return {"LD_PRELOAD": str(library), "SLOW_SYNC_WITNESS": str(place.data_dir / "witness")}


@pytest.mark.parametrize("slow_down", [slow_guardian, slow_everything])
def test_nothing_acknowledged_is_lost_when_the_engine_is_killed_during_a_slow_sync(
    place: Place, slow_down: Callable[[Place], dict[str, str]]
) -> None:
    environment = slow_down(place)
    witness = Path(environment["SLOW_SYNC_WITNESS"])
    place.join(**environment)
    syncs_before = witness.stat().st_size if witness.exists() else 0
    count_at_sync = 0

    def deep_in_a_sync(count: int) -> bool:
        nonlocal count_at_sync
        if not count_at_sync and witness.exists() and witness.stat().st_size > syncs_before:
            count_at_sync = count
        return bool(count_at_sync) and count >= count_at_sync + 1000

    engine = place.state().engine
    acknowledged = count_until_killed(place, deep_in_a_sync)
    place.serves_again(other_than=engine)
    assert int(place.ask("GET", "count")) >= acknowledged


def test_the_guardian_brings_what_was_written_to_the_disk_within_a_second_or_two(place: Place) -> None:
    environment = slow_guardian(place)
    place.join(**environment)
    witness = Path(environment["SLOW_SYNC_WITNESS"])
    syncs = witness.stat().st_size if witness.exists() else 0
    place.ask("SET", "word", "kept")
    wait_until(lambda: witness.exists() and witness.stat().st_size > syncs, 3, "the guardian has synced")


def test_an_engine_killed_while_it_rewrites_its_file_comes_back_without_the_rewriting_child(
    place: Place,
) -> None:
    place.join()
    place.ask("EVAL", "for i = 1, 5000 do redis.call('SET', 'key' .. i, i) end", 0)
    place.ask("CONFIG", "SET", "rdb-key-save-delay", 10_000)  # µs for each key: the child needs 50 s
    place.ask("BGREWRITEAOF")
    wait_until(lambda: len(place.engines()) == 2, what="the rewriting child runs")
    engine = place.state().engine
    os.kill(engine, signal.SIGKILL)
    place.serves_again(other_than=engine)
    assert place.engines() == {place.state().engine}
    assert place.ask("DBSIZE") == 5000


def test_a_killed_guardian_is_replaced_by_a_user_and_the_data_is_intact(place: Place) -> None:
    for _ in range(2):
        place.join()
    place.ask("SET", "word", "kept")
    before = place.state()
    os.kill(before.guardian, signal.SIGKILL)
    place.serves_again(other_than=before.engine)
    assert place.ask("GET", "word") == "kept"
    assert place.state().guardian != before.guardian
    assert place.engines() == {place.state().engine}
    for user in place.users:
        user.end(signal.SIGKILL)
    wait_until(place.is_deserted, 5)


def test_a_guardian_outlives_a_polite_signal_and_still_minds_its_engine(place: Place) -> None:
    place.join()
    before = place.state()
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(before.guardian, each)
    os.kill(before.engine, signal.SIGTERM)
    place.serves_again(other_than=before.engine)
    assert place.state().guardian == before.guardian


def test_users_guardian_and_engine_killed_at_once_lose_nothing(place: Place) -> None:
    for _ in range(2):
        place.join()
    place.ask("SET", "word", "kept")
    before = place.state()
    for pid in (*(user.process.pid for user in place.users), before.guardian, before.engine):
        os.kill(pid, signal.SIGKILL)
    for user in place.users:
        user.process.wait(10)
    wait_until(lambda: not place.processes(), 5)
    place.join()
    assert place.ask("GET", "word") == "kept"
    assert place.engines() == {place.state().engine}


def test_an_engine_whose_directory_was_removed_ends_and_does_not_disturb_the_next_one(place: Place) -> None:
    place.join()
    before = place.state()
    shutil.rmtree(place.data_dir)
    place.join()
    wait_until(lambda: not {before.guardian, before.engine} & place.processes(), 5, "the first engine is gone")
    assert place.ask("PING")
    assert place.state().guardian != before.guardian
    assert place.engines() == {place.state().engine}


def test_guardian_and_last_user_killed_together_leave_no_engine(place: Place) -> None:
    user = place.join()
    os.kill(place.state().guardian, signal.SIGKILL)
    user.end(signal.SIGKILL)
    wait_until(lambda: not place.processes(), 5, "the engine died with its guardian")
    place.paths.socket.unlink(missing_ok=True)
