"""Is it alive, and can it serve? For whoever watches over processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.front.web import Reply, Route
from lingua_scheduler.protocol.http import OkAnswer
from lingua_scheduler.views.counts import read_counts

if TYPE_CHECKING:
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request


async def health(_desk: Desk, _request: Request) -> Reply:
    """What the first scheduler answered."""
    return Reply(b"OK", content_type="text/plain; charset=utf-8")


async def livez(_desk: Desk, _request: Request) -> OkAnswer:
    """The process answers: there is no reason to start it again."""
    return OkAnswer(ok=True)


async def metrics(desk: Desk, _request: Request) -> Reply:
    """Numbers for Prometheus."""
    return Reply(desk.metrics.text(), content_type=desk.metrics.content_type)


async def readyz(desk: Desk, _request: Request) -> OkAnswer | Refusal:
    """The state engine can be reached and runs scripts, and nobody asked us to stop."""
    if desk.is_draining.is_set():
        return refuse("SHUTTING_DOWN")
    counts = await read_counts(desk.engine, desk.directory.first)
    return counts if isinstance(counts, Refusal) else OkAnswer(ok=True)


ROUTES: Final = (
    Route("GET", "/health", "", health, "It is there: `OK`.", tag="health", asks_engine=False),
    Route("GET", "/livez", "", livez, "The process lives.", answers=OkAnswer, tag="health", asks_engine=False),
    Route("GET", "/metrics", "metrics", metrics, "Numbers for Prometheus.", tag="health", asks_engine=False),
    Route(
        "GET",
        "/readyz",
        "",
        readyz,
        "It can serve: the state engine answers, and the instance is not about to stop.",
        answers=OkAnswer,
        refuses=("SHUTTING_DOWN", "SCHEDULER_DEPENDENCY_DOWN"),
        tag="health",
    ),
)
