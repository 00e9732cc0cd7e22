"""One HTTP request and its answer: what has arrived of the one, and the bytes of the other.

There is no ASGI between them: an answer is a head, most of which is the same as last time, and a body, in one write.
"""

from __future__ import annotations

import asyncio
import functools
import re
import sys
from email.utils import formatdate
from time import time
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from lingua_scheduler.front.lain import lain_ms
from lingua_scheduler.front.trace import Trace
from lingua_scheduler.front.web import refused

if TYPE_CHECKING:
    from httptools import HttpRequestParser

    from lingua_scheduler.core.refusal import Refusal
    from lingua_scheduler.core.seat import Cookie
    from lingua_scheduler.core.walk import Walk
    from lingua_scheduler.front.limits import HttpProtocol
    from lingua_scheduler.front.web import Reply, Request

    Headers = tuple[tuple[str, str], ...]
    RawHeaders = list[tuple[bytes, bytes]]

#: Answers without a body, which say nothing of one.
_BARE: Final = (204, 304)
_GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST: Final = b"connection: close\r\n"
_is_absolute: Final = re.compile(rb"https?://([^/?#@]+)(/[^?#]*)?(\?[^#]*)?(?:#.*)?", re.IGNORECASE).fullmatch
_is_broken: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]").search


class Exchange:
    """A request whose head is there. It begins when its turn comes, and is answered once."""

    __slots__ = (
        "_connection",
        "_more",
        "_parts",
        "asks_first",
        "client",
        "cookie",
        "given",
        "headers",
        "host",
        "is_begun",
        "is_gone",
        "is_left",
        "is_whole",
        "keep_alive",
        "method",
        "most_bytes",
        "origin",
        "path",
        "query",
        "request",
        "route",
        "size",
        "task",
        "trace",
    )

    def __init__(self, connection: HttpProtocol, method: str, path: str, query: str, headers: RawHeaders) -> None:
        self._connection = connection
        self.client = connection.address
        self.method = method
        self.path = path
        #: What stood behind the question mark.
        self.query = query
        #: All headers as they came, and by their names in small letters; of several the last.
        self.headers = headers
        self.given = dict(headers)
        #: Whether another request may follow the answer.
        self.keep_alive = True
        given = self.given.get
        #: Whether the caller asks before he sends the body, and has not been told to.
        self.asks_first = given(b"expect", b"").lower() == b"100-continue"
        parent, host, origin = given(b"traceparent"), given(b"host"), given(b"origin")
        self.trace = Trace.of(None if parent is None else parent.decode("latin-1"))
        #: By which name the caller found us, and the page that he is, if he is one.
        self.host = None if host is None else host.decode("latin-1")
        self.origin = None if origin is None else origin.decode("latin-1")
        #: Which of our routes it asks for, as that is written in the table of them.
        self.route = "unknown"
        self.is_begun = False
        #: All of its body has arrived.
        self.is_whole = False
        #: The caller hung up; or he says nothing more, but may still read.
        self.is_gone = False
        self.is_left = False
        #: What has arrived of the body: so much, of which so much is kept.
        self.size = 0
        self.most_bytes = sys.maxsize
        self._parts: list[bytes] = []
        #: Set when there is no more of the body to wait for.
        self._more: asyncio.Event | None = None
        #: Who is at work on it, if anybody has to be; and for what, as soon as that is known.
        self.task: asyncio.Task[None] | Walk | None = None
        self.request: Request | None = None
        #: What the browser of somebody who is signed in shows, if nothing else lets him in.
        self.cookie: Cookie | None = None

    # The request.

    def take(self, part: bytes) -> None:
        """A piece of the body. A body that is too large is not kept."""
        self.size += len(part)
        if self.size <= self.most_bytes:
            self._parts.append(part)
        else:
            self._parts.clear()
            self._wake()

    def end(self) -> None:
        """That was all of the body."""
        self.is_whole = True
        self._wake()

    def hang_up(self) -> None:
        """The caller is gone. If he was ready to wait, nobody works for him any longer."""
        self.is_gone = True
        self._wake()
        if self.request is not None and self.request.waits:
            self.give_up()

    def give_up(self) -> None:
        """Nobody works for it any longer."""
        if self.task is not None:
            self.task.cancel()

    def said_all(self) -> bool:
        """The caller says nothing more. Whether he is still there: one who wanted to wait is not."""
        self.is_left = True
        return not self.is_gone and not (self.request is not None and self.request.waits)

    def leave(self) -> None:
        """Who said that he would wait did not. Nobody is told anything."""
        self.is_gone = True
        self._connection.transport.close()

    def lain_ms(self) -> int:
        """How long it lay here before anybody read it."""
        return lain_ms(self._connection.transport)

    def _wake(self) -> None:
        if self._more is not None:
            self._more.set()

    @property
    def has_two_hosts(self) -> bool:
        """Whether it names us twice. Most requests have every header once."""
        return len(self.headers) != len(self.given) and sum(name == b"host" for name, _ in self.headers) > 1

    def hand_over(self) -> bytes:
        """The body. It is not kept here any longer."""
        body = b"".join(self._parts)
        self._parts.clear()
        return body

    @property
    def is_too_large(self) -> bool:
        """The body, or what is said of it, is more than is kept."""
        return max(self.size, int(self.given.get(b"content-length", 0))) > self.most_bytes

    async def arrive(self) -> None:
        """Wait until the body is there, or too much of it, or the caller is gone. He may ask whether to send it."""
        if self.is_whole or self.is_gone or self.is_too_large:
            return
        if self.asks_first:
            self.asks_first = False
            self._connection.transport.write(_GO_ON)
        self._more = asyncio.Event()
        await self._more.wait()

    # The answer.

    def let_go(self) -> None:
        """The connection closes when all are answered who have asked by now."""
        self._connection.shutdown()

    def answer(self, reply: Reply, more: Headers = ()) -> None:
        """Say this, and that nothing more is read of the request."""
        if self.asks_first and not self.is_whole and not self.size:
            # Nobody knows whether the body still comes, or the next request instead of it.
            self.keep_alive = False
        body = b"" if self.method == "HEAD" else reply.body
        data = written(reply, self.trace, more, body=body, is_last=not self.keep_alive)
        self.most_bytes = -1
        # They know each other: without this, each would keep the other until the collector comes.
        self.request = self.task = None
        self._connection.answered(self, data)


