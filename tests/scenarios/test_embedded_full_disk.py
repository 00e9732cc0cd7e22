"""The disk is full: what is refused, what was acknowledged, and what is there when the engine comes back."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pytest

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.core.new_ids import new_job_id
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.views.job import read_job
from tests.support.disks import Disk, limited_file, small_disk
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

T = TypeVar("T")


@pytest.fixture(params=[limited_file, small_disk])
def disk(request: pytest.FixtureRequest) -> Iterator[Disk]:
    with request.param() as fresh:
        yield fresh


class Caller:
    """Submits jobs one by one over one client, and remembers which were accepted."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.accepted: list[str] = []
        self.refused = ""

    async def submit(self) -> None:
        self.refused = job_id = new_job_id("c0")
        placed = await dispatch(self._engine, job_id, "room", "en", "zh", body='{"audio_ref": "blob://1"}')
        assert isinstance(placed, Placed), placed
        self.accepted.append(job_id)

    async def submit_until_refused(self) -> LinguaError:
        while True:
            try:
                await self.submit()
            except LinguaError as error:
                return error

    async def is_known(self, job_id: str) -> bool:
        return not isinstance(await read_job(self._engine, job_id), Refusal)

    async def missing(self) -> list[str]:
        return [job_id for job_id in self.accepted if not await self.is_known(job_id)]


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """The first answer that is not "try again"."""
    async with asyncio.timeout(5):
        while True:
            try:
                return await call()
            except LinguaError as error:
                if not error.retryable:
                    raise
            await asyncio.sleep(0.01)


@asynccontextmanager
async def caller_of(disk: Disk) -> AsyncIterator[Caller]:
    """A caller, and a node with room for all that it submits."""
    url, rules = f"unix://{disk.place.paths.socket}", msgspec.msgpack.encode(Rules())
    async with await Engine.connect(url, "test", rules) as engine:
        joined = await register(engine, "c0", "gpu-1", semantic_langs=["en", "zh"], max_concurrent_jobs=1000)
        assert isinstance(joined, Registered), joined
        yield Caller(engine)


def another_engine_serves(disk: Disk, other_than: int) -> None:
    # By its process, not by what the guardian says of it: that, too, is a file on the full disk.
    wait_until(lambda: disk.place.engines() - {other_than} and disk.place.answers(), what="a new engine answers")


async def test_a_full_disk_is_misconf_and_when_there_is_room_nothing_acknowledged_was_lost(disk: Disk) -> None:
    disk.place.join()
    before = disk.place.state().engine
    async with caller_of(disk) as caller:
        await caller.submit()
        disk.fill()
        error = await caller.submit_until_refused()
        assert isinstance(error, DependencyDown)
        assert error.reason == "MISCONF"
        assert error.retryable
        assert not await caller.is_known(caller.refused)
        assert await caller.missing() == []

        disk.make_room()
        await patiently(caller.submit)
        os.kill(before, signal.SIGKILL)
        another_engine_serves(disk, before)
        assert await patiently(caller.missing) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_an_engine_that_ends_while_the_disk_is_full_may_lose_what_it_answered_last(
    disk: Disk, how: signal.Signals
) -> None:
    """The price of `appendfsync no`: it answers in the same turn in which it learns that it cannot write.

    From the next turn on it refuses. So a caller who waits for each answer can lose one job, and no more.
    """
    disk.place.join()
    before = disk.place.state().engine
    async with caller_of(disk) as caller:
        disk.fill()
        await caller.submit_until_refused()
        os.kill(before, how)
        another_engine_serves(disk, before)
        assert await patiently(caller.missing) in ([], caller.accepted[-1:])


async def test_with_fsync_an_engine_ends_rather_than_acknowledge_what_it_cannot_write(disk: Disk) -> None:
    disk.place.join("--fsync")
    before = disk.place.state().engine
    async with caller_of(disk) as caller:
        disk.fill()
        assert isinstance(await caller.submit_until_refused(), OutcomeUnknown)
        another_engine_serves(disk, before)
        assert await patiently(caller.missing) == []
        assert caller.accepted
