"""chart, and what is read of it: the last hour in points, whoever said how it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.history import STRETCH_MS, STRETCHES, Point
from lingua_scheduler.flows.chart import Charted, chart
from lingua_scheduler.store.keys import DIRECTORY, cell_key
from lingua_scheduler.views.history import read_history
from tests.support.stage import T0

if TYPE_CHECKING:
    from tests.support.world import World

POINT = Point(3, 7, 5, 1, 100, 2, 1_500)
BEGAN = T0 // STRETCH_MS * STRETCH_MS


def like(**more: int) -> Point:
    return msgspec.structs.replace(POINT, **more)


async def test_a_point_is_kept_with_the_stretch_of_time_in_which_it_was_said(world: World) -> None:
    assert await read_history(world.engine) == []
    assert await chart(world.engine, POINT) == Charted()
    world.now_ms += 3 * STRETCH_MS
    await chart(world.engine, like(ready_nodes=4))
    assert await read_history(world.engine) == [(BEGAN, POINT), (BEGAN + 3 * STRETCH_MS, like(ready_nodes=4))]


async def test_of_several_who_speak_in_a_stretch_the_last_is_right_but_the_slowest_dispatch_counts(
    world: World,
) -> None:
    world.now_ms = BEGAN
    await chart(world.engine, POINT)
    world.now_ms += STRETCH_MS - 1
    await chart(world.engine, like(in_flight=9, dispatch_us=900))
    assert await read_history(world.engine) == [(BEGAN, like(in_flight=9))]
    await chart(world.engine, like(dispatch_us=2_000))
    assert await read_history(world.engine) == [(BEGAN, like(dispatch_us=2_000))]
    world.now_ms += 1
    await chart(world.engine, like(dispatch_us=1))
    assert (await read_history(world.engine))[1] == (BEGAN + STRETCH_MS, like(dispatch_us=1))


async def test_a_stretch_takes_the_place_of_the_one_an_hour_before(world: World) -> None:
    world.now_ms = BEGAN
    for number in range(STRETCHES + 2):
        await chart(world.engine, like(in_flight=number, dispatch_us=STRETCHES - number + 2))
        world.now_ms += STRETCH_MS
    world.now_ms -= STRETCH_MS
    found = await read_history(world.engine)
    assert [point.in_flight for _, point in found] == list(range(2, STRETCHES + 2))
    # Nobody inherits how slow it was an hour before.
    assert found[-1][1].dispatch_us == 1


async def test_what_is_older_than_an_hour_is_not_told_and_all_of_it_ends(world: World) -> None:
    await chart(world.engine, POINT)
    world.now_ms = BEGAN + (STRETCHES - 1) * STRETCH_MS
    assert len(await read_history(world.engine)) == 1
    world.now_ms += STRETCH_MS
    assert await read_history(world.engine) == []
    left_ms = await world.engine.command("PTTL", cell_key(world.engine.prefix, DIRECTORY, "history"))
    assert 0 < left_ms <= STRETCHES * STRETCH_MS
