"""A connection that became a WebSocket. uvicorn and `websockets` frame it; here is what they leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHandshake
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from lingua_scheduler.core.refusal import CODES, Refusal
from lingua_scheduler.front.exchange import last_answer
from lingua_scheduler.front.inbox import Inbox
from lingua_scheduler.front.lain import has_unread
from lingua_scheduler.front.socket import ANSWERED, PONG, UNHEARD
from lingua_scheduler.front.trace import Trace
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import error_message

if TYPE_CHECKING:
    from lingua_scheduler.config.doors import Server as Limits
    from lingua_scheduler.core.clock import Clock

#: The `error` that goes out before a close that the framing decides on.
_LAST_WORDS: Final = {1009: "PAYLOAD_TOO_LARGE"}
#: Into so many pieces a message may be cut: each costs more than it weighs.
_MOST_FRAGMENTS: Final = 1_024
#: So much may wait here until somebody takes it, and so many messages; then nothing more is read. To stop and go on
#: with every message would be two system calls for each.
_MOST_AHEAD: Final = 64 * 1024
_MOST_WAITING: Final = 64
#: What may lie unread before a peer that goes on pinging is cut off. Messages stop long before.
_MOST_UNREAD: Final = 16 * 1024 * 1024


class SocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket: it tells when it can be written to, and finds out when nobody is there."""

    limits: Limits
    clock: Clock
    #: What the other end is told goes by this, whoever tells it.
    trace: Trace
    #: What came before it was open.
    _early = b""
    #: When the last ping was written.
    _asked_ms = 0
    #: So much was read since nothing waited.
    _ahead_bytes = 0

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's business
        super().__init__(*args, **named)
        #: Where uvicorn puts its events, too.
        self.inbox = Inbox()
        self.queue = self.inbox  # type: ignore[assignment] # all that is done with it there is to put something in

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
        extensions["lingua"] = {
            "writable": self.writable,
            "put": self.put,
            "trace": self.trace,
            "round_trip_ms": self.round_trip_ms,
            # Before the answer: whoever has opened another connection since got that one later.
            "opened_ms": self.clock(),
        }

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated and not self.handshake_complete:
            self._early += data
            return
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

    def handle_close(self, event: Frame) -> None:
        """Tell when the other end answers our close; uvicorn tells only that it is gone."""
        if self.close_sent:
            self.inbox.put_nowait({"type": ANSWERED})
        super().handle_close(event)

    def put(self, data: str | bytes) -> None:
        """Write a text or a binary message in this very tick. `OSError`: nobody can hear it any more."""
        if self.disconnected or self.close_sent or self.conn.state is not State.OPEN:
            raise ConnectionError("the connection is closed")
        # As the protocol would frame it, but for its queue, and for extensions, of which there are none.
        frame = Frame(Opcode.TEXT, data.encode()) if isinstance(data, str) else Frame(Opcode.BINARY, data)
        self.transport.write(frame.serialize(mask=False))

    def send_receive_event_to_app(self) -> None:
        """Hand a message on. As it is with uvicorn, but that nobody stops reading for a single one."""
        frames, self.frames = self.frames, []
        if self.close_sent:
            # Read on, until the other end answers our close.
            return
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        if self.curr_msg_data_type == "bytes":
            self.inbox.put_nowait({"type": "websocket.receive", "bytes": bytes(data)})
        else:
            try:
                self.inbox.put_nowait({"type": "websocket.receive", "text": str(data, "utf-8")})
            except UnicodeDecodeError:
                self.conn.send_close(1007)
                self.handle_parser_exception()
                return
        self._ahead_bytes += len(data)
        if not self.read_paused and (self._ahead_bytes > _MOST_AHEAD or len(self.inbox) > _MOST_WAITING):
            self.read_paused = True
            self.transport.pause_reading()

    async def receive(self) -> Any:  # noqa: ANN401 - an event of ASGI, or of our own
        """The next of what waits. When nothing does any more, more is read."""
        event = await self.inbox.get()
        if not self.inbox:
            self._ahead_bytes = 0
            if self.read_paused:
                self.read_paused = False
                self.transport.resume_reading()
        return event

    def start_keepalive(self) -> None:
        """The first ping goes out at once: from its answer on it is known how far away the other end is.

        Who did not wait until it was open is heard now.
        """
        self.send_keepalive_ping()
        early, self._early = self._early, b""
        self.data_received(early)

    def send_keepalive_ping(self) -> None:
        self._asked_ms = self.clock()
        super().send_keepalive_ping()

    def handle_pong(self, event: Frame) -> None:
        """Tell it in its turn: what comes behind it was said after the ping. What lay here before it may be old."""
        asked = self.pending_ping_payload
        super().handle_pong(event)
        if asked is not None and self.pending_ping_payload is None and not self.close_sent:
            self.inbox.put_nowait({"type": PONG, "asked_ms": self._asked_ms})

    def round_trip_ms(self) -> float | None:
        """How long the last ping that was answered took, there and back; None: none was yet."""
        return self.last_ping_rtt * 1000 or None

    def handle_ping(self) -> None:
        """A pong for each ping, unless nobody reads them."""
        super().handle_ping()
        if self.transport.get_write_buffer_size() > _MOST_UNREAD:
            self.transport.abort()

    def keepalive_timeout(self) -> None:
        """No answer to a ping. If it is we who do not read, or who slept, it may lie here; else nobody is there."""
        if not self.transport.is_closing() and (self.read_paused or has_unread(self.transport)):
            self.pong_timer = self.loop.call_later(self.limits.ping_timeout_ms / 1000, self.keepalive_timeout)
            return
        if not self.close_sent:
            self.inbox.put_nowait({"type": UNHEARD})
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
        self.transport.write(last_answer(Refusal("INVALID_MESSAGE", why), _trace_in(headers), speaks))
        self.transport.close()


def _trace_in(headers: Headers) -> Trace:
    """The caller's own trace, if the handshake names one."""
    return Trace.of(next(iter(headers.get_all("traceparent")), None))
