"""Ctrl-C in a terminal goes to all who were started from it; a terminal that is closed takes them with it."""

from __future__ import annotations

import itertools
import os
import pty
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.counting import count_until_hung_up
from tests.support.engine_place import Place, engine_place
from tests.support.nursery import Nursery, Watched
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Terminal:
    """A real terminal (a pseudo one, as every window has) with a nursery and its users in the foreground."""

    def __init__(self) -> None:
        self._keyboard, self._screen = pty.openpty()
        self._is_open = True
        self.nursery = Nursery(os.ttyname(self._screen))

    def press_ctrl_c(self) -> None:
        os.write(self._keyboard, b"\x03")

    def close(self) -> None:
        """Closes the window: the kernel hangs up on all who run in it."""
        if self._is_open:
            self._is_open = False
            os.close(self._screen)
            os.close(self._keyboard)


@pytest.fixture
def place() -> Iterator[Place]:
    with engine_place() as fresh:
        yield fresh


def opened() -> Iterator[Terminal]:
    fresh = Terminal()
    try:
        with fresh.nursery:
            yield fresh
    finally:
        fresh.close()


@pytest.fixture(scope="module")
def terminal() -> Iterator[Terminal]:
    """One for all tests that only press keys in it."""
    yield from opened()


@pytest.fixture
def window() -> Iterator[Terminal]:
    """One that may be closed."""
    yield from opened()


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Nursery]:
    with Nursery() as fresh:
        yield fresh


def all_are_gone(users: list[Watched]) -> None:
    for user in users:
        user.gone()


def a_thousand(count: int) -> bool:
    return count >= 1000


def count_of_a_newcomer(place: Place, nursery: Nursery) -> int:
    nursery.join(place)
    return int(place.ask("GET", "count"))


@pytest.mark.parametrize("strike", [Terminal.press_ctrl_c, Terminal.close])
def test_who_lives_elsewhere_keeps_the_engine_that_was_started_from_the_terminal(
    place: Place, window: Terminal, elsewhere: Nursery, strike: Callable[[Terminal], None]
) -> None:
    inside = [window.nursery.join(place) for _ in range(2)]
    outside = elsewhere.join(place)
    before = place.state()
    run = place.ask("INFO", "server")["run_id"]
    assert place.ask("SET", "word", "kept")
    strike(window)
    all_are_gone(inside)
    assert place.ask("GET", "word") == "kept"
    assert place.ask("INFO", "server")["run_id"] == run
    assert place.state() == before
    with Watched(before.guardian) as guardian:
        outside.end(signal.SIGTERM)
        guardian.gone(5)
    assert place.is_deserted()


@pytest.mark.parametrize("strike", [Terminal.press_ctrl_c, Terminal.close])
def test_a_terminal_with_all_users_leaves_no_process_and_loses_nothing_acknowledged(
    place: Place, window: Terminal, elsewhere: Nursery, strike: Callable[[Terminal], None]
) -> None:
    users = [window.nursery.join(place) for _ in range(3)]
    with Watched(place.state().guardian) as guardian:
        acknowledged = count_until_hung_up(place.paths.socket, a_thousand, lambda: strike(window))
        all_are_gone(users)
        guardian.gone(5)
    assert place.is_deserted()
    assert count_of_a_newcomer(place, elsewhere) >= acknowledged


@pytest.mark.parametrize("somebody_elsewhere", [False, True])
@pytest.mark.parametrize("order", list(itertools.permutations(("users", "guardian", "engine"))), ids="-".join)
def test_an_interrupt_for_every_group_at_once_loses_nothing_acknowledged(
    place: Place, terminal: Terminal, elsewhere: Nursery, order: tuple[str, ...], somebody_elsewhere: bool
) -> None:
    """As from a service manager that signals whatever it finds. None of the groups is another's."""
    users = [terminal.nursery.join(place) for _ in range(2)]
    if somebody_elsewhere:
        elsewhere.join(place)
    before = place.state()
    pids = {"users": users[0].pid, "guardian": before.guardian, "engine": before.engine}
    groups = {name: os.getpgid(pid) for name, pid in pids.items()}
    assert len(set(groups.values())) == 3

    def interrupt() -> None:
        for name in order:
            os.killpg(groups[name], signal.SIGINT)

    acknowledged = count_until_hung_up(place.paths.socket, a_thousand, interrupt)
    all_are_gone(users)
    if somebody_elsewhere:
        place.serves_again(other_than=before.engine)
        assert place.state().guardian == before.guardian
        assert int(place.ask("GET", "count")) >= acknowledged
    else:
        wait_until(place.is_deserted, 5, "guardian, engine and socket are gone")
        assert count_of_a_newcomer(place, elsewhere) >= acknowledged


def test_ctrl_c_while_they_start_leaves_no_process(place: Place, terminal: Terminal) -> None:
    # Starting takes about a sixth of a second. The keys are spread over that and a little beyond, so that each
    # of its steps is met; the second user joins while the first still starts.
    for number in range(12):
        users = [terminal.nursery.begin(place) for _ in range(2)]
        time.sleep(number * 0.02)
        terminal.press_ctrl_c()
        all_are_gone(users)
        wait_until(place.is_deserted, 5, "guardian, engine and socket are gone")
