"""Token buckets: so many at once, so many a second, exactly, and a refusal says when to come again."""

from __future__ import annotations

import asyncio
import itertools
from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lingua_scheduler.core.records import Bucket
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.admit import Admitted, admit
from lingua_scheduler.store.keys import cell_key, rate_tag
from tests.support.cells import watch
from tests.support.stage import T0, code_of, join

if TYPE_CHECKING:
    from tests.support.world import World

NAMES = (f"bucket-{number}" for number in itertools.count())


def key_of(world: World, name: str = "ann") -> str:
    return cell_key(world.engine.prefix, rate_tag(name), "bucket")


async def kept(world: World) -> Bucket | None:
    packed = await world.engine.command("GET", key_of(world))
    return None if packed is None else msgspec.msgpack.decode(packed, type=Bucket)


async def come(world: World, *, rate: int = 2, burst: int = 4, cost: int = 1, name: str = "ann") -> int | None:
    """Whether one more is admitted: None, or in how many milliseconds to come again."""
    answer = await admit(world.engine, name, rate, burst, cost)
    if isinstance(answer, Refusal):
        assert (answer.code, answer.status, answer.retryable) == ("RATE_LIMITED", 429, True)
        return answer.retry_after_ms
    assert answer == Admitted()
    # The clock of a test stands still and that of the engine does not: nothing shall be forgotten meanwhile.
    await world.engine.command("PERSIST", key_of(world, name))
    return None


async def test_a_bucket_that_nobody_knows_is_full(world: World) -> None:
    assert [await come(world) for _ in range(5)] == [None] * 4 + [500]
    assert await kept(world) == Bucket(0, T0)


async def test_who_is_refused_pays_nothing(world: World) -> None:
    assert [await come(world, burst=1) for _ in range(4)] == [None, 500, 500, 500]
    assert await kept(world) == Bucket(0, T0)
    world.now_ms += 500
    assert await come(world, burst=1) is None


@pytest.mark.parametrize(("rate", "wait_ms"), [(1, 1_000), (3, 334), (7, 143), (20, 50), (999, 2), (1_000, 1)])
async def test_who_comes_when_he_was_told_is_admitted_and_no_sooner(world: World, rate: int, wait_ms: int) -> None:
    # Emptied by hand: at such a rate it would be full, and forgotten, before the test looks.
    await world.engine.command("SET", key_of(world), msgspec.msgpack.encode(Bucket(0, T0)))
    assert await come(world, rate=rate) == wait_ms
    world.now_ms += wait_ms - 1
    assert await come(world, rate=rate) == 1
    world.now_ms += 1
    assert await come(world, rate=rate) is None


async def test_what_drips_in_is_not_rounded_away(world: World) -> None:
    assert [await come(world, rate=3, burst=1) for _ in range(2)] == [None, 334]
    for _ in range(333):
        world.now_ms += 1
        assert isinstance(await admit(world.engine, "ann", 3, 1), Refusal)
    world.now_ms += 1
    assert await come(world, rate=3, burst=1) is None
    assert await kept(world) == Bucket(0, T0 + 334)
    await come(world, rate=3, burst=4, name="bob")
    world.now_ms += 100
    assert [await come(world, rate=3, burst=4, name="bob") for _ in range(4)] == [None] * 3 + [234]


async def test_no_more_than_the_burst_stay(world: World) -> None:
    await come(world)
    world.now_ms += 1_000_000
    assert [await come(world) for _ in range(5)] == [None] * 4 + [500]


async def test_one_may_cost_several(world: World) -> None:
    assert [await come(world, cost=3), await come(world, cost=2), await come(world)] == [None, 500, None]
    assert await kept(world) == Bucket(0, T0)


@pytest.mark.parametrize(
    ("cost", "rate", "burst", "until_full_ms"),
    [(1, 2, 4, 500), (4, 2, 4, 2_000), (5, 3, 9, 1_667), (400, 200, 400, 2_000), (1, 1, 1_000_000, 1_000)],
)
async def test_a_bucket_lives_until_it_is_full(
    world: World, cost: int, rate: int, burst: int, until_full_ms: int
) -> None:
    assert await admit(world.engine, "ann", rate, burst, cost) == Admitted()
    left_ms = await world.engine.command("PTTL", key_of(world))
    assert until_full_ms - 300 < left_ms <= until_full_ms
    assert await kept(world) == Bucket((burst - cost) * 1_000, T0)


async def test_those_of_one_tick_are_counted_one_by_one(world: World) -> None:
    answers = await asyncio.gather(*(admit(world.engine, "ann", 1, 3) for _ in range(5)))
    assert [code_of(answer) for answer in answers] == ["", "", "", "RATE_LIMITED", "RATE_LIMITED"]


async def test_each_name_has_a_bucket_of_its_own(world: World) -> None:
    assert [await come(world, burst=1, name=name) for name in ("ann", "bob", "ann", "bob")] == [None, None, 500, 500]


async def test_a_smaller_bucket_holds_no_more_than_it_can_from_now_on(world: World) -> None:
    await come(world, burst=10)
    assert [await come(world, burst=2) for _ in range(3)] == [None, None, 500]


async def test_a_clock_that_was_set_back_takes_nothing_away(world: World) -> None:
    await come(world)
    world.now_ms -= 60_000
    assert [await come(world) for _ in range(4)] == [None] * 3 + [500]
    world.now_ms += 500
    assert [await come(world) for _ in range(2)] == [None, 500]


async def test_it_is_no_part_of_a_cell(world: World) -> None:
    await join(world)
    _, changes = await watch(world, admit(world.engine, "ann", 1, 1))
    assert changes == {}


@pytest.mark.parametrize(
    "words",
    [
        ("", 1, 1, 1),
        ("a:b", 1, 1, 1),
        ("a{b}", 1, 1, 1),
        (None, 1, 1, 1),
        ("ann", 0, 1, 1),
        ("ann", 1_000_001, 1, 1),
        ("ann", 0.5, 1, 1),
        ("ann", 1, 0, 1),
        ("ann", 1, 1_000_001, 1),
        ("ann", 1, 1, 0),
        ("ann", 1, 4, 5),
    ],
)
async def test_what_cannot_be_right_is_invalid_and_writes_nothing(
    world: World, words: tuple[str, int, int, int]
) -> None:
    assert code_of(await admit(world.engine, *words)) == "INVALID_MESSAGE"
    assert await world.keys() == 0


class Model:
    """The same with fractions of whole tokens and no wit."""

    def __init__(self, rate: int, burst: int) -> None:
        self.rate, self.burst, self.tokens = rate, burst, Fraction(burst)

    def pass_ms(self, ms: int) -> None:
        self.tokens = min(Fraction(self.burst), self.tokens + Fraction(ms * self.rate, 1_000))

    def come(self, cost: int) -> int | None:
        if self.tokens >= cost:
            self.tokens -= cost
            return None
        wait_ms = 0
        while self.tokens + Fraction(wait_ms * self.rate, 1_000) < cost:
            wait_ms += 1
        return wait_ms


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rate=st.integers(1, 4),
    burst=st.integers(1, 6),
    story=st.lists(st.tuples(st.integers(0, 1_200), st.integers(1, 6)), max_size=12),
)
async def test_any_story_goes_as_the_model_says(
    world: World, rate: int, burst: int, story: list[tuple[int, int]]
) -> None:
    model, name = Model(rate, burst), next(NAMES)
    for ms, tokens in story:
        world.now_ms += ms
        model.pass_ms(ms)
        cost = min(tokens, burst)
        assert await come(world, rate=rate, burst=burst, cost=cost, name=name) == model.come(cost)
