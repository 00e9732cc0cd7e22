"""What a connection may do to us: how much it sends, how long it takes, how many there are.

uvicorn reads requests and frames; here is what it leaves out. A client always owes us something (the head of a request,
its body, that it reads the answer), and has a time for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.core.walk import Walk
from lingua_scheduler.front.cork import Corked
from lingua_scheduler.front.exchange import Exchange, last_answer, parts_of, plain_head, plain_target, size_of_head
from lingua_scheduler.front.patience import Patience

if TYPE_CHECKING:
    import asyncio
    from collections import deque

    from lingua_scheduler.config.doors import Server as Limits
    from lingua_scheduler.front.door import Door

#: So much is read of what waits for its turn.
_MOST_AHEAD: Final = 64 * 1024
#: So many requests wait for their turn. One read may bring thousands of small ones.
_MOST_WAITING: Final = 128
_NO_PROXY: Final = Refusal("INVALID_MESSAGE", "This server is no proxy.")
_NOT_YET: Final = Refusal("INVALID_MESSAGE", "A WebSocket does not begin before everything else has been answered.")
_TOO_MANY: Final = Refusal("RATE_LIMITED", "Too many requests wait for their turn on this connection.")
_NOT_HTTP: Final = Refusal("INVALID_MESSAGE", "This is not HTTP/1.1.")


class HttpProtocol(HttpToolsProtocol):
    """One connection, before it becomes a WebSocket or if it never does.

    Requests go straight to the door, one after the other; what comes before its turn waits. So much of that is read
    that a caller who hangs up is noticed.
    """

    limits: Limits
    door: Door
    pipeline: deque[Exchange]  # type: ignore[assignment] # uvicorn would put other things there

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's business
        super().__init__(*args, **named)
        #: Where the client is; "" if it has no address.
        self.address = ""
        #: The request that is being answered, and the one whose body arrives.
        self._answering: Exchange | None = None
        self._arriving: Exchange | None = None
        #: For what the client owes, and for reading what it was told.
        self._patience = Patience(self.loop, self._is_late)
        self._write_timer: asyncio.TimerHandle | None = None
        #: How many messages have begun; whether the last is not complete, and whether its head is.
        self._begun = 0
        self._is_reading = False
        self._has_head = False
        #: What has arrived of its head: so much, and at most so much. Later, of what stands beside its body.
        self._head_bytes = 0
        self._most_head_bytes = 0
        #: Everything is answered, and nothing has come since.
        self._is_idle = False
        #: So much has been read of what waits for its turn.
        self._ahead_bytes = 0
        #: Nothing more is read. When all is answered this is said, and the connection closes.
        self._is_deaf = False
        self._last_words = b""
        #: Nothing more is answered either: the connection closes, if need be when the client has said what it says.
        self._is_over = False

    # What arrives.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Whatever has to wait until it is read is told to `pause_writing`, and has its time; also if we close.
        transport.set_write_buffer_limits(high=0)
        self.address = self.client[0] if self.client else ""
        if len(self.connections) > self.limits.max_connections:
            self._refuse(Refusal("RATE_LIMITED", "There are too many connections here."))
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self._drop_all()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            self._read_ahead(len(data))
            return
        if self._is_idle:
            self._is_idle, self._patience.due = False, None
        was_reading, begun, body = self._is_reading, self._begun, self._arriving
        had_bytes = 0 if body is None else body.size
        self._most_head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except HttpParserError:
            self._refuse(_NOT_HTTP)
        except HttpParserUpgrade as upgrade:
            self._upgrade(memoryview(data)[upgrade.args[0] :])
        if self._has_head:
            self._most_head_bytes = 0
            if body is not None and body is self._arriving:
                # Between the pieces of a body, and behind the last, no more may stand than in a head.
                self._count(-self._head_bytes if body.size > had_bytes else len(data))
        # What also holds the end of an earlier request is not counted: the next piece will be.
        elif self._is_reading and self._begun - begun <= (not was_reading):
            self._count(len(data))
        if self.pipeline:
            self._read_ahead(len(data))
        self._begin()
        if self._patience.due is None and (self._is_reading or self._answering is None):
            self._watch()

    def eof_received(self) -> bool:  # type: ignore[override] # uvicorn never stays
        """The caller says nothing more. What he asked is answered, but he who said that he would wait hung up."""
        self._is_reading = False
        if self._arriving is not None:
            if self._arriving is self._answering:
                return False
            self._drop_arriving()
        if not self.is_answering():
            return False
        self._is_deaf, self._patience.due = True, None
        if not self._last_words:
            self.shutdown()
        for exchange in self.pipeline:
            exchange.said_all()
        return self._answering is None or self._answering.said_all()

    def on_message_begin(self) -> None:
        self._begun += 1
        self._is_reading, self._has_head = True, False
        self._is_idle = False
        self._head_bytes = 0
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        # What comes behind a body is read by nobody.
        if not self._has_head:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._has_head, self._patience.due = True, None
        self._head_bytes = 0
        most = self.limits.max_header_bytes
        if self._most_head_bytes > most and size_of_head(self.url, self.headers) > most:
            self._refuse(refuse("HEADERS_TOO_LARGE"))
            raise ValueError("nothing more is read")
        parser = self.parser
        method = parser.get_method().decode("ascii")
        if self.url[:1] != b"/" and self.url != b"*" and method != "CONNECT":
            self.url, self.headers = plain_target(self.url, self.headers)
        if parser.should_upgrade():
            self.scope = {"method": method, "headers": self.headers}  # type: ignore[typeddict-item] # all that is used
            return
        path, query = parts_of(self.url)
        self._arriving = exchange = Exchange(self, method, path, query, self.headers)
        if parser.get_http_version() == "1.0":
            exchange.keep_alive = exchange.asks_first = False
        elif not parser.should_keep_alive():
            exchange.keep_alive = False
        if self._answering is None and not self.pipeline and not self.flow.write_paused:
            self._answering = exchange
            return
        self.pipeline.append(exchange)
        if len(self.pipeline) > _MOST_WAITING:
            self._refuse(_TOO_MANY)
            raise ValueError("nothing more is read")

    def on_body(self, body: bytes) -> None:
        if self._arriving is not None:
            self._arriving.take(body)

    def on_message_complete(self) -> None:
        self._is_reading, self._patience.due = False, None
        # Of what was refused before it had ended, the end is here.
        self._is_idle = self._answering is None and not self.pipeline
        if self._arriving is not None:
            self._arriving.end()
            self._arriving = None

    def _read_ahead(self, size: int) -> None:
        """So much came before its turn. What is too much waits where it is, but for what never has a turn."""
        self._ahead_bytes += size
        if self._ahead_bytes > _MOST_AHEAD and not self._is_over:
            self.flow.pause_reading()

    def _drop_arriving(self) -> None:
        """What never comes to its end has no turn."""
        if self.pipeline and self.pipeline[-1] is self._arriving:
            self.pipeline.pop()
        self._arriving = None

    def _count(self, size: int) -> None:
        """So much more of a head, or of what is like one."""
        self._head_bytes += size
        if self._head_bytes > self.limits.max_header_bytes:
            self._refuse(refuse("HEADERS_TOO_LARGE"))

    def _upgrade(self, rest: memoryview) -> None:
        """Become a WebSocket. Any other upgrade is an offer that is not taken: the request is a plain one.

        The parser has stopped behind the head of it. Another one reads on, which never heard of the offer.
        """
        while not self._is_deaf:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
                if not self.transport.is_closing():
                    heir: Any = self.transport.get_protocol()
                    heir.data_received(bytes(rest))
                return
            if self.parser.get_method() == b"CONNECT":
                self._refuse(_NO_PROXY)
                return
            head = plain_head(self.parser, self.url, self.headers)
            self.parser = HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            try:
                self.parser.feed_data(head)
                self.parser.feed_data(rest)
            except HttpParserError:
                self._refuse(_NOT_HTTP)
            except HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]
            else:
                return

    def handle_websocket_upgrade(self) -> None:
        if self.is_answering() or self.flow.write_paused:
            self._refuse(_NOT_YET)
            return
        self._is_deaf = self._is_over = True
        self._stop_timers()
        self.transport.set_write_buffer_limits()
        corked = Corked(self.transport, self.loop, self.limits.body_timeout_ms / 1000)
        self.transport = corked  # type: ignore[assignment] # it is one, in all that matters
        super().handle_websocket_upgrade()

    # What is answered.

    def _begin(self) -> None:
        """Answer the request whose turn has come, if there is one."""
        exchange = self._answering
        if exchange is None or exchange.is_begun or self._is_over:
            return
        exchange.is_begun = True
        served = self.door.serve(exchange)
        if served is None:
            return
        work, walks = served
        if walks:
            exchange.task = walk = Walk(work, _nothing)
            walk.begin()
            return
        exchange.task = task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def give_up(self) -> None:
        """Nobody is worked for any longer; who waits for an answer is told so."""
        if self._answering is not None:
            self._answering.give_up()

    def answered(self, exchange: Exchange, data: bytes) -> None:
        """The answer to the request whose turn it was."""
        self._answering = None
        if self._is_over or self.transport.is_closing():
            return
        self.transport.write(data)
        if not exchange.keep_alive:
            self._end()
        elif self.pipeline:
            self.loop.call_soon(self._go_on)
        elif self._is_deaf:
            self._end(self._last_words)
        elif not self._is_reading:
            self._is_idle = True
            self._patience.give(self.limits.idle_timeout_ms)

    def _go_on(self) -> None:
        """With whoever waits for his turn, if what was said before is being read."""
        if self._is_over or not self.pipeline or self._answering is not None or self.flow.write_paused:
            return
        self._answering = self.pipeline.popleft()
        if not self.pipeline:
            self._ahead_bytes = 0
            self.flow.resume_reading()
        self._begin()
        if self._patience.due is None:
            self._watch()

    def shutdown(self) -> None:
        """The next answer is the last; who waits for none is sent away."""
        last = self.pipeline[-1] if self.pipeline else self._answering
        if last is None:
            self.transport.close()
        else:
            last.keep_alive = False

    def cut_off(self) -> None:
        """Nobody is worked for any longer. Who has no answer is refused, each in his turn."""
        while self.is_answering():
            exchange = self._answering or self.pipeline.popleft()
            exchange.keep_alive = bool(self.pipeline)
            task = exchange.task
            self.door.send_away(exchange)
            # Whoever is at work on it has nothing more to say.
            exchange.is_gone = True
            if task is not None:
                task.cancel()
        self._end()

    def is_answering(self) -> bool:
        """Whether a request has not got its answer yet."""
        return self._answering is not None or bool(self.pipeline)

    # What is owed.

    def _watch(self) -> None:
        """One time, for whatever the client owes us now."""
        owed_ms = self._owed_ms()
        if owed_ms and not self._is_deaf:
            self._patience.give(owed_ms)

    def _owed_ms(self) -> int:
        """How long it has, 0 if it owes nothing."""
        if self.pipeline or (self._answering is not None and not self._is_reading):
            # While an earlier request is being answered we may not read, so it is not to blame.
            return 0
        if self._is_reading and self._has_head:
            return self.limits.body_timeout_ms
        return self.limits.idle_timeout_ms if self._is_idle else self.limits.header_timeout_ms

    def _is_late(self) -> None:
        """What it owed did not come in time."""
        if self._is_idle or self._is_over:
            self.transport.close()
        else:
            self._is_reading = False
            self._refuse(refuse("REQUEST_TIMEOUT"))

    def _stop_timers(self) -> None:
        self._patience.end()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # What goes out.

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.body_timeout_ms / 1000, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        if self.pipeline:
            self.loop.call_soon(self._go_on)

    def _refuse(self, refusal: Refusal) -> None:
        """Hear no more. Who came before is answered; then say why, if that is not taken for something else's answer."""
        if self._is_deaf:
            return
        self._is_deaf, self._patience.due = True, None
        words = last_answer(refusal) if self._is_heard() else b""
        if self._answering is not None and self._answering is self._arriving:
            self._end(words)
            return
        self._drop_arriving()
        if self.is_answering():
            self._last_words = words
        else:
            self._end(words)

    def _end(self, words: bytes = b"") -> None:
        """Say this, and hang up.

        To close while the client still speaks would take from it what we said: then it hears that nothing more comes,
        and has the time of a body for the rest, which nobody reads.
        """
        if words:
            self.transport.write(words)
        self._drop_all()
        if self.transport.is_closing() or not (self._is_reading or self.flow.read_paused):
            self.transport.close()
            return
        self.transport.write_eof()
        self.flow.resume_reading()
        self._patience.give(self.limits.body_timeout_ms)

    def _drop_all(self) -> None:
        """Nothing more is heard or answered."""
        self._is_deaf = self._is_over = True
        self.pipeline.clear()
        if self._answering is not None:
            self._answering.hang_up()
        self._answering = self._arriving = None

    def _is_heard(self) -> bool:
        """Whether what we say now is about what the client said last: that has no answer yet."""
        arriving = self._arriving
        return arriving is None or arriving is self._answering or arriving in self.pipeline


def _nothing(_error: BaseException | None) -> None:
    """The door has told whoever asked how it went."""
