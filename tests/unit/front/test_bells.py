"""Bells: who listens hears what rings, once, also if he was not waiting."""

from __future__ import annotations

import asyncio

from lingua_scheduler.front.bells import Bells


async def test_who_listens_hears_what_rings_while_he_does_not_wait() -> None:
    bells = Bells()
    bells.ring("a")
    with bells.listening("a") as bell:
        bells.ring("a")
        bells.ring("a")
        assert await bell.wait(10_000)
        assert not await bell.wait(0)


async def test_all_who_listen_for_a_name_hear_it_and_nobody_else() -> None:
    bells = Bells()
    with bells.listening("a") as one, bells.listening("a") as two, bells.listening("b") as other:
        waiting = [asyncio.ensure_future(bell.wait(10_000)) for bell in (one, two)]
        await asyncio.sleep(0)
        bells.ring("a")
        assert await asyncio.gather(*waiting) == [True, True]
        assert not await other.wait(0)
        bells.ring_all()
        assert await other.wait(10_000)
        assert len(bells) == 2
    assert len(bells) == 0


async def test_who_leaves_while_he_waits_is_forgotten() -> None:
    bells = Bells()

    async def listen() -> None:
        with bells.listening("a") as bell:
            await bell.wait(10_000)

    listening = asyncio.ensure_future(listen())
    await asyncio.sleep(0)
    assert len(bells) == 1
    listening.cancel()
    await asyncio.wait([listening])
    bells.ring("a")
    assert len(bells) == 0