def size_of_head(url: bytes, headers: RawHeaders) -> int:
    """How large the head is that has been read."""
    return len(url) + sum(len(name) + len(value) + len(b": \r\n") for name, value in headers)


def plain_head(parser: HttpRequestParser, url: bytes, headers: RawHeaders) -> bytes:
    """The head that has just been read, without the offer of another protocol."""
    lines = [b"%b %b HTTP/%b" % (parser.get_method(), url, parser.get_http_version().encode())]
    lines += [b"%b: %b" % one for one in headers if one[0] != b"upgrade"]
    return b"\r\n".join((*lines, b"", b""))


def plain_target(url: bytes, headers: RawHeaders) -> tuple[bytes, RawHeaders]:
    """Where a request goes that names the server in its target, as to a proxy: that name counts, not `Host`."""
    found = _is_absolute(url)
    if found is None:
        raise ValueError("neither a path nor an address")
    host, path, query = found.groups(b"")
    return (path or b"/") + query, [(name, host if name == b"host" else value) for name, value in headers]


def parts_of(url: bytes) -> tuple[str, str]:
    """The path and what stands behind the question mark."""
    if b"#" in url:
        url = url.partition(b"#")[0]
    raw_path, _, query = url.partition(b"?")
    path = raw_path.decode("ascii")
    return unquote(path) if "%" in path else path, query.decode("latin-1")


def written(reply: Reply, trace: Trace, more: Headers = (), *, body: bytes, is_last: bool) -> bytes:
    """An answer as it goes out; the body may be left out, as `HEAD` wants it."""
    length = "" if reply.status in _BARE else f"content-length: {len(reply.body)}\r\n"
    head = _head(reply.status, reply.content_type, reply.headers + more)
    own = f"{length}traceparent: {trace.parent}\r\n\r\n".encode()
    return b"".join((head, _date(int(time())), _LAST if is_last else b"", own, body))


def last_answer(refusal: Refusal, trace: Trace | None = None, more: Headers = ()) -> bytes:
    """The answer to what never became a request."""
    trace = trace or Trace.of(None)
    reply = refused(refusal, trace.id)
    return written(reply, trace, more, body=reply.body, is_last=True)


@functools.lru_cache(maxsize=1_024)
def _head(status: int, content_type: str, headers: Headers) -> bytes:
    """What an answer has in common with others of its kind."""
    if status not in _BARE:
        headers = (("content-type", content_type), *headers)
    lines = [f"{name}: {value}" for name, value in headers]
    if any(map(_is_broken, lines)):
        raise ValueError("a header has a character that would end it")
    return STATUS_LINE[status] + "".join(f"{line}\r\n" for line in lines).encode()


@functools.lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return f"date: {formatdate(second, usegmt=True)}\r\n".encode()
