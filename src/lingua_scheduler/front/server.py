"""One port for HTTP and WebSockets. The framing is uvicorn's; the limits and the end are ours."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket as sockets
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.front.ending import Ending
from lingua_scheduler.front.limits import HttpProtocol
from lingua_scheduler.front.upgrade import SocketProtocol
from lingua_scheduler.front.web import LARGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from lingua_scheduler.config.doors import Server as ServerSettings
    from lingua_scheduler.front.door import Door

_BACKLOG: Final = 2048
#: How long an instance that stops waits for those that it has let go, and for what it has cut off.
_LAST_S: Final = 1.0
#: So often it looks whether those who wait for their turns have had them.
_TURN_S: Final = 0.01


class CannotListen(LinguaError):
    """The address cannot be listened on; the message says why, and what to do."""


def bind(host: str, port: int) -> sockets.socket:
    """A socket that holds the port, and does not listen yet."""
    try:
        family, kind, protocol, _, address = sockets.getaddrinfo(
            host, port, type=sockets.SOCK_STREAM, flags=sockets.AI_PASSIVE
        )[0]
    except OSError as error:
        raise CannotListen(f"cannot listen on {host}: {error.strerror}; name another address with --host") from None
    bound = sockets.socket(family, kind, protocol)
    try:
        bound.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        bound.bind(address)
        # Two who bind the same port are told apart here, and not when the second begins to listen.
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise CannotListen(_why(host, port, error)) from None
    bound.setblocking(False)
    return bound


def _why(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken: stop what listens there, or give another --port (0: any free one)"
    if error.errno == errno.EACCES:
        return f"port {port} may not be listened on by this user: give a --port above 1023"
    return f"cannot listen on {host}, port {port}: {error.strerror}"


def url_of(bound: sockets.socket) -> str:
    """Where a browser finds it."""
    host, port = bound.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")  # noqa: PLR2004 - IPv4
    return f"http://{address}:{port}" if address.version == 4 else f"http://[{address}]:{port}"  # noqa: PLR2004


class Server:
    """Serves a door on a bound socket, from entering to leaving; leaving drains.

    `let_go` is called when the time for that is up: whoever still waits for something is to be answered.
    """

    def __init__(
        self,
        door: Door,
        bound: sockets.socket,
        settings: ServerSettings,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        self._door = door
        self._bound = bound
        self.ending = Ending(settings.drain_ms)
        self._let_go = let_go
        self.url = url_of(bound)
        self.port: int = bound.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(
                door,
                loop="none",
                http=_protocol(HttpProtocol, limits=settings, door=door),
                ws=_protocol(SocketProtocol, limits=settings, clock=door.clock),
                ws_max_size=LARGE_BYTES,
                ws_ping_interval=settings.ping_interval_ms / 1000,
                ws_ping_timeout=settings.ping_timeout_ms / 1000,
                ws_per_message_deflate=False,
                lifespan="off",
                log_config=None,
                # What goes wrong is told by the door; what is left are callers who do not speak HTTP.
                log_level="critical",
                access_log=False,
                interface="asgi3",
                proxy_headers=False,
                server_header=False,
                backlog=_BACKLOG,
                timeout_keep_alive=settings.idle_timeout_ms / 1000,  # type: ignore[arg-type]  # seconds, whole or not
            )
        )
        self._clock: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        server = self._server
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup(sockets=[self._bound])
        self._clock = asyncio.create_task(server.main_loop(), name="the date of the answers")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ending.begin()
        try:
            if kind is None:
                await self._drain()
        finally:
            await self._cut_off()
            if self._clock is not None:
                self._clock.cancel()
                await asyncio.gather(self._clock, return_exceptions=True)

    def stop_accepting(self) -> None:
        """Nobody new comes in; whoever has said nothing is sent away, and the others after their answer."""
        for server in self._server.servers:
            server.close()
        self._bound.close()
        for connection in self._requests():
            connection.shutdown()

    def _requests(self) -> list[HttpProtocol]:
        """The connections that are no sockets."""
        return [one for one in self._server.server_state.connections if isinstance(one, HttpProtocol)]

    async def _wait(self, for_s: float) -> None:
        """Until nobody is at work, nor waits for his turn; but not for ever."""
        loop, tasks = asyncio.get_running_loop(), self._server.server_state.tasks
        until = loop.time() + for_s
        while (left_s := until - loop.time()) > 0:
            if tasks:
                await asyncio.wait(list(tasks), timeout=left_s)
            elif any(one.is_answering() for one in self._requests()):
                await asyncio.sleep(min(left_s, _TURN_S))
            else:
                return

    async def _drain(self) -> None:
        """Sockets are told to go elsewhere; requests may still be answered, but not for ever."""
        self.stop_accepting()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.ending.left_s(self.ending.drain_s + _LAST_S)):
                await self._door.close_sockets()
        await self._wait(self.ending.drain_s)
        self._let_go()
        await self._wait(self.ending.left_s(_LAST_S))

    async def _cut_off(self) -> None:
        """Whoever is still there is not waited for. Whoever still waits for an answer gets a refusal."""
        self.stop_accepting()
        state = self._server.server_state
        for task in list(state.tasks):
            task.cancel()
        for one in self._requests():
            one.give_up()
        await self._wait(self.ending.left_s(_LAST_S))
        for one in self._requests():
            one.cut_off()
        await self._wait(self.ending.left_s(_LAST_S))
        for connection in list(state.connections):
            transport: Any = connection.transport
            transport.abort()


def _protocol(kind: type[Any], **known: object) -> type[Any]:
    """The protocol, and what it has to know; uvicorn makes one for each connection, and knows nothing of that."""
    return type(kind.__name__, (kind,), known)
