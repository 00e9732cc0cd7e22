"""The first seconds of the demo: the engine and the server, while everything else is still being loaded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lingua_scheduler.operate.demo.children import Child
from lingua_scheduler.operate.signals import end_on_signal
from lingua_scheduler.store.embedded import Embedded

if TYPE_CHECKING:
    from lingua_scheduler.operate.demo.screen import Screen

#: What the demo's server has otherwise than any other. Times are shorter, so that a minute shows what an hour would,
#: callers are patient, and since all of them are one credential, its rate is that of a town.
_SETTINGS: Final = {
    "LINGUA_JOBS__RUN_TIMEOUT_MS": "10000",
    "LINGUA_JOBS__TIMEOUT_MS": "20000",
    "LINGUA_LOGS__LEVEL": "warning",
    "LINGUA_LOOPS__SNAPSHOT_INTERVAL_MS": "1000",
    "LINGUA_NODES__MARK_TTL_MS": "5000",
    "LINGUA_RATES__SUBMITS_PER_S": "10000",
    "LINGUA_RATES__SUBMITS_BURST": "10000",
    "LINGUA_SERVER__DRAIN_MS": "3000",
    "LINGUA_SESSIONS__WAIT_MS": "8000",
}
_LEASHED: Final = "lingua_scheduler.operate.leash"


@dataclass(frozen=True, slots=True)
class Show:
    """What was asked for. Without `duration_s` it goes on until somebody ends it."""

    nodes: int = 12
    callers: int = 20
    seed: int = 1
    failure_rate: float = 0.05
    duration_s: float | None = None
    port: int = 0
    instances: int = 2


async def begin(show: Show, *, as_json: bool, screen: Screen | None = None) -> int:
    """From nothing to nothing. The exit code: 0 if everything adds up and the auditor found nothing."""
    over = asyncio.Event()
    end_on_signal(over)
    embedded = Embedded.temporary()
    starting = asyncio.create_task(embedded.start())
    # Its directory is there at once, and the server is loaded while the engine starts.
    await asyncio.sleep(0)
    where = ("--port", str(show.port), "--data-dir", str(embedded.paths.data_dir))
    several = ("--workers", str(show.instances))
    server = await Child.start("the server", _LEASHED, "serve", "--json", *several, *where, settings=_SETTINGS)
    try:
        await starting
        # Late: that takes a while, too.
        from lingua_scheduler.operate.demo.play import Play  # noqa: PLC0415
        from lingua_scheduler.operate.demo.screen import screen_for  # noqa: PLC0415

        shown = screen or screen_for(as_json=as_json)
        return await Play(show, embedded, server, over, shown).run()
    finally:
        await server.kill()
        await embedded.stop()
