"""offer_seat, take_seat, leave_seat, and what is read of them: who is signed in at a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.seat import Seat, digest_of
from lingua_scheduler.flows.leave_seat import Unseated, leave_seat
from lingua_scheduler.flows.offer_seat import Offered, offer_seat
from lingua_scheduler.flows.take_seat import Seated, take_seat
from lingua_scheduler.store.keys import cell_key, seat_tag
from lingua_scheduler.views.seat import read_seat
from tests.support.stage import T0

if TYPE_CHECKING:
    from tests.support.world import World

PLACE, OTHER = digest_of("link"), digest_of("another link")
HIS, NOT_HIS = digest_of("secret"), digest_of("another secret")


def code_of(answer: object) -> str:
    assert isinstance(answer, Refusal), answer
    return answer.code


async def left_ms(world: World, name: str) -> int:
    tag = seat_tag(PLACE)
    return int(await world.engine.command("PTTL", cell_key(world.engine.prefix, tag, name), cell=tag))


async def test_a_link_makes_a_seat_once(world: World) -> None:
    assert await read_seat(world.engine, PLACE) is None
    assert await offer_seat(world.engine, PLACE, "ops", reads_only=True, ttl_ms=60_000) == Offered()
    assert 0 < await left_ms(world, "link") <= 60_000
    assert await read_seat(world.engine, PLACE) is None
    assert await take_seat(world.engine, PLACE, HIS, 90_000) == Seated("ops", True, T0 + 90_000)
    assert await read_seat(world.engine, PLACE) == Seat("ops", True, HIS, T0 + 90_000)
    assert 60_000 < await left_ms(world, "seat") <= 90_000
    assert code_of(await take_seat(world.engine, PLACE, NOT_HIS, 90_000)) == "LINK_GONE"
    assert await read_seat(world.engine, PLACE) == Seat("ops", True, HIS, T0 + 90_000)


async def test_whoever_has_no_link_gets_no_seat(world: World) -> None:
    await offer_seat(world.engine, PLACE, "ops", reads_only=False, ttl_ms=60_000)
    assert code_of(await take_seat(world.engine, OTHER, HIS, 1_000)) == "LINK_GONE"
    assert await read_seat(world.engine, OTHER) is None


async def test_a_link_is_not_for_ever(world: World) -> None:
    await offer_seat(world.engine, PLACE, "ops", reads_only=False, ttl_ms=1)
    while await left_ms(world, "link") != -2:
        pass
    assert code_of(await take_seat(world.engine, PLACE, HIS, 1_000)) == "LINK_GONE"


async def test_only_whoever_has_it_gives_it_up(world: World) -> None:
    await offer_seat(world.engine, PLACE, "ops", reads_only=False, ttl_ms=60_000)
    await take_seat(world.engine, PLACE, HIS, 90_000)
    assert await leave_seat(world.engine, PLACE, NOT_HIS) == Unseated(was_there=False)
    assert await read_seat(world.engine, PLACE) is not None
    assert await leave_seat(world.engine, PLACE, HIS) == Unseated(was_there=True)
    assert await leave_seat(world.engine, PLACE, HIS) == Unseated(was_there=False)
    assert await read_seat(world.engine, PLACE) is None
    assert await world.keys() == 0


@pytest.mark.parametrize("wrong", ["", "x", "{" + PLACE[1:], PLACE.upper(), PLACE + "0", None, 1])
async def test_what_is_no_digest_is_refused_and_comes_near_no_key(world: World, wrong: Any) -> None:
    asked = [
        offer_seat(world.engine, wrong, "ops", reads_only=False, ttl_ms=1_000),
        take_seat(world.engine, wrong, HIS, 1_000),
        take_seat(world.engine, PLACE, wrong, 1_000),
        leave_seat(world.engine, wrong, HIS),
        leave_seat(world.engine, PLACE, wrong),
        read_seat(world.engine, wrong),
    ]
    assert [code_of(await one) for one in asked] == ["INVALID_MESSAGE"] * len(asked)
    assert await world.keys() == 0


@pytest.mark.parametrize(
    "wrong", [{"name": "x" * 129}, {"name": None}, {"reads_only": 1}, {"ttl_ms": 0}, {"ttl_ms": 10**12}]
)
async def test_an_offer_that_cannot_be_right_is_refused(world: World, wrong: dict[str, Any]) -> None:
    said: dict[str, Any] = {"name": "ops", "reads_only": False, "ttl_ms": 1_000} | wrong
    assert code_of(await offer_seat(world.engine, PLACE, **said)) == "INVALID_MESSAGE"
    assert await world.keys() == 0
