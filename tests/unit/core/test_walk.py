"""A coroutine that walks: it goes as far as it can, goes on when what it waits for is there, and is told of its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.walk import Walk, within

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Stroll:
    """A walk with its end."""

    def __init__(self, work: Coroutine[object, None, object]) -> None:
        self.ends: list[BaseException | None] = []
        self.is_over = asyncio.Event()
        self.walk = Walk(work, self._over)
        self.walk.begin()

    def _over(self, error: BaseException | None) -> None:
        self.ends.append(error)
        self.is_over.set()


async def test_what_has_nothing_to_wait_for_is_over_when_it_has_begun() -> None:
    async def work() -> None:
        pass

    assert Stroll(work()).ends == [None]


async def test_it_goes_on_when_what_it_waits_for_is_there() -> None:
    first, second = asyncio.get_running_loop().create_future(), asyncio.get_running_loop().create_future()
    heard = []

    async def work() -> None:
        heard.append("begun")
        heard.append(await first)
        heard.append(await second)

    stroll = Stroll(work())
    assert heard == ["begun"]
    first.set_result("one")
    await asyncio.sleep(0)
    assert (heard, stroll.ends) == (["begun", "one"], [])
    second.set_result("two")
    await stroll.is_over.wait()
    assert (heard, stroll.ends) == (["begun", "one", "two"], [None])


async def test_what_it_waits_for_may_fail() -> None:
    awaited = asyncio.get_running_loop().create_future()
    heard = []

    async def work() -> None:
        try:
            await awaited
        except OSError as error:
            heard.append(error)
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)

    stroll = Stroll(work())
    broken = OSError("broken")
    awaited.set_exception(broken)
    await stroll.is_over.wait()
    assert (heard, stroll.ends) == ([broken], [None])


@pytest.mark.parametrize("pauses", [0, 1])
async def test_what_it_raises_is_told(pauses: int) -> None:
    async def work() -> None:
        for _ in range(pauses):
            await asyncio.sleep(0)
        raise KeyError("a bug")

    stroll = Stroll(work())
    await stroll.is_over.wait()
    assert [repr(error) for error in stroll.ends] == ["KeyError('a bug')"]


async def test_one_that_is_cancelled_cleans_up_and_hears_nothing_more() -> None:
    awaited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cleaned = []

    async def work() -> None:
        try:
            await awaited
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    stroll = Stroll(work())
    stroll.walk.cancel()
    assert (cleaned, stroll.ends) == ([], [])
    await stroll.is_over.wait()
    assert (cleaned, awaited.cancelled()) == ([True], True)
    assert [type(error) for error in stroll.ends] == [asyncio.CancelledError]
    stroll.walk.cancel()
    await asyncio.sleep(0)
    assert len(stroll.ends) == 1


async def test_what_it_asked_for_before_it_was_cancelled_has_gone_out_before_it_cleans_up() -> None:
    """As it is with the engine: what is asked for in a tick goes out at the end of it, in an order of its own."""
    loop = asyncio.get_running_loop()
    gone_out: list[str] = []

    async def work() -> None:
        loop.call_soon(gone_out.append, "asked")
        try:
            await loop.create_future()
        finally:
            gone_out.append("cleaned up")

    stroll = Stroll(work())
    stroll.walk.cancel()
    await stroll.is_over.wait()
    assert gone_out == ["asked", "cleaned up"]


async def test_what_it_waited_for_side_by_side_is_over_before_it_hears_that_it_is_cancelled() -> None:
    cleaned = []

    async def part(name: str) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cleaned.append(name)

    async def work() -> None:
        try:
            await asyncio.gather(part("one"), part("two"))
        finally:
            cleaned.append("all")

    stroll = Stroll(work())
    await asyncio.sleep(0)
    stroll.walk.cancel()
    await stroll.is_over.wait()
    assert cleaned == ["one", "two", "all"]
    assert [type(error) for error in stroll.ends] == [asyncio.CancelledError]


async def test_one_that_is_cancelled_between_two_ticks_is_over_once() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    stroll = Stroll(work())
    stroll.walk.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [type(error) for error in stroll.ends] == [asyncio.CancelledError]


async def test_one_that_is_cancelled_when_what_it_waited_for_has_just_come_is_over_once() -> None:
    awaited = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await awaited

    stroll = Stroll(work())
    awaited.set_result(None)
    stroll.walk.cancel()
    await asyncio.sleep(0)
    assert [type(end) for end in stroll.ends] == [asyncio.CancelledError]


async def test_what_takes_too_long_is_cancelled() -> None:
    told: list[str] = []

    async def hangs() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    with pytest.raises(TimeoutError, match=r"not over after 0.01 s"):
        await within(hangs(), 0.01)
    assert told == ["cancelled"]


async def test_what_is_in_time_says_how_it_went() -> None:
    async def fails(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        raise ValueError("broken")

    async def ends() -> None:
        await asyncio.sleep(0)

    for turns in (0, 1):
        with pytest.raises(ValueError, match="broken"):
            await within(fails(turns), 60)
    await within(ends(), 60)


async def test_who_waits_for_it_and_is_cancelled_cancels_it() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def waits() -> None:
        await future

    stroll = Stroll(within(waits(), 60))
    stroll.walk.cancel()
    await stroll.is_over.wait()
    assert future.cancelled()


async def test_who_is_cancelled_by_what_he_does_himself_hears_it_when_he_next_waits() -> None:
    heard: list[str] = []
    strolls: list[Walk] = []
    over: list[BaseException | None] = []

    async def work() -> None:
        strolls[0].cancel()
        heard.append("goes on")
        await asyncio.get_running_loop().create_future()
        heard.append("never")

    strolls.append(Walk(work(), over.append))
    strolls[0].begin()
    await asyncio.sleep(0)
    assert heard == ["goes on"]
    assert [type(error) for error in over] == [asyncio.CancelledError]


async def test_who_is_cancelled_when_he_is_through_hears_nothing() -> None:
    async def work() -> None:
        pass

    stroll = Stroll(work())
    stroll.walk.cancel()
    assert stroll.ends == [None]
