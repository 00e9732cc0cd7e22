"""What a handler of an HTTP request is given, and what it may answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.seat import Cookie
from lingua_scheduler.front.auth import Principal
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import refusal_body, retry_after

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.protocol.codec import Reader

#: What most messages may weigh, and those that carry audio.
SMALL_BYTES: Final = 64 * 1024
LARGE_BYTES: Final = 4 * 1024 * 1024


class Request(msgspec.Struct, eq=False):
    """A request whose caller is known and whose body has been read. `message` is None where the route reads none."""

    principal: Principal
    trace_id: str
    #: What stood in the braces of the route's path.
    named: Mapping[str, str]
    #: The headers as they came, by their names in small letters.
    given: Mapping[bytes, bytes]
    #: How long ago it came: it may have lain here while this process slept.
    lain_ms: Callable[[], int]
    #: Nobody works for it any longer.
    give_up: Callable[[], None]
    query: Mapping[str, str] = {}
    message: Any = None
    #: The body as it came, where the route reads it raw.
    raw: bytes = b""
    #: Where the caller is.
    client: str = ""
    #: What the browser of somebody who is signed in has shown, if that let him in.
    cookie: Cookie | None = None
    #: What he asked for is done, and he waits for what becomes of it.
    has_begun_to_wait: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """The headers as text. Few ask for them."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self.given.items()}

    @property
    def waits(self) -> bool:
        """Whether the caller is ready to wait for his answer."""
        if self.has_begun_to_wait or "wait_ms" in self.query:
            return True
        options = getattr(self.message, "options", None)
        return bool(getattr(self.message, "wait_ms", None) or getattr(options, "wait_ms", None))


class Reply(msgspec.Struct, frozen=True):
    """An answer that is not JSON, or has a status of its own."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


Said = msgspec.Struct | Refusal | Reply


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter behind the question mark. `kind`: `str`, `int` or `bool`."""

    name: str
    meaning: str
    kind: type = str
    required: bool = False
    least: int = 0
    most: int = 2**31


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint: who may call it, what it reads, what it answers. The OpenAPI document is made of these."""

    method: str
    #: `/v1/job/{job_id}`
    path: str
    #: `node`, `session`, `admin`, `metrics`, `page` (any of them), or "" for everybody.
    scope: str
    handle: Callable[[Desk, Request], Awaitable[Said]]
    summary: str
    answers: type[msgspec.Struct] | None = None
    reads: Reader[Any] | None = None
    #: Takes the body as it is; `reads` is None then.
    reads_raw: bool = False
    most_bytes: int = SMALL_BYTES
    query: tuple[Query, ...] = ()
    #: Headers that it looks at, none of which is needed by everybody.
    headers: tuple[Query, ...] = ()
    #: The codes of its own refusals, beside those that any request may get.
    refuses: tuple[str, ...] = ()
    tag: str = ""
    #: The field of the message that names the node for which it speaks: whoever sends it must be that node.
    speaks_for: str = ""
    #: A second scope that leads here; its handler looks at which of them his caller has.
    also: str = ""
    #: Has an `ETag`: whoever names it in `If-None-Match` is told that nothing has changed (304).
    is_kept: bool = False
    #: Looks at the state engine, which may be away. Without it a handler reads nothing and waits for nobody.
    asks_engine: bool = True
    #: Waits for the engine, and for what is heard from it, and for nothing else: it needs no task of its own.
    walks: bool = False
    #: Begins work, or asks for some: nothing for an instance that is about to stop.
    begins: bool = False
    #: What an operator does here, as the feed of events calls it, if he changes anything.
    act: str = ""
    #: What he does it to: a name in the braces of the path, or a field of the message.
    acts_on: str = ""
    #: What he asked for, in words, from the message; None: the name of the act says all.
    acts_with: Callable[[Any], str] | None = None
    #: Changes nothing of the fleet: whoever may only look may do it.
    for_readers: bool = False


def refused(
    refusal: Refusal,
    trace_id: str,
    *,
    retry_after_ms: int | None = None,
    request_id: str | None = None,
    headers: tuple[tuple[str, str], ...] = (),
) -> Reply:
    """A refusal as an answer, for whoever knows more about it than its code does."""
    body = refusal_body(refusal, trace_id, retry_after_ms=retry_after_ms, request_id=request_id)
    seconds = retry_after(body)
    if seconds is not None:
        headers = (*headers, ("retry-after", seconds))
    if refusal.code == "UNAUTHENTICATED":
        headers = (*headers, ("www-authenticate", "Bearer"))
    return Reply(encode(body), refusal.status, headers=headers)
