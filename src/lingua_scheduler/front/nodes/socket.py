"""A node's socket: what it says goes through the phases, and what comes of that is done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, assert_never

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.core.owner import new_connection
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.front.background import Background
from lingua_scheduler.front.moving import tell_joined, tell_moved
from lingua_scheduler.front.nodes.housing import hear_beat
from lingua_scheduler.front.nodes.links import Link
from lingua_scheduler.front.nodes.phases import (
    Beat,
    Enter,
    HangUp,
    Live,
    Mark,
    Note,
    Pass,
    Registering,
    Renew,
    Say,
    Tell,
)
from lingua_scheduler.front.nodes.roster import Roster
from lingua_scheduler.front.nodes.words import LONG_PATIENCE_S, PATIENCE_S, Words
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import CloseCode, close_code_of, error_message, refusal_of
from lingua_scheduler.protocol.node import JobAck, JobResult

if TYPE_CHECKING:
    from lingua_scheduler.core.node import Parting
    from lingua_scheduler.front.auth import Peer
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.nodes.phases import Act
    from lingua_scheduler.front.socket import Socket

#: How a node registers that may have brought work along.
_GOES_ON: Final = ("RESYNC", "CONTINUED")
#: A node registers within this, or is sent away.
REGISTER_S: Final = 10.0
#: So many words of a node may be on their way to the engine at once; then nothing more is read from it.
MAX_UNDER_WAY: Final = 64


async def serve_node(desk: Desk, socket: Socket, peer: Peer) -> None:
    """From the open socket of somebody who wants to be a node to its end."""
    entered = await _Entrance(desk, socket, peer).let_in()
    if entered is not None:
        await _Servant(desk, socket, *entered).serve()


def _roster(desk: Desk) -> Roster:
    return Roster(desk.engine, desk.directory, desk.links, desk.delivery.errands)


class _Entrance:
    """Where a socket becomes a node's."""

    def __init__(self, desk: Desk, socket: Socket, peer: Peer) -> None:
        self._desk = desk
        self._socket = socket
        self._peer = peer
        nodes = desk.settings.nodes
        self._phase = Registering(
            slots=nodes.default_max_concurrent_jobs,
            heartbeat_ms=nodes.heartbeat_interval_ms,
            trace_id=peer.trace_id,
        )
        self._until = asyncio.get_running_loop().time() + REGISTER_S

    async def let_in(self) -> tuple[Link, Live] | None:
        """The node's link, once it has registered, and its next phase; None: it is gone, or was sent away."""
        while True:
            try:
                async with asyncio.timeout_at(self._until):
                    data = await self._socket.receive()
            except TimeoutError:
                await self._close(CloseCode.TIMEOUT, f"no node_register within {REGISTER_S:g} s")
                return None
            if data is None:
                return None
            for act in self._phase.hear(data):
                match act:
                    case Say() | HangUp():
                        await self._do(act)
                    case Enter():
                        entered = await self._enter(act)
                        if entered is not None:
                            return entered
                    case _:
                        raise TypeError(f"{act} of somebody who is not registered")
                if self._socket.is_closed:
                    return None

    async def _enter(self, enter: Enter) -> tuple[Link, Live] | None:
        principal = self._desk.auth.admit_first("node", self._peer, enter.token)
        if isinstance(principal, Refusal):
            await self._close(close_code_of(principal), principal.detail)
            return None
        connection, roster = new_connection(self._desk.instance_id), _roster(self._desk)
        opened_ms = self._socket.opened_ms
        answer = await roster.register(enter, connection, principal.name, opened_ms=opened_ms)
        if isinstance(answer, Refusal):
            for act in self._phase.refused(answer):
                await self._do(act)
            return None
        live, acts = self._phase.entered(enter, answer, connection, principal.name)
        live.known.opened_ms = opened_ms
        link = Link(self._socket, live.known)
        # Before anything else is waited for: from now on the node can be given jobs.
        self._desk.links.add(link)
        roster.do(link, acts)
        if answer.how in _GOES_ON:
            self._desk.delivery.recall_soon(answer.cell, enter.node_id)
        tell_joined(self._desk, enter.node_id, answer)
        await tell_moved(self._desk, enter.node_id, answer)
        return link, live

    async def _do(self, act: Say | HangUp) -> None:
        if isinstance(act, Say):
            self._socket.write(encode(act.message).decode())
        else:
            await self._socket.close(act.code, act.detail, act.trace_id)

    async def _close(self, code: CloseCode, detail: str) -> None:
        await self._socket.close(code, detail, self._peer.trace_id)


