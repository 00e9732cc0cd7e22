"""What a connection may do to us: how much it sends, how long it takes, how many there are.

uvicorn reads requests and frames; here is what it leaves out. A client always owes us something (the head of a request,
its body, that it reads the answer), and has a time for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHandshake
from websockets.frames import Frame, Opcode

from lingua_scheduler.core.refusal import CODES, Refusal, refuse
from lingua_scheduler.front.cork import Corked
from lingua_scheduler.front.trace import Trace
from lingua_scheduler.front.web import refused
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import error_message

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from lingua_scheduler.config.doors import Server as Limits

#: The `error` that goes out before a close that the framing decides on.
_LAST_WORDS: Final = {1009: "PAYLOAD_TOO_LARGE"}
#: Into so many pieces a message may be cut: each costs more than it weighs.
_MOST_FRAGMENTS: Final = 1_024
#: What may lie unread before a peer that goes on pinging is cut off. Messages stop long before.
_MOST_UNREAD: Final = 16 * 1024 * 1024


class HttpProtocol(HttpToolsProtocol):
    """One connection, before it becomes a WebSocket or if it never does."""

    limits: Limits

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's business
        super().__init__(*args, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        #: How many messages have begun; whether the last is not complete, and whether its head is.
        self._begun = 0
        self._is_reading = False
        self._has_head = False
        #: What has arrived of its head: so much, and at most so much.
        self._head_bytes = 0
        self._most_head_bytes = 0
        #: Nothing more is read: the connection is about to close.
        self._is_over = False

    # What arrives.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Corked(transport, self.loop))  # type: ignore[arg-type] # it is one, in all that matters
        if len(self.connections) > self.limits.max_connections:
            self._refuse(Refusal("RATE_LIMITED", "There are too many connections here."))
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._stop_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        was_reading, begun = self._is_reading, self._begun
        self._most_head_bytes += len(data)
        super().data_received(data)
        if self._has_head:
            self._most_head_bytes = 0
        # What also holds the end of an earlier request is not counted: the next piece will be.
        if self._is_reading and not self._has_head and self._begun - begun <= (not was_reading):
            self._head_bytes += len(data)
        if self._head_bytes > self.limits.max_header_bytes:
            self._refuse(refuse("HEADERS_TOO_LARGE"))
        self._watch()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begun += 1
        self._is_reading, self._has_head = True, False
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._has_head = True
        self._stop_timer()
        if self._most_head_bytes > self.limits.max_header_bytes and self._read_bytes() > self.limits.max_header_bytes:
            self._refuse(refuse("HEADERS_TOO_LARGE"))
        if not self._is_over:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._is_over:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_reading = False
        self._stop_timer()
        if not self._is_over:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def handle_websocket_upgrade(self) -> None:
        self._is_over = True
        self._stop_timer()
        super().handle_websocket_upgrade()

    def _read_bytes(self) -> int:
        """How large the head is that has been read."""
        return len(self.url) + sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers)

    # What is owed.

    def _watch(self) -> None:
        """One timer, for whatever the client owes us now."""
        owed_ms = self._owed_ms()
        if owed_ms == 0 or self._is_over:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(owed_ms / 1000, self._too_late)

    def _owed_ms(self) -> int:
        """How long it has: 0 if it owes nothing, or uvicorn waits for its next request."""
        if self._is_reading:
            # While an earlier request is being answered we do not read, so it is not to blame.
            return 0 if self.pipeline else self._limit_ms
        is_idle = not self._is_answering() and self.timeout_keep_alive_task is None
        return self.limits.header_timeout_ms if is_idle else 0

    @property
    def _limit_ms(self) -> int:
        return self.limits.body_timeout_ms if self._has_head else self.limits.header_timeout_ms

    def _too_late(self) -> None:
        self._timer = None
        self._refuse(refuse("REQUEST_TIMEOUT"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # What goes out.

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.body_timeout_ms / 1000, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_write_timer()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - ours says it in its own words
        """What came is no HTTP."""
        self._refuse(Refusal("INVALID_MESSAGE", "This is not HTTP/1.1."))

    def _refuse(self, refusal: Refusal) -> None:
        """Hang up; and say why, if that cannot be taken for the answer to something else."""
        self._stop_timer()
        if self._is_over:
            return
        self._is_over = True
        if self._is_answering() and (self.pipeline or not self._has_head or self.cycle.response_started):
            self.transport.abort()
        else:
            self.transport.write(_last_answer(refusal))
            self.transport.close()

    def _is_answering(self) -> bool:
        """Whether a request has not got its whole answer yet."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete


