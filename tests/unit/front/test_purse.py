from __future__ import annotations

import asyncio

import pytest

from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.front.purse import KEPT_S, MOST, OFTEN_S, Purse


class Bucket:
    """It has so many tokens, and a clock. `asked`: how many were wanted of it, each time."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.asked: list[int] = []
        self.now_s = 0.0

    def clock(self) -> float:
        return self.now_s

    async def take_out(self, number: int) -> int | Refusal:
        self.asked.append(number)
        await asyncio.sleep(0)
        if number > self.tokens:
            return refuse("RATE_LIMITED")
        self.tokens -= number
        return number


async def admitted(purse: Purse, bucket: Bucket) -> bool:
    return purse.spend() or await purse.fetch(bucket.take_out) is None


async def test_whoever_comes_often_takes_out_more_at_a_time() -> None:
    bucket = Bucket(20_000)
    purse = Purse(20_000, bucket.clock)
    assert [await admitted(purse, bucket) for _ in range(2 * MOST - 1 + MOST)] == [True] * (3 * MOST - 1)
    assert bucket.asked == [1, 2, 4, 8, 16, 32, 64, 128, 256, MOST, MOST]
    assert bucket.tokens == 20_000 - (3 * MOST - 1)


async def test_whoever_comes_seldom_takes_out_one() -> None:
    bucket = Bucket(1_000)
    purse = Purse(1_000, bucket.clock)
    for _ in range(5):
        assert await admitted(purse, bucket)
        bucket.now_s += OFTEN_S
    assert bucket.asked == [1] * 5


async def test_as_many_are_admitted_as_the_bucket_has_tokens() -> None:
    bucket = Bucket(100)
    purse = Purse(100, bucket.clock)
    assert sum([await admitted(purse, bucket) for _ in range(150)]) == 100
    assert bucket.tokens == 0


async def test_as_many_are_admitted_when_all_come_at_once() -> None:
    bucket = Bucket(100)
    purse = Purse(100, bucket.clock)
    first = sum([await admitted(purse, bucket) for _ in range(5)])
    together = sum(await asyncio.gather(*(admitted(purse, bucket) for _ in range(150))))
    rest = sum([await admitted(purse, bucket) for _ in range(150)])
    assert (first + together + rest, bucket.tokens) == (100, 0)


async def test_while_one_fetches_several_the_others_wait_for_him_and_for_the_next() -> None:
    bucket = Bucket(1_000)
    purse = Purse(1_000, bucket.clock)
    await admitted(purse, bucket)
    assert all(await asyncio.gather(*(admitted(purse, bucket) for _ in range(4))))
    assert bucket.asked == [1, 2, 4]
    assert all(await asyncio.gather(*(admitted(purse, bucket) for _ in range(4))))
    assert bucket.asked == [1, 2, 4, 8]


async def test_whoever_waits_for_one_who_cannot_fetch_fetches_himself() -> None:
    bucket = Bucket(1_000)
    purse = Purse(1_000, bucket.clock)
    await admitted(purse, bucket)

    async def away(_: int) -> int:
        await asyncio.sleep(0)
        raise ConnectionError

    answers = await asyncio.gather(purse.fetch(away), admitted(purse, bucket), return_exceptions=True)
    assert [type(answers[0]), answers[1]] == [ConnectionError, True]
    assert bucket.asked == [1, 1]


async def test_where_there_are_not_so_many_nobody_waits_for_more_than_one_other() -> None:
    bucket = Bucket(1)
    purse = Purse(1_000, bucket.clock)
    await admitted(purse, bucket)
    asking = [asyncio.create_task(admitted(purse, bucket)) for _ in range(100)]
    # One asks for two, and is refused; then all ask for one.
    for _ in range(5):
        await asyncio.sleep(0)
    assert bucket.asked == [1, 2, *[1] * 100]
    assert not any(await asyncio.gather(*asking))


async def test_whoever_waits_and_leaves_disturbs_nobody() -> None:
    bucket = Bucket(1_000)
    purse = Purse(1_000, bucket.clock)
    await admitted(purse, bucket)
    fetching, leaving = (asyncio.create_task(admitted(purse, bucket)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await fetching
    assert purse.spend()
    assert bucket.asked == [1, 2]


async def test_a_small_bucket_is_not_carried_about() -> None:
    bucket = Bucket(10)
    purse = Purse(10, bucket.clock)
    for _ in range(5):
        await admitted(purse, bucket)
    assert bucket.asked == [1] * 5


async def test_what_was_not_spent_in_time_is_nobodys_any_more() -> None:
    bucket = Bucket(1_000)
    purse = Purse(1_000, bucket.clock)
    await admitted(purse, bucket)
    await admitted(purse, bucket)
    bucket.now_s += KEPT_S
    assert not purse.spend()
    await admitted(purse, bucket)
    assert bucket.asked == [1, 2, 1]


async def test_whoever_cannot_fetch_leaves_the_purse_to_the_next() -> None:
    bucket = Bucket(1_000)
    purse = Purse(1_000, bucket.clock)
    await admitted(purse, bucket)

    async def away(_: int) -> int:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await purse.fetch(away)
    await admitted(purse, bucket)
    assert bucket.asked == [1, 4]
