"""The only place that wires everything together, and the order in which it starts and stops."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.front.submit import Submitter
from lingua_scheduler.loops.marker import Marker
from lingua_scheduler.loops.reaper import Reaper
from lingua_scheduler.loops.relayer import Relayer
from lingua_scheduler.store.address import parse_address
from lingua_scheduler.store.checks import check_engine, check_schema
from lingua_scheduler.store.embedded import Embedded
from lingua_scheduler.store.engine import Engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from lingua_scheduler.config import Settings
    from lingua_scheduler.core.records import Event

    HandOver = Callable[[Event], Awaitable[None]]


class App:
    """A running scheduler: the engine's client and the loops that look after the cell."""

    def __init__(self, settings: Settings, engine: Engine, embedded: Embedded | None) -> None:
        self.settings = settings
        self.cell = settings.cell.name
        self.limits = settings.limits()
        self.engine = engine
        self.embedded = embedded
        self.submitter = Submitter(engine, self.cell, settings.rules(), settings.jobs.policy)
        self.marker = Marker(engine, self.cell, settings.loops.relay_interval_ms)


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[tuple[Engine, Embedded | None]]:
    """The state engine that the settings name, if it is fit; without a URL, an embedded one."""
    async with AsyncExitStack() as stack:
        embedded = None
        url = settings.engine.url
        if not url:
            directory = settings.engine.data_dir or default_data_dir()
            embedded = await stack.enter_async_context(Embedded(directory, settings.engine.durability))
            url = embedded.url
        engine = await Engine.connect(
            url,
            settings.engine.key_prefix,
            msgspec.msgpack.encode(settings.rules()),
            timeout_ms=settings.engine.call_timeout_ms,
        )
        await stack.enter_async_context(engine)
        if embedded is None:
            await check_engine(engine, parse_address(url), settings.cell.name)
        await check_schema(engine, settings.cell.name)
        yield engine, embedded


@asynccontextmanager
async def run(settings: Settings, hand_over: HandOver) -> AsyncIterator[App]:
    """Engine first, then the loops; the other way round at the end, so that no loop outlives its engine."""
    async with open_engine(settings) as (engine, embedded):
        app = App(settings, engine, embedded)

        async def hear(event: Event) -> None:
            app.submitter.hear(event)
            await hand_over(event)

        async with (
            Reaper(engine, app.cell, settings.loops.sweep_interval_ms),
            Relayer(engine, app.cell, settings.loops.relay_interval_ms, hear),
            app.marker,
        ):
            yield app


def default_data_dir() -> Path:
    """The user's state folder, as the desktop convention has it."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "lingua-scheduler" / "engine"
