"""The one door: every request and every socket comes in here, is looked at, and goes to whoever answers it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import msgspec

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.front.auth import SUBPROTOCOL, Peer, Principal, token_in
from lingua_scheduler.front.origins import Origins
from lingua_scheduler.front.router import Router, read_query
from lingua_scheduler.front.socket import Socket
from lingua_scheduler.front.trace import Trace
from lingua_scheduler.front.web import Reply, Request, refused
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import CloseCode, close_code_of, refusal_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.router import Found
    from lingua_scheduler.front.socket import Receive, Send
    from lingua_scheduler.front.web import Route, Said

    Scope = Mapping[str, Any]
    Serve = Callable[[Desk, Socket, Peer], Awaitable[None]]

_EVERYBODY: Final = Principal("", frozenset())
_MAX_SHOWN: Final = 80
_NO_CONTENT: Final = 204
_NOT_KEPT: Final = (("cache-control", "no-store"),)
#: Answers without a body, which say nothing of one.
_BARE: Final = (_NO_CONTENT, 304)
#: How long a browser may remember what a page of another origin may do here.
_PREFLIGHT_S: Final = "600"

log = logging.getLogger(__name__)


class _Gone(Exception):
    """The caller hung up before he had said all."""


class Door:
    """The ASGI application. A socket is open, and its peer known as far as it can be, before it is handed on."""

    def __init__(
        self,
        desk: Desk,
        routes: Iterable[Route],
        *,
        serve_node: Serve | None = None,
        serve_session: Serve | None = None,
    ) -> None:
        self._desk = desk
        self._router = Router(routes)
        self._origins = Origins(desk.settings.server)
        served = {"/ws/node": ("node", serve_node), "/ws/session": ("session", serve_session)}
        self._served = {path: (scope, serve) for path, (scope, serve) in served.items() if serve is not None}
        self._sockets: set[Socket] = set()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """One request, or one socket from its handshake to its end."""
        serve = self._serve_request if scope["type"] == "http" else self._serve_socket
        return serve(scope, receive, send)

    async def close_sockets(self) -> None:
        """Tell every socket that the instance restarts. Their servants see the end of it, and `is_draining`."""
        await asyncio.gather(*(socket.close(CloseCode.RESTART) for socket in list(self._sockets)))

    # Requests.

    async def _serve_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers_of(scope)
        trace = Trace.of(headers.get("traceparent"))
        try:
            reply = _reply(await self._answer(scope, headers, trace.id, receive), trace.id)
        except _Gone:
            return
        except Invalid as invalid:
            reply = refused(invalid.refusal, trace.id)
        except LinguaError as error:
            refusal = refusal_of(error)
            if refusal.code == "INTERNAL":
                log.exception("%s %s failed, trace %s", scope["method"], scope["path"], trace.id)
            again = error.request_id if isinstance(error, OutcomeUnknown) else ""
            reply = refused(refusal, trace.id, request_id=again or None)
        except asyncio.CancelledError:
            if not self._desk.is_draining.is_set():
                raise
            reply = _farewell(refuse("SHUTTING_DOWN"), trace.id)
        except Exception:
            log.exception("%s %s failed, trace %s", scope["method"], scope["path"], trace.id)
            reply = refused(refuse("INTERNAL"), trace.id)
        fixed = [(b"traceparent", trace.parent.encode())]
        if reply.status not in _BARE:
            fixed += [(b"content-type", reply.content_type.encode()), (b"content-length", b"%d" % len(reply.body))]
        own = [(name.encode(), value.encode()) for name, value in (*reply.headers, *self._for_pages(headers))]
        await send({"type": "http.response.start", "status": reply.status, "headers": fixed + own})
        await send({"type": "http.response.body", "body": reply.body})

    async def _answer(self, scope: Scope, headers: Mapping[str, str], trace_id: str, receive: Receive) -> Said:
        path, method = scope["path"], scope["method"]
        found = self._router.find(path)
        route = None if found is None else found.by_method.get("GET" if method == "HEAD" else method)
        if route is None or route.scope:
            # Whatever is asked, but for what watches over the process.
            refusal = self._check_origin(scope, headers)
            if refusal is not None:
                return refusal
        if found is None:
            return self._not_found(path)
        if method == "OPTIONS":
            return self._options(found, headers)
        if route is None:
            allowed = ", ".join(found.methods)
            refusal = refuse("METHOD_NOT_ALLOWED", path=_shown(path), method=_shown(method), methods=allowed)
            return refused(refusal, trace_id, headers=(("allow", allowed),))
        principal = self._admit(route, scope, headers)
        if isinstance(principal, Refusal):
            return principal
        request = Request(principal, trace_id, found.named, headers)
        said = await self._call(route, request, scope, receive)
        return _farewell(said, trace_id) if route.begins and self._desk.is_draining.is_set() else said

    def _not_found(self, path: str) -> Refusal:
        if path in self._served:
            return Refusal("INVALID_MESSAGE", f"{path} is a WebSocket: connect to it as one.")
        return refuse("NOT_FOUND", path=_shown(path))

    async def _call(self, route: Route, request: Request, scope: Scope, receive: Receive) -> Said:
        """Read what the route reads, and let it answer."""
        if route.query:
            request.query = read_query(route.query, _query_of(scope))
        if route.reads is not None or route.reads_raw:
            body = await _read_body(receive, request.headers, route.most_bytes)
            if isinstance(body, Refusal):
                return body
            if route.reads is not None:
                request.message = route.reads(body)
            else:
                request.raw = body
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
        work = route.handle(self._desk, request)
        return await (_while_heard(work, receive) if _waits(request) else work)

    def _admit(self, route: Route, scope: Scope, headers: Mapping[str, str]) -> Principal | Refusal:
        if not route.scope:
            return _EVERYBODY
        auth, client, token = self._desk.auth, _client_of(scope), token_in(headers)
        admitted = auth.admit(route.scope, client, token)
        if isinstance(admitted, Refusal) and route.also:
            second = auth.admit(route.also, client, token)
            return admitted if isinstance(second, Refusal) else second
        return admitted

    def _check_origin(self, scope: Scope, headers: Mapping[str, str]) -> Refusal | None:
        given = scope["headers"]
        # Most requests have every header once.
        if len(headers) != len(given) and sum(name == b"host" for name, _ in given) > 1:
            return Refusal("INVALID_MESSAGE", "A request has one Host header.")
        return self._origins.check(headers.get("host"), headers.get("origin"))

    def _options(self, found: Found, headers: Mapping[str, str]) -> Reply:
        """What can be done here; and, to the browser of a page that may call us, how."""
        methods = ", ".join(found.methods)
        said = [("allow", methods)]
        if "access-control-request-method" in headers and self._for_pages(headers):
            said += [
                ("access-control-allow-methods", methods),
                ("access-control-allow-headers", "authorization, content-type, traceparent"),
                ("access-control-max-age", _PREFLIGHT_S),
            ]
        return Reply(b"", _NO_CONTENT, headers=tuple(said))

    def _for_pages(self, headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """A page of another origin may read the answer, if it is an allowed one."""
        origin, host = headers.get("origin"), headers.get("host")
        if origin is None or self._origins.check(host, origin) is not None:
            return ()
        return (
            ("access-control-allow-origin", origin),
            ("access-control-expose-headers", "traceparent, retry-after"),
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
            receive, send, writable=lingua["writable"], round_trip_ms=lingua["round_trip_ms"], trace_id=trace.id
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
        return self._check_origin(scope, headers)

    async def _serve_open(self, socket: Socket, scope: Scope, headers: Mapping[str, str], trace_id: str) -> None:
        scope_name, serve = self._served[scope["path"]]
        client = _client_of(scope)
        principal = self._desk.auth.admit_socket(scope_name, client, token_in(headers, scope["subprotocols"]))
        if isinstance(principal, Refusal):
            await socket.close(close_code_of(principal), principal.detail, trace_id)
            return
        self._sockets.add(socket)
        try:
            await serve(self._desk, socket, Peer(principal, client, headers.get("origin"), trace_id))
            await socket.close(CloseCode.DONE)
        except (DependencyDown, OutcomeUnknown):
            await socket.close(CloseCode.ENGINE_DOWN, trace_id=trace_id)
        except OSError:
            raise
        except Exception:
            log.exception("a socket at %s failed, trace %s", scope["path"], trace_id)
            await socket.close(CloseCode.INTERNAL, trace_id=trace_id)
        finally:
            self._sockets.discard(socket)


def _waits(request: Request) -> bool:
    """Whether the caller is ready to wait for his answer."""
    if "wait_ms" in request.query:
        return True
    said = request.message
    options = getattr(said, "options", None)
    return bool(getattr(said, "wait_ms", None) or getattr(options, "wait_ms", None))


async def _while_heard(work: Awaitable[Said], receive: Receive) -> Said:
    """The answer, unless the caller hangs up before: then nobody works for him any longer."""
    working, leaving = asyncio.current_task(), asyncio.ensure_future(_hung_up(receive))
    assert working is not None  # noqa: S101 - a request is answered in a task

    def gone(_: object) -> None:
        working.cancel()

    leaving.add_done_callback(gone)
    try:
        return await work
    except asyncio.CancelledError:
        if leaving.done() and working.uncancel() == 0:
            raise _Gone from None
        raise
    finally:
        leaving.remove_done_callback(gone)
        leaving.cancel()


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _reply(said: Said, trace_id: str) -> Reply:
    if isinstance(said, Reply):
        return said
    if isinstance(said, Refusal):
        return refused(said, trace_id)
    return Reply(encode(said), headers=_NOT_KEPT)


def _farewell(said: Said, trace_id: str) -> Reply:
    """The last answer on its connection: whatever comes next is to be asked elsewhere."""
    reply = _reply(said, trace_id)
    return msgspec.structs.replace(reply, headers=(*reply.headers, ("connection", "close")))


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


async def _read_body(receive: Receive, headers: Mapping[str, str], most: int) -> bytes | Refusal:
    """All of it, if it is not too much. What comes after that is read by nobody, and kept by nobody."""
    if int(headers.get("content-length", 0)) > most:
        return refuse("PAYLOAD_TOO_LARGE")
    parts, size = [], 0
    while True:
        event = await receive()
        if event["type"] != "http.request":
            raise _Gone
        part: bytes = event["body"]
        size += len(part)
        if size > most:
            return refuse("PAYLOAD_TOO_LARGE")
        parts.append(part)
        if not event["more_body"]:
            return part if len(parts) == 1 else b"".join(parts)


def _headers_of(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _query_of(scope: Scope) -> dict[str, str]:
    try:
        return dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=100))
    except ValueError:
        raise Invalid("There are too many parameters.") from None


def _client_of(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _shown(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
