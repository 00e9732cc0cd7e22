"""Three processes share an embedded engine, and leave it: in every order, in every way, with and without its guardian.

All 6 orders × 27 ways (SIGTERM, SIGINT and SIGKILL for each of the three) are run. Users handle SIGTERM, as services
do; one who does not goes as with SIGKILL.

The guardian is killed before, between and after them, and its successor is waited for or not: 7 × 162 situations. By
default 81 of them: of the orders, those in which the second user goes before the third, since two users who only
joined are the same to everybody else; with each of those and each of the ways, one of the 7, such that each of the 7
meets every order and every way in every place. All of them, in a few minutes:
`LINGUA_EXHAUSTIVE_LEAVING=1 ./dev test tests/scenarios/test_embedded_leaving.py`
"""

from __future__ import annotations

import itertools
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support.engine_place import Place, engine_place
from tests.support.nursery import Nursery, Watched
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: More than there are cores, because a user, a guardian and an engine that leave wait most of the time.
HANDS = 6
ORDERS = list(itertools.permutations(range(3)))
DISTINCT_ORDERS = [order for order in ORDERS if order.index(1) < order.index(2)]
WAYS = list(itertools.product((signal.SIGTERM, signal.SIGINT, signal.SIGKILL), repeat=3))
EVERYTHING = bool(os.environ.get("LINGUA_EXHAUSTIVE_LEAVING"))


class Death(NamedTuple):
    """When the guardian is killed: before which departure, and whether that waits for the next guardian."""

    before: int
    replaced: bool = False


DEATHS = [*itertools.starmap(Death, itertools.product(range(3), (True, False))), Death(3)]


class Hands:
    """Runs many cases at once, each in a data directory of its own."""

    def __init__(self, stack: ExitStack) -> None:
        self._free: SimpleQueue[Nursery] = SimpleQueue()
        for _ in range(HANDS):
            self._free.put(stack.enter_context(Nursery()))
        self._pool = stack.enter_context(ThreadPoolExecutor(HANDS))

    def run(self, case: Callable[..., None], arguments: Iterable[tuple[object, ...]]) -> None:
        """All cases are run; the first that failed is raised, with a note of which it was."""

        def one(words: tuple[object, ...]) -> Exception | None:
            nursery = self._free.get()
            try:
                with engine_place() as place:
                    case(place, nursery, *words)
            except Exception as error:  # noqa: BLE001 - it is raised below
                error.add_note(f"{case.__name__}{words}")
                return error
            finally:
                self._free.put(nursery)
            return None

        failed = [error for error in self._pool.map(one, arguments) if error is not None]
        if failed:
            raise failed[0]


@pytest.fixture(scope="module")
def hands() -> Iterator[Hands]:
    with ExitStack() as stack:
        yield Hands(stack)


def three_users(place: Place, nursery: Nursery) -> list[Watched]:
    """The first starts the engine, the others join it; one word is written."""
    users = [nursery.join(place) for _ in range(3)]
    assert place.ask("SET", "word", "kept")
    return users


def nothing_is_left(place: Place, guardian: Watched) -> None:
    """The guardian goes last, when the engine and its socket are gone."""
    guardian.gone(5)
    assert place.is_deserted()


def leave_in_turn(place: Place, nursery: Nursery, order: tuple[int, ...], ways: tuple[signal.Signals, ...]) -> None:
    users = three_users(place, nursery)
    state = place.state()
    with Watched(state.guardian) as guardian:
        for who, way in zip(order[:2], ways[:2], strict=True):
            users[who].end(way)
            assert place.ask("GET", "word") == "kept"
            assert place.state() == state
        users[order[2]].end(ways[2])
        nothing_is_left(place, guardian)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_the_engine_serves_until_the_last_user_is_gone_in_every_order_and_way(
    hands: Hands, order: tuple[int, ...]
) -> None:
    hands.run(leave_in_turn, [(order, ways) for ways in WAYS])


def leave_with_a_guardian_killed(
    place: Place, nursery: Nursery, order: tuple[int, ...], ways: tuple[signal.Signals, ...], death: Death
) -> None:
    users = three_users(place, nursery)
    state = place.state()
    with Watched(state.guardian) as guardian, Watched(state.engine) as engine:
        for step, (who, way) in enumerate(zip(order, ways, strict=True)):
            if step == death.before:
                guardian.end(signal.SIGKILL)
                if death.replaced:
                    place.serves_again(other_than=state.engine)
            users[who].end(way)
            if step >= death.before and step < 2:
                place.serves_again(other_than=state.engine)
            if step < 2:
                assert place.ask("GET", "word") == "kept"
        guardian.end(signal.SIGKILL)
        engine.gone(5)
    wait_until(lambda: not place.processes(), 5, "the users' own guardian and engine are gone")
    if death.replaced or death.before < 2:
        assert place.is_deserted()
    else:
        newcomer = nursery.join(place)
        assert place.ask("GET", "word") == "kept"
        newcomer.end(signal.SIGTERM)


@pytest.mark.parametrize("order", ORDERS if EVERYTHING else DISTINCT_ORDERS, ids=str)
def test_a_guardian_killed_among_its_users_is_replaced_while_there_is_one_and_nothing_is_left(
    hands: Hands, order: tuple[int, ...]
) -> None:
    start = ORDERS.index(order) * len(WAYS)
    some = [(order, ways, DEATHS[(start + number) % len(DEATHS)]) for number, ways in enumerate(WAYS)]
    hands.run(leave_with_a_guardian_killed, itertools.product([order], WAYS, DEATHS) if EVERYTHING else some)


def leave_at_once(place: Place, nursery: Nursery, ways: tuple[signal.Signals, ...], with_guardian: bool) -> None:
    users = three_users(place, nursery)
    state = place.state()
    with Watched(state.guardian) as guardian, Watched(state.engine) as engine:
        if with_guardian:
            guardian.send(signal.SIGKILL)
        for user, way in zip(users, ways, strict=True):
            user.send(way)
        for user in users:
            user.gone()
        if with_guardian:
            engine.gone(5)
            wait_until(lambda: not place.processes(), 5, "a guardian that was on its way is gone, too")
            # Who is killed removes nothing.
            place.paths.socket.unlink(missing_ok=True)
        else:
            nothing_is_left(place, guardian)


@pytest.mark.parametrize("with_guardian", [False, True])
def test_all_users_ended_at_once_leave_nothing(hands: Hands, with_guardian: bool) -> None:
    hands.run(leave_at_once, [(ways, with_guardian) for ways in WAYS])