class _Servant:
    """Listens to a registered node, does what it says, and tells the engine when it is gone."""

    def __init__(self, desk: Desk, socket: Socket, link: Link, live: Live) -> None:
        self._desk = desk
        self._socket = socket
        self._link = link
        self._live = live
        self._roster = _roster(desk)
        self._words = Words(desk.engine, desk.delivery, desk.clock, result_ttl_ms=desk.result_ttl_ms)
        self._under_way = Background()
        self._soon = asyncio.get_running_loop().call_soon
        #: Acks of this tick. A node that is done at once says so in the same breath, and then that is enough.
        self._acks: dict[tuple[str, int], Tell] = {}

    async def serve(self) -> None:
        """Until the socket is closed, by whomever; its last words are heard to the end."""
        try:
            while (data := await self._socket.receive()) is not None:
                for act in self._live.hear(data):
                    if isinstance(act, Tell) and len(self._under_way) < MAX_UNDER_WAY:
                        # Most of what a node says; there is nothing to wait for.
                        self._begin(act)
                    else:
                        await self._do(act)
        finally:
            self._tell_acks()
            self._desk.delivery.notes.tell_of(self._link.node_id)
            is_draining = self._desk.is_draining.is_set()
            how: Parting = "handover" if is_draining else "unheard" if self._socket.is_unheard else "closed"
            await self._roster.leave(self._link, how)
            await self._under_way.close(PATIENCE_S if is_draining else LONG_PATIENCE_S)

    async def _do(self, act: Act) -> None:
        """Words go to the engine in their order, but no word waits for the answer to another."""
        match act:
            case Say() | HangUp() | Note():
                self._roster.do(self._link, [act])
            case Enter():
                await self._enter(act)
            case Renew():
                await self._roster.renew(self._link)
            case Mark(service, kind):
                self._desk.marker.saw(self._link.node_id, service, kind, self._link.known.connection)
            case Pass(message):
                errand = self._desk.delivery.errands.get(message.job_id, self._link.node_id)
                if errand is not None:
                    self._desk.hints.partial(errand, message)
            case Beat():
                await self._under_way.room(MAX_UNDER_WAY)
                self._under_way.walk(self._beat(act, self._socket.said_after_ms), "a heartbeat")
            case Tell():
                await self._under_way.room(MAX_UNDER_WAY)
                self._begin(act)
            case _:
                assert_never(act)

    def _begin(self, tell: Tell) -> None:
        message = tell.message
        attempt = message.job_id, message.attempt_id
        if isinstance(message, JobAck):
            if not self._acks:
                self._soon(self._tell_acks)
            self._acks[attempt] = tell
            return
        if self._acks and (ack := self._acks.pop(attempt, None)) is not None:
            if isinstance(message, JobResult) and self._has(*attempt):
                self._desk.delivery.accepted(message.job_id, self._link.node_id)
            else:
                self._walk(ack)
        self._walk(tell)

    def _has(self, job_id: str, attempt_id: int) -> bool:
        """Whether this is the last attempt that the node was told of. What others are worth the engine knows."""
        errand = self._desk.delivery.errands.get(job_id, self._link.node_id)
        return errand is not None and errand.attempt_id == attempt_id

    def _tell_acks(self) -> None:
        acks, self._acks = self._acks, {}
        for tell in acks.values():
            self._walk(tell)

    def _walk(self, tell: Tell) -> None:
        self._under_way.walk(self._tell(tell), f"a word about job {tell.message.job_id}")

    async def _tell(self, tell: Tell) -> None:
        refusal = await self._words.tell(self._link.known, tell.message)
        self._roster.do(self._link, self._live.told(tell.message, refusal))

    async def _beat(self, said: Beat, said_ms: int) -> None:
        known = self._link.known
        try:
            answer = await hear_beat(
                self._desk.directory,
                known.node_id,
                said.epoch,
                connection=known.connection,
                said_ms=said_ms,
                **said.words,
            )
            for act in self._live.beaten(said, answer):
                await self._do(act)
        except (DependencyDown, OutcomeUnknown) as away:
            self._say(away)

    async def _enter(self, enter: Enter) -> None:
        """The node compares notes on the same socket: what it said before is heard before."""
        await self._under_way.room(1)
        known = self._link.known
        try:
            answer = await self._roster.register(
                enter, known.connection, known.credential, renewed_by="node", opened_ms=known.opened_ms
            )
        except (DependencyDown, OutcomeUnknown) as away:
            self._say(away)
            return
        entered = self._live.refused(answer) if isinstance(answer, Refusal) else self._live.entered(enter, answer)
        self._roster.do(self._link, entered)

    def _say(self, away: LinguaError) -> None:
        self._link.write(error_message(refusal_of(away), self._link.known.trace_id))