def _last_answer(refusal: Refusal, trace: Trace | None = None, more: Iterable[tuple[str, str]] = ()) -> bytes:
    """The answer to what never became a request."""
    trace = trace or Trace.of(None)
    reply = refused(refusal, trace.id)
    headers = (
        ("content-type", reply.content_type),
        ("content-length", str(len(reply.body))),
        ("traceparent", trace.parent),
        ("connection", "close"),
        *reply.headers,
        *more,
    )
    head = b"".join(f"{name}: {value}\r\n".encode() for name, value in headers)
    return STATUS_LINE[reply.status] + head + b"\r\n" + reply.body


class SocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket: it tells when it can be written to, and finds out when nobody is there."""

    limits: Limits
    #: What the other end is told goes by this, whoever tells it.
    trace: Trace

    def handle_connect(self, event: Any) -> None:  # noqa: ANN401 - the handshake, which is uvicorn's business
        try:
            self.conn.process_request(event)
        except (InvalidHandshake, ValueError) as why:
            # It may quote what is no text.
            said = f"{why!s:.200}".encode("ascii", "replace").decode()
            self._refuse_handshake(f"This is no handshake of a WebSocket: {said}.", event.headers)
            return
        super().handle_connect(event)
        extensions: dict[str, Any] = self.scope["extensions"]
        self.trace = _trace_in(event.headers)
        extensions["lingua"] = {"writable": self.writable, "trace": self.trace, "round_trip_ms": self.round_trip_ms}

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            self._refuse_handshake("This is no handshake of a WebSocket.", Headers())

    def handle_cont(self, event: Frame) -> None:
        """Pieces without end, or without content, are not collected."""
        if len(self.frames) < _MOST_FRAGMENTS:
            super().handle_cont(event)
            return
        self.frames = []
        self.conn.fail(1009, "too many pieces")
        self.handle_parser_exception()

    def start_keepalive(self) -> None:
        """The first ping goes out at once: from its answer on it is known how far away the other end is."""
        self.send_keepalive_ping()

    def round_trip_ms(self) -> float | None:
        """How long the last ping that was answered took, there and back; None: none was yet."""
        return self.last_ping_rtt * 1000 or None

    def handle_ping(self) -> None:
        """A pong for each ping, unless nobody reads them."""
        super().handle_ping()
        if self.transport.get_write_buffer_size() > _MOST_UNREAD:
            self.transport.abort()

    def keepalive_timeout(self) -> None:
        """No answer to a ping. If it is we who do not read, the answer may lie there; else nobody is there."""
        if self.read_paused and not self.transport.is_closing():
            self.pong_timer = self.loop.call_later(self.limits.ping_timeout_ms / 1000, self.keepalive_timeout)
            return
        super().keepalive_timeout()
        # Closing would wait until what was written has been read.
        self.transport.abort()

    def handle_parser_exception(self) -> None:
        """A frame that is wrong, too large or not UTF-8: say so before the close that says the same."""
        if self.conn.close_sent is not None and not self.transport.is_closing():
            code = _LAST_WORDS.get(self.conn.close_sent.code, "INVALID_MESSAGE")
            last_word = encode(error_message(Refusal(code, CODES[code].detail), self.trace.id))
            self.transport.write(Frame(Opcode.TEXT, last_word).serialize(mask=False))
        super().handle_parser_exception()

    def _refuse_handshake(self, why: str, headers: Headers) -> None:
        """What asked to become a WebSocket does not know how. It is told which version we speak."""
        self.handshake_initiated = self.handshake_complete = self.close_sent = True
        speaks = (("sec-websocket-version", "13"),)
        self.transport.write(_last_answer(Refusal("INVALID_MESSAGE", why), _trace_in(headers), speaks))
        self.transport.close()


def _trace_in(headers: Headers) -> Trace:
    """The caller's own trace, if the handshake names one."""
    return Trace.of(next(iter(headers.get_all("traceparent")), None))
