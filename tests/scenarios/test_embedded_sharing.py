"""Several processes share one embedded engine: who comes, and who comes while another goes."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.store.embedded import Embedded
from lingua_scheduler.store.embedded.locks import Lock
from tests.support.engine_place import Place, engine_place
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

WAYS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)


@pytest.fixture
def place() -> Iterator[Place]:
    with engine_place() as fresh:
        yield fresh


def three_users(place: Place) -> list[int]:
    """The first starts the engine, the others join it. Returns guardian and engine."""
    place.join()
    for user in [place.begin(), place.begin()]:
        user.ready()
    state = place.state()
    return [state.guardian, state.engine]


@pytest.mark.parametrize("way", WAYS)
def test_all_users_ended_at_once_leave_no_process(place: Place, way: signal.Signals) -> None:
    three_users(place)
    for user in place.users:
        os.kill(user.process.pid, way)
    for user in place.users:
        user.process.wait(10)
    wait_until(place.is_deserted, 5, "guardian, engine and socket are gone")


def test_a_user_who_leaves_in_order_takes_nothing_from_the_others(place: Place) -> None:
    three_users(place)
    engine = place.state().engine
    place.users[0].leave()
    assert place.ask("PING")
    assert place.state().engine == engine
    for user in place.users[1:]:
        user.leave()
    wait_until(place.is_deserted, 5)


def test_six_processes_that_start_at_once_get_one_engine(place: Place) -> None:
    users = [place.begin() for _ in range(6)]
    for user in users:
        user.ready()
        place.ask("INCR", "arrivals")
    assert place.ask("GET", "arrivals") == "6"
    assert place.engines() == {place.state().engine}
    assert len(place.processes()) == 6 + 2


async def test_who_joins_while_the_last_one_leaves_gets_a_working_engine(place: Place) -> None:
    before = Embedded(place.data_dir)
    await before.start()
    # The guardian needs up to a quarter of a second to see that it is alone and to stop the engine. The joins
    # are spread over that time and a little beyond, so that each of its steps is met.
    for number in range(16):
        await before.stop()
        await asyncio.sleep(number * 0.018)
        newcomer = Embedded(place.data_dir)
        await newcomer.start()
        assert place.ask("INCR", "joins") == number + 1
        assert len(place.engines()) == 1
        before = newcomer
    await before.stop()


async def test_who_comes_while_the_engine_is_being_stopped_waits_and_gets_a_new_one(place: Place) -> None:
    place.join()
    engine = place.state().engine
    os.kill(engine, signal.SIGSTOP)  # so that stopping it takes as long as we like
    place.users[0].end(signal.SIGKILL)
    wait_until(lambda: not can_join(place), 5, "the guardian is leaving")
    newcomer = Embedded(place.data_dir)
    joining = asyncio.create_task(newcomer.start())
    done, _ = await asyncio.wait([joining], timeout=0.1)
    assert not done
    os.kill(engine, signal.SIGCONT)
    await joining
    assert place.state().engine != engine
    assert place.ask("PING")
    await newcomer.stop()


def can_join(place: Place) -> bool:
    lock = Lock.open(place.paths.users_lock)
    try:
        return lock.try_shared()
    finally:
        lock.close()


async def test_leaving_and_joining_at_the_very_same_moment_works(place: Place) -> None:
    before = Embedded(place.data_dir)
    await before.start()
    for number in range(10):
        newcomer = Embedded(place.data_dir)
        await asyncio.gather(before.stop(), newcomer.start())
        assert place.ask("INCR", "joins") == number + 1
        before = newcomer
    await before.stop()


def test_a_forked_child_of_a_user_does_not_keep_the_engine(place: Place) -> None:
    user = place.begin("--fork")
    child = user.ready()["child"]
    try:
        user.end(signal.SIGKILL)
        wait_until(lambda: place.processes() <= {child}, 5, "guardian and engine are gone")
        assert child in place.processes()
    finally:
        os.kill(child, signal.SIGKILL)


async def test_a_temporary_engine_takes_its_directory_with_it() -> None:
    async with Embedded.temporary() as engine:
        data_dir = engine.paths.data_dir
        assert Place(data_dir).ask("SET", "word", "gone soon")
    assert not data_dir.exists()
    wait_until(Place(data_dir).is_deserted)
