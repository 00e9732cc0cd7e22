"""A coroutine that goes from one answer to the next without being a task.

A task costs as much as a call of the engine before it does anything: until Python 3.12 the list of all tasks is kept in
Python. What is done some thousand times a second, and waits for the engine and for nothing else, walks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Walk:
    """Takes its first steps when it begins; what is over before it has to wait is over then.

    Inside there is no `asyncio.current_task()`, so nothing that needs one: no `asyncio.timeout`, no task group. `over`
    is told when it is over: None, or what it raised.
    """

    __slots__ = ("_awaited", "_is_cancelled", "_over", "_work")

    def __init__(self, work: Coroutine[Any, None, object], over: Callable[[BaseException | None], None]) -> None:
        self._work = work
        self._over = over
        self._awaited: asyncio.Future[object] | None = None
        #: It waits for nothing that could be cancelled: it hears so when it goes on, or when it next has to wait.
        self._is_cancelled = False

    def begin(self) -> None:
        """Walk as far as it goes without waiting."""
        self._go(None)

    def cancel(self) -> None:
        """Whatever it waits for, it hears that it is cancelled: not before the next tick, as a task would.

        So what it has asked for in this tick has gone out by then, and what it asks for when it cleans up comes behind.
        """
        if self._awaited is None or not self._awaited.cancel():
            self._is_cancelled = True

    def _come(self, _awaited: asyncio.Future[object] | None) -> None:
        """What it waited for is there, and gives its result or raises by itself."""
        self._go(asyncio.CancelledError() if self._is_cancelled else None)

    def _go(self, error: BaseException | None) -> None:
        self._awaited, self._is_cancelled = None, False
        try:
            awaited = self._work.send(None) if error is None else self._work.throw(error)
        except StopIteration:
            self._end(None)
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - whoever began it is told
            self._end(raised)
        else:
            if awaited is None:
                # As `asyncio.sleep(0)`: for the next tick.
                asyncio.get_running_loop().call_soon(self._come, None)
                return
            self._awaited = awaited
            awaited.add_done_callback(self._come)
            if self._is_cancelled and awaited.cancel():
                self._is_cancelled = False

    def _end(self, error: BaseException | None) -> None:
        # Whoever is told mostly knows the walk: without this, each would keep the other until the collector comes.
        over, self._over = self._over, _nobody
        over(error)


def _nobody(_error: BaseException | None) -> None:
    """All have been told."""


async def within(work: Coroutine[Any, Any, None], patience_s: float) -> None:
    """Until it is over, but not for ever: then it is cancelled, and this raises `TimeoutError`.

    What `asyncio.timeout` is in a task, this is in a walk.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def over(error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def late() -> None:
        if not done.done():
            # It hears so before whoever waits for it does.
            walk.cancel()
            done.set_exception(TimeoutError(f"it was not over after {patience_s:g} s"))

    walk, timer = Walk(work, over), loop.call_later(patience_s, late)
    walk.begin()
    try:
        await done
    except asyncio.CancelledError:
        walk.cancel()
        raise
    finally:
        timer.cancel()
