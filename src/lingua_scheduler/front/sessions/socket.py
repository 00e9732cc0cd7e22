"""The glue between a session's socket and its machine: it reads, and hands on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.front.sessions.connection import Connection
from lingua_scheduler.front.sessions.effects import Close, Effect, Pong, Write
from lingua_scheduler.front.sessions.manners import read_message
from lingua_scheduler.front.sessions.opening import Begin, Opening, Resume, unknown_session
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import CloseCode, close_code_of
from lingua_scheduler.protocol.frames import PongFrame, encode_frame

if TYPE_CHECKING:
    from lingua_scheduler.front.auth import Peer
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.sessions.session import Session
    from lingua_scheduler.front.sessions.sessions import Sessions
    from lingua_scheduler.front.socket import Socket


async def serve_session(desk: Desk, socket: Socket, peer: Peer) -> None:
    """One client, from its first message until its socket is closed. Its session may live longer."""
    found = await _Entrance(desk, socket, peer).let_in()
    if found is None:
        return
    session, connection = found
    has_all = False
    try:
        while (data := await socket.receive()) is not None:
            session.hear(connection, data)
        has_all = await connection.has_parted()
    finally:
        session.detach(connection, has_all=has_all)
        await connection.closed()


class _Entrance:
    """Nobody knows yet who this is, or which session he wants."""

    def __init__(self, desk: Desk, socket: Socket, peer: Peer) -> None:
        self._desk = desk
        self._sessions: Sessions = desk.sessions
        self._socket = socket
        self._peer = peer
        self._opening = Opening(self._sessions.rules, self._sessions.now(), peer.trace_id)

    async def let_in(self) -> tuple[Session, Connection] | None:
        """The session, and the way to write to its client; None: the socket is closed."""
        while not self._socket.is_closed:
            data = await self._receive()
            if data is None:
                return None
            wanted = self._read(data)
            found = await self._find(wanted) if isinstance(wanted, Begin | Resume) else wanted
            if not isinstance(found, list):
                return found
            await self._carry(found)
        return None

    async def _receive(self) -> str | bytes | None:
        left_ms = self._opening.due_ms - self._sessions.now()
        try:
            async with asyncio.timeout(max(0, left_ms) / 1000):
                return await self._socket.receive()
        except TimeoutError:
            await self._carry(self._opening.tick(self._opening.due_ms))
            return None

    def _read(self, data: str | bytes) -> Begin | Resume | list[Effect]:
        try:
            message = read_message(data)
        except Invalid as invalid:
            return self._opening.manners.unreadable(invalid, self._peer.trace_id)
        return self._opening.hear(message)

    async def _find(self, wanted: Begin | Resume) -> tuple[Session, Connection] | list[Effect]:
        principal = self._desk.auth.admit_first("session", self._peer, wanted.init.token)
        if isinstance(principal, Refusal):
            return [Close(close_code_of(principal), principal.detail)]
        if isinstance(wanted, Resume):
            found = await self._sessions.resume(wanted, principal.name, self._socket.opened_ms)
            return self._go_on(wanted, found)
        trace_id = wanted.init.trace_id or self._peer.trace_id
        opened_ms = self._socket.opened_ms
        begun = await self._sessions.begin(wanted, principal.name, self._peer.client, trace_id, opened_ms)
        if isinstance(begun, Refusal):
            return self._refuse(begun, trace_id)
        if self._desk.is_draining.is_set():
            return _elsewhere()
        session, token = begun
        connection = Connection(self._socket)
        session.welcome(connection, token)
        return session, connection

    def _go_on(self, wanted: Resume, session: Session | Refusal | None) -> tuple[Session, Connection] | list[Effect]:
        if self._desk.is_draining.is_set():
            return _elsewhere()
        if session is None:
            return unknown_session()
        if isinstance(session, Refusal):
            return [Close(CloseCode.REPLACED, session.detail)]
        connection = Connection(self._socket)
        try:
            session.come_back(connection, wanted.init, wanted.token)
        except Invalid as invalid:
            return self._opening.manners.bad(invalid.refusal, wanted.init.trace_id or self._peer.trace_id)
        return session, connection

    def _refuse(self, refusal: Refusal, trace_id: str) -> list[Effect]:
        """There is no session for him: he may ask otherwise, unless he asks too much."""
        if refusal.code == "RATE_LIMITED":
            return [Close(CloseCode.RATE_LIMITED, refusal.detail, refusal.after_ms)]
        return self._opening.manners.bad(refusal, trace_id)

    async def _carry(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write():
                    self._socket.write(encode(effect.message).decode())
                case Pong():
                    self._socket.write(encode_frame(PongFrame(effect.payload)), may_drop=True)
                case Close():
                    await self._socket.close(effect.code, effect.detail, self._peer.trace_id, effect.after_ms)


def _elsewhere() -> list[Effect]:
    """This instance has begun to stop: what is said here now would be saved by nobody."""
    return [Close(CloseCode.RESTART)]
