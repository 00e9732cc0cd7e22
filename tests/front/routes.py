"""Routes that do nothing but show what a door gives them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.front.handlers import health
from lingua_scheduler.front.handlers.documents import with_documents
from lingua_scheduler.front.web import Query, Reply, Route
from lingua_scheduler.protocol.fields import Message
from lingua_scheduler.protocol.http import read_cancel

if TYPE_CHECKING:
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request


#: More than lies in the buffers of the system.
LARGE: Final = 20_000_000


class Seen(Message, frozen=True, kw_only=True):
    """What a handler was given."""

    who: str
    scopes: list[str]
    trace_id: str
    named: dict[str, str]
    query: dict[str, str]
    job_id: str | None = None
    size: int | None = None


async def show(_desk: Desk, request: Request) -> Seen:
    """What the door gave."""
    return Seen(
        who=request.principal.name,
        scopes=sorted(request.principal.scopes),
        trace_id=request.trace_id,
        named=dict(request.named),
        query=dict(request.query),
        job_id=request.message.job_id if request.message else None,
        size=len(request.raw),
    )


async def fail(_desk: Desk, request: Request) -> Refusal:
    raise {
        "down": DependencyDown("UNREACHABLE", "/secret/path"),
        "unknown": OutcomeUnknown("lost"),
        "ours": LinguaError("a secret of ours"),
        "bug": KeyError("a secret of ours"),
    }[request.named["how"]]


async def full(_desk: Desk, _request: Request) -> Refusal:
    return refuse("RATE_LIMITED")


async def wait(desk: Desk, _request: Request) -> Reply:
    """Answers when the instance drains, as a long poll does."""
    await desk.is_draining.wait()
    return Reply(b"drained", content_type="text/plain")


async def hang(_desk: Desk, _request: Request) -> Reply:
    await asyncio.Event().wait()
    return Reply(b"")


async def broken(_desk: Desk, _request: Request) -> Reply:
    """Would begin a second answer within its own."""
    return Reply(b"", headers=(("x", "y\r\n\r\nHTTP/1.1 200 OK"),))


async def large(_desk: Desk, _request: Request) -> Reply:
    return Reply(b"x" * LARGE, content_type="application/octet-stream")


QUERY: Final = (Query("limit", "How many.", int, least=1, most=100), Query("all", "All.", bool), Query("src", "From."))

ROUTES: Final = with_documents(
    (
        *health.ROUTES,
        Route("GET", "/v1/seen/{id}", "admin", show, "See.", answers=Seen, query=QUERY),
        Route("POST", "/v1/seen", "session", show, "See.", answers=Seen, reads=read_cancel),
        Route("POST", "/v1/node", "node", show, "See.", answers=Seen, reads=read_cancel),
        Route("POST", "/v1/raw", "session", show, "See.", answers=Seen, reads_raw=True, most_bytes=200_000),
        Route("GET", "/v1/fail/{how}", "admin", fail, "Fail."),
        Route("GET", "/v1/full", "admin", full, "Refuse.", refuses=("RATE_LIMITED",)),
        Route("GET", "/v1/wait", "admin", wait, "Wait."),
        Route("GET", "/v1/hang", "admin", hang, "Hang."),
        Route("GET", "/v1/large", "admin", large, "Much."),
        Route("GET", "/v1/broken", "admin", broken, "A header that is none."),
        Route("GET", "/v1/hasty", "admin", hang, "Says that it asks nobody.", asks_engine=False),
    )
)
