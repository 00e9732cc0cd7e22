"""A scheduler and an engine of its own for each scenario; at its end the auditor looks at everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.house import Scheduler, judge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.servers import Server

    Start = Callable[..., Awaitable[Scheduler]]


@pytest.fixture
async def serve(store: Server) -> AsyncIterator[Start]:
    """Starts schedulers with these settings; what is left at the end must be without fault."""
    started: list[Scheduler] = []

    async def serve(**settings: str) -> Scheduler:
        scheduler = Scheduler(store.url, **{f"LINGUA_{name.upper()}": value for name, value in settings.items()})
        started.append(scheduler)
        await scheduler.start()
        return scheduler

    yield serve
    for scheduler in started:
        await scheduler.stop()
    if store.process.poll() is None:
        assert await judge(store) == []


@pytest.fixture
async def scheduler(serve: Start) -> Scheduler:
    """One as it comes."""
    return await serve()
