"""Waiting for something to become true, instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_S: Final = 0.01


def wait_until(predicate: Callable[[], object], timeout: float = 10.0, what: str = "") -> None:
    """Returns as soon as the predicate holds; fails the test when it does not within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not predicate():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what or predicate}")
        time.sleep(_POLL_S)


async def holds(predicate: Callable[[], object]) -> None:
    """The same for a test. A server whose role is changed hangs up on everybody, also on whoever asks for it."""

    def is_so() -> object:
        with suppress(OSError):
            return predicate()
        return False

    await asyncio.to_thread(wait_until, is_so, 20)
