"""The one door: every request and every socket comes in here, is looked at, and goes to whoever answers it."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.core.notice import ADMIN
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.front.auth import PAGE, SUBPROTOCOL, Peer, Principal, token_in
from lingua_scheduler.front.origins import ONE_HOST, Origins, is_own
from lingua_scheduler.front.router import Router, read_query, split_query
from lingua_scheduler.front.seats import CSRF, READS, check_page, cookie_in
from lingua_scheduler.front.socket import Socket
from lingua_scheduler.front.web import Reply, Request, refused
from lingua_scheduler.logs import get_log
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import CloseCode, close_code_of, refusal_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from lingua_scheduler.core.seat import Cookie
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.exchange import Exchange
    from lingua_scheduler.front.router import Found
    from lingua_scheduler.front.socket import Receive, Send
    from lingua_scheduler.front.trace import Trace
    from lingua_scheduler.front.web import Route, Said

    Scope = Mapping[str, Any]
    Serve = Callable[[Desk, Socket, Peer], Awaitable[None]]

#: Instead of an answer: the caller is gone.
_NOBODY: Final = Reply(b"")
#: The sockets on which nothing can be changed.
_FOR_READERS: Final = ("admin",)
#: The outcome of an act that was not refused.
_DONE: Final = "ok"
_EVERYBODY: Final = Principal("", frozenset())
_MAX_SHOWN: Final = 80
_NO_CONTENT: Final = 204
_SEE_OTHER: Final = 303
_NOT_KEPT: Final = (("cache-control", "no-store"),)
#: How long a browser may remember what a page of another origin may do here.
_PREFLIGHT_S: Final = "600"

log = get_log(__name__)


class Door:
    """Requests come by `serve`, sockets as to an ASGI application.

    A socket is open, and its peer known as far as it can be, before it is handed on.
    """

    def __init__(
        self,
        desk: Desk,
        routes: Iterable[Route],
        *,
        serve_node: Serve | None = None,
        serve_session: Serve | None = None,
        serve_live: Serve | None = None,
    ) -> None:
        self._desk = desk
        self.clock = desk.clock
        self._router = Router(routes)
        self._origins = Origins(desk.settings.server)
        served = {
            "/ws/node": ("node", serve_node),
            "/ws/session": ("session", serve_session),
            "/api/v1/live": ("admin", serve_live),
        }
        self._served = {path: (scope, serve) for path, (scope, serve) in served.items() if serve is not None}
        # The same callers come again and again. A token is compared with care until it is known.
        self._admit = functools.lru_cache(maxsize=1_024)(self._admit_anew)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """One socket from its handshake to its end."""
        return self._serve_socket(scope, receive, send)

    async def close_sockets(self) -> None:
        """Tell every socket that the instance restarts. Their servants see the end of it, and `is_draining`."""
        await asyncio.gather(*(socket.close(CloseCode.RESTART) for _, socket in self._desk.sockets))

    # Requests.

    def serve(self, exchange: Exchange) -> tuple[Coroutine[Any, Any, None], bool] | None:
        """Answer a request, if nobody has to be waited for; else here is the work, and whether it can walk."""
        try:
            asked = self._look(exchange)
            if not isinstance(asked, tuple):
                self._say(exchange, asked)
                return None
            route, request = asked
            if route.asks_engine or exchange.cookie is not None:
                return self._work(exchange, route, request), route.walks and exchange.cookie is None
            self._say(exchange, _at_once(route.handle(self._desk, request)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told, and the log
            self._say(exchange, _failed(error, exchange))
        return None

    def send_away(self, exchange: Exchange) -> None:
        """Answer a request for which nothing can be done any more."""
        self._say(exchange, refuse("SHUTTING_DOWN"))

    async def _work(self, exchange: Exchange, route: Route, request: Request) -> None:
        """Read what the route reads, and let it answer."""
        try:
            said: Said | None
            if exchange.is_whole and exchange.cookie is None:
                said = self._read(exchange, route, request)
            else:
                said = await self._hear(exchange, route, request)
                if said is _NOBODY:
                    return
            if said is None:
                exchange.request = request
                if exchange.is_left and request.waits:
                    exchange.leave()
                    return
                handle = self._act(exchange, route, request) if route.act else route.handle(self._desk, request)
                said = await handle
            if route.begins and self._desk.is_draining.is_set():
                exchange.let_go()
            self._say(exchange, said)
        except asyncio.CancelledError:
            if exchange.is_gone:
                return
            exchange.let_go()
            self.send_away(exchange)
            if not self._desk.is_draining.is_set():
                raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told, and the log
            self._say(exchange, _failed(error, exchange))

    async def _hear(self, exchange: Exchange, route: Route, request: Request) -> Said | None:
        """Who asks, if he is signed in, and what; None: he may be answered."""
        if exchange.cookie is not None:
            refused = await self._seat(exchange, exchange.cookie, route, request)
            if refused is not None:
                return refused
        if not exchange.is_whole and (route.reads is not None or route.reads_raw):
            await exchange.arrive()
            if exchange.is_gone:
                return _NOBODY
        return self._read(exchange, route, request)

    async def _act(self, exchange: Exchange, route: Route, request: Request) -> Said:
        """Let the route answer; what an operator did goes into the feed of events, however it ended."""
        if not request.principal.is_admin:
            return await route.handle(self._desk, request)
        outcome = "INTERNAL"
        try:
            said = await route.handle(self._desk, request)
            outcome = said.code if isinstance(said, Refusal) else _DONE
        except (Invalid, LinguaError) as error:
            outcome = (error.refusal if isinstance(error, Invalid) else refusal_of(error)).code
            raise
        finally:
            on = request.named.get(route.acts_on) or str(getattr(request.message, route.acts_on, ""))
            wanted = "" if route.acts_with is None else route.acts_with(request.message)
            who, where = request.principal.name, exchange.client
            self._desk.chronicler.note(ADMIN + route.act, on, wanted, who=who, where=where, outcome=outcome)
        return said

    def _look(self, exchange: Exchange) -> Said | tuple[Route, Request]:
        """What is asked, and by whom; or why nobody hears it."""
        path, method = exchange.path, exchange.method
        found = self._router.find(path)
        route = None if found is None else found.by_method.get("GET" if method == "HEAD" else method)
        if route is None or route.scope or route.method != "GET":
            # Whatever is asked, but for what watches over the process.
            refusal = ONE_HOST if exchange.has_two_hosts else self._origins.check(exchange.host, exchange.origin)
            if refusal is not None:
                return refusal
        if found is None:
            return self._not_found(path)
        if method == "OPTIONS":
            return self._options(found, exchange)
        if route is None:
            allowed = ", ".join(found.methods)
            refusal = refuse("METHOD_NOT_ALLOWED", path=_shown(path), method=_shown(method), methods=allowed)
            return refused(refusal, exchange.trace.id, headers=(("allow", allowed),))
        exchange.route = route.path
        principal = self._admit(route.scope, route.also, exchange.client, exchange.given.get(b"authorization"))
        if isinstance(principal, Refusal):
            exchange.cookie = cookie_in(exchange.given)
            if exchange.cookie is None:
                return self._turn_away(exchange, route, principal)
            principal = _EVERYBODY
        exchange.most_bytes = route.most_bytes
        return route, Request(
            principal,
            exchange.trace.id,
            found.named,
            exchange.given,
            exchange.lain_ms,
            exchange.give_up,
            client=exchange.client,
        )

    async def _seat(self, exchange: Exchange, cookie: Cookie, route: Route, request: Request) -> Said | None:
        """Whoever is signed in takes his place; or why he may not."""
        csrf = request.headers.get(CSRF)
        refusal = check_page(exchange.method, exchange.host, exchange.origin, cookie, csrf)
        if refusal is not None:
            return refusal
        try:
            principal = await self._desk.seats.admit(cookie, route.scope)
        except DependencyDown:
            if not _is_for_people(exchange, route):
                raise
            # It holds nothing that is not in the package; what it asks for is looked at, and it says what is wrong.
            return None
        if isinstance(principal, Refusal):
            return self._turn_away(exchange, route, principal)
        if principal.reads_only and exchange.method not in READS and not route.for_readers:
            return Refusal("FORBIDDEN", "Whoever signed in by this link may only look.")
        request.principal, request.cookie = principal, cookie
        return None

    def _turn_away(self, exchange: Exchange, route: Route, refusal: Refusal) -> Said:
        """Why somebody may not come in. A person at a browser is shown where to sign in."""
        if not _is_for_people(exchange, route):
            return refusal
        # Relative: a proxy may have us behind a path of its own.
        page = exchange.path[1:] + (f"?{exchange.query}" if exchange.query else "")
        back = quote(page.encode("latin-1", "replace"), safe="")
        return Reply(b"", _SEE_OTHER, headers=(("location", f"sign-in?next={back}"), *_NOT_KEPT))

    def _not_found(self, path: str) -> Refusal:
        if path in self._served:
            return Refusal("INVALID_MESSAGE", f"{path} is a WebSocket: connect to it as one.")
        return refuse("NOT_FOUND", path=_shown(path))

    def _read(self, exchange: Exchange, route: Route, request: Request) -> Refusal | None:
        """What the request says, and whether it may say that; None: it may."""
        if route.query:
            request.query = read_query(route.query, split_query(exchange.query))
        if route.reads is not None or route.reads_raw:
            if exchange.is_too_large:
                return refuse("PAYLOAD_TOO_LARGE")
            if route.reads is not None:
                request.message = route.reads(exchange.hand_over())
            else:
                request.raw = exchange.hand_over()
        if route.speaks_for:
            said = request.message
            epoch = self._desk.auth.check_node(request.principal, getattr(said, route.speaks_for), said.node_secret)
            if isinstance(epoch, Refusal):
                return epoch
            if epoch and said.epoch not in {None, epoch}:
                return refuse("STALE_ATTEMPT")
            # Of a node that has another holder by now, the flows know another epoch.
            request.message = msgspec.structs.replace(said, epoch=epoch or said.epoch)
        if route.begins and self._desk.is_draining.is_set():
            return refuse("SHUTTING_DOWN")
        return None

    def _admit_anew(self, scope: str, also: str, client: str, shown: bytes | None) -> Principal | Refusal:
        if not scope:
            return _EVERYBODY
        auth, token = self._desk.auth, None if shown is None else token_in({"authorization": shown.decode("latin-1")})
        admitted = auth.admit(scope, client, token)
        if isinstance(admitted, Refusal) and also:
            second = auth.admit(also, client, token)
            return admitted if isinstance(second, Refusal) else second
        return admitted

    def _options(self, found: Found, exchange: Exchange) -> Reply:
        """What can be done here; and, to the browser of a page that may call us, how."""
        methods = ", ".join(found.methods)
        said = [("allow", methods)]
        if b"access-control-request-method" in exchange.given and exchange.origin is not None:
            # It has been checked by now.
            said += [
                ("access-control-allow-methods", methods),
                ("access-control-allow-headers", "authorization, content-type, prefer, traceparent"),
                ("access-control-max-age", _PREFLIGHT_S),
            ]
        return Reply(b"", _NO_CONTENT, headers=tuple(said))

    def _say(self, exchange: Exchange, said: Said) -> None:
        """The one answer."""
        if isinstance(said, Refusal):
            said = refused(said, exchange.trace.id)
        elif not isinstance(said, Reply):
            said = Reply(encode(said), headers=_NOT_KEPT)
        self._desk.requests[exchange.method, exchange.route, said.status] += 1
        exchange.answer(said, () if exchange.origin is None else self._for_pages(exchange.host, exchange.origin))

    def _for_pages(self, host: str | None, origin: str) -> tuple[tuple[str, str], ...]:
        """A page of another origin may read the answer, if it is an allowed one."""
        if self._origins.check(host, origin) is not None:
            return ()
        return (
            ("access-control-allow-origin", origin),
            ("access-control-expose-headers", "traceparent, retry-after, preference-applied"),
            ("vary", "origin"),
        )

    # Sockets.

    async def _serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, lingua = _headers_of(scope), scope["extensions"]["lingua"]
        trace: Trace = lingua["trace"]
        refusal = self._refuse_socket(scope, headers)
        if refusal is not None:
            await _refuse_handshake(refused(refusal, trace.id), trace, receive, send)
            return
        socket = Socket(
            receive,
            send,
            put=lingua["put"],
            writable=lingua["writable"],
            round_trip_ms=lingua["round_trip_ms"],
            return_ms=self._desk.sockets.return_ms,
            opened_ms=lingua["opened_ms"],
            trace_id=trace.id,
        )
        try:
            await socket.accept(SUBPROTOCOL if SUBPROTOCOL in scope["subprotocols"] else None)
            await self._serve_open(socket, scope, headers, trace.id)
        except OSError:
            # The peer is gone. Whoever served it has heard of it, or never knew it.
            return

    def _refuse_socket(self, scope: Scope, headers: Mapping[str, str]) -> Refusal | None:
        """Why there is to be no socket at all. What a browser must be able to read comes later, by the socket."""
        if scope["path"] not in self._served:
            return self._not_found(scope["path"])
        if self._desk.is_draining.is_set():
            return refuse("SHUTTING_DOWN")
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            return ONE_HOST
        return self._origins.check(headers.get("host"), headers.get("origin"))

    async def _serve_open(self, socket: Socket, scope: Scope, headers: Mapping[str, str], trace_id: str) -> None:
        scope_name, serve = self._served[scope["path"]]
        client = _client_of(scope)
        principal = self._desk.auth.admit_socket(scope_name, client, token_in(headers, scope["subprotocols"]))
        cookie = cookie_in(dict(scope["headers"])) if principal is None else None
        if cookie is not None:
            try:
                principal = await self._seat_socket(scope_name, cookie, headers)
            except DependencyDown:
                await socket.close(CloseCode.ENGINE_DOWN, trace_id=trace_id)
                return
        if isinstance(principal, Refusal):
            await socket.close(close_code_of(principal), principal.detail, trace_id)
            return
        self._desk.sockets.add(socket, scope_name)
        try:
            query = scope["query_string"].decode("latin-1")
            await serve(self._desk, socket, Peer(principal, client, headers.get("origin"), trace_id, query, cookie))
            await socket.close(CloseCode.DONE)
        except (DependencyDown, OutcomeUnknown):
            await socket.close(CloseCode.ENGINE_DOWN, trace_id=trace_id)
        except OSError:
            raise
        except Exception:
            log.exception("socket", path=scope["path"], trace_id=trace_id)
            await socket.close(CloseCode.INTERNAL, trace_id=trace_id)
        finally:
            self._desk.sockets.discard(socket)

    async def _seat_socket(self, scope_name: str, cookie: Cookie, headers: Mapping[str, str]) -> Principal | Refusal:
        """Whoever is signed in and opens a socket from a page of ours."""
        if not is_own(headers.get("host"), headers.get("origin", "")):
            return Refusal("FORBIDDEN", "Whoever is signed in may open a socket only from a page of this server.")
        principal = await self._desk.seats.admit(cookie, scope_name)
        if isinstance(principal, Principal) and principal.reads_only and scope_name not in _FOR_READERS:
            return Refusal("FORBIDDEN", "Whoever signed in by this link may only look.")
        return principal


def _is_for_people(exchange: Exchange, route: Route) -> bool:
    """Whether a person at a browser wants to see this page."""
    wants_page = route.scope == PAGE and b"text/html" in exchange.given.get(b"accept", b"")
    return wants_page and b"authorization" not in exchange.given


def _at_once(work: Awaitable[Said]) -> Said:
    """What a handler says that waits for nobody."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as ended:
        said: Said = ended.value
        return said
    steps.close()
    raise RuntimeError("a route that asks nobody waits for somebody")


def _failed(error: Exception, exchange: Exchange) -> Reply:
    """What went wrong, as the caller is told. Of our own mistakes the log knows more."""
    trace_id = exchange.trace.id
    if isinstance(error, Invalid):
        return refused(error.refusal, trace_id)
    refusal = refusal_of(error) if isinstance(error, LinguaError) else refuse("INTERNAL")
    if refusal.code == "INTERNAL":
        log.error("request", method=exchange.method, path=exchange.path, trace_id=trace_id, exc_info=error)
    again = error.request_id if isinstance(error, OutcomeUnknown) else ""
    return refused(refusal, trace_id, request_id=again or None)


async def _refuse_handshake(reply: Reply, trace: Trace, receive: Receive, send: Send) -> None:
    headers = [
        (b"content-type", reply.content_type.encode()),
        (b"traceparent", trace.parent.encode()),
        *((name.encode(), value.encode()) for name, value in reply.headers),
    ]
    await receive()
    try:
        await send({"type": "websocket.http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": reply.body})
    except OSError:
        return


def _headers_of(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _client_of(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _shown(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
