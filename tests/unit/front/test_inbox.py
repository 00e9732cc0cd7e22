"""What has come by a socket, and who takes it."""

from __future__ import annotations

import asyncio

from lingua_scheduler.front.inbox import Inbox


async def test_what_comes_is_taken_in_its_order() -> None:
    inbox = Inbox()
    inbox.put_nowait("first")
    inbox.put_nowait("second")
    assert len(inbox) == 2
    assert [await inbox.get(), await inbox.get()] == ["first", "second"]
    assert len(inbox) == 0


async def test_who_waits_takes_what_comes() -> None:
    inbox = Inbox()
    taking = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)
    inbox.put_nowait("first")
    inbox.put_nowait("second")
    assert await taking == "first"
    assert await inbox.get() == "second"


async def test_who_waits_no_longer_leaves_all_to_the_next() -> None:
    inbox = Inbox()
    taking = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)
    taking.cancel()
    inbox.put_nowait("first")
    assert await inbox.get() == "first"
