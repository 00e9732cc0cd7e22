"""Which nodes are here: taken in, kept alive while their socket is open, taken in again, let go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.front.background import insist, side_by_side
from lingua_scheduler.front.nodes.housing import hear_beat, take_in
from lingua_scheduler.front.nodes.phases import Enter, HangUp, Note, Say, cancels, told_to_beat, welcome
from lingua_scheduler.logs import get_log
from lingua_scheduler.protocol.errors import CloseCode
from lingua_scheduler.views.node import Node, read_node

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lingua_scheduler.core.node import Parting, RenewedBy
    from lingua_scheduler.flows.register import Registered
    from lingua_scheduler.front.directory import Directory
    from lingua_scheduler.front.errands import Errands
    from lingua_scheduler.front.nodes.links import Link, Links
    from lingua_scheduler.front.nodes.phases import Act
    from lingua_scheduler.store.engine import Engine

#: That a socket closed is told for so long; then its node counts as silent.
_LEAVE_S: Final = 30.0
#: How a node stands whose socket is closed, as far as the engine knows; it may stand so for other reasons.
_MAYBE_AWAY: Final = (Standing.not_ready, Standing.lost)

log = get_log(__name__)


class Roster:
    """The nodes whose sockets are open here, and the engine that must know of them."""

    def __init__(self, engine: Engine, directory: Directory, links: Links, errands: Errands) -> None:
        self._engine = engine
        self._directory = directory
        self._links = links
        self._errands = errands

    async def register(
        self, enter: Enter, connection: str, credential: str, *, renewed_by: RenewedBy = "", opened_ms: int
    ) -> Registered | Refusal:
        """Take a node in."""
        return await take_in(
            self._directory,
            enter.node_id,
            connection=connection,
            credential=credential,
            renewed_by=renewed_by,
            opened_ms=opened_ms,
            **enter.words,
        )

    async def _read(self, node_id: str) -> Node | Refusal:
        return await self._directory.at_home(node_id, lambda cell: read_node(self._engine, cell, node_id))

    async def renew_all(self, cells: Collection[str] = ()) -> None:
        """The engine was emptied, another server serves, or this instance was taken for gone: all come in again.

        If only some cells are meant, those that were at home there.
        """
        homes = self._directory.homes
        mine = [link for link in self._links if not cells or homes.get(link.node_id, "") in {"", *cells}]
        await side_by_side(self.renew(link) for link in mine)

    async def renew(self, link: Link) -> None:
        """Take a node in that the engine has lost, or given up, as it last was, with what it has at hand.

        What it works on may be unknown there too. It is told to stop that, and its slots are taken until it has.
        """
        known = link.known
        if self._links.get(known.node_id) is not link:
            # A newer socket has taken its place, and speaks for the node; or it is closed.
            return
        await self._tell_delivered(link)
        answer = await self._enter_again(link)
        if isinstance(answer, Refusal) and answer.code == "NODE_REPLACED":
            link.hang_up(CloseCode.REPLACED, answer.detail)
            return
        if isinstance(answer, Refusal):
            log.warning("renew", node_id=known.node_id, reason=answer.detail, detail="it could not be registered again")
            link.hang_up(CloseCode.TIMEOUT, f"register again: {answer.detail}")
            return
        log.warning("renew", node_id=known.node_id, reason="unknown to the engine, or given up")
        known.epoch = answer.epoch
        self.do(link, welcome(known, answer))
        if answer.how != "NEW":
            await self._stop_fenced(link, answer.cancel)

    async def _tell_delivered(self, link: Link) -> None:
        """The engine may have forgotten what was written to the node, or never heard of it. It hears that first.

        Else what nobody seems to have sent would be given to another, as soon as the node is back.
        """
        node_id, epoch = link.node_id, link.epoch
        told = self._at_work(link)
        await asyncio.gather(*(deliver(self._engine, job_id, attempt, node_id, epoch) for job_id, attempt in told))

    async def _stop_fenced(self, link: Link, told: Collection[tuple[str, int]]) -> None:
        """Tell a node again what it must stop, but for what it was told just now: before that nobody could."""
        node = await self._read(link.node_id)
        if isinstance(node, Node):
            self.do(link, cancels(link.known, [attempt for attempt in node.fenced if attempt not in told]))

    async def _enter_again(self, link: Link) -> Registered | Refusal:
        """What it says meanwhile is heard before, and would be undone: then it is said once more."""
        known = link.known
        while True:
            said = known.words
            words = said.copy()
            words["epoch"] = known.epoch
            words["running"] = self._at_work(link)
            enter = Enter(known.node_id, words, known.abilities, known.types)
            answer = await self.register(
                enter, known.connection, known.credential, renewed_by="instance", opened_ms=known.opened_ms
            )
            if isinstance(answer, Refusal) or known.words == said:
                return answer
            known.epoch = answer.epoch

    def _at_work(self, link: Link) -> list[tuple[str, int]]:
        """What the node has, as far as is known here; what it brought from elsewhere and did not tell was recalled."""
        told = [(one.job_id, one.attempt_id) for one in self._errands.of_node(link.node_id)]
        return list(dict.fromkeys([*link.at_work, *told]))

    async def keep_all(self) -> None:
        """Beat for every open socket. An engine that is away hears the next beat."""
        await side_by_side(self._keep(link) for link in list(self._links))

    async def _keep(self, link: Link) -> None:
        try:
            epoch = link.epoch
            answer = await hear_beat(self._directory, link.node_id, epoch, connection=link.known.connection)
            if not isinstance(answer, Refusal):
                self.do(link, told_to_beat(link.known, answer))
                if answer.standing in _MAYBE_AWAY and await self._is_away(link):
                    await self.renew(link)
            elif answer.code != "STALE_ATTEMPT" or link.epoch == epoch:
                # Unless it has registered anew meanwhile: the engine has lost it, or somebody else speaks in its name.
                await self.renew(link)
        except (DependencyDown, OutcomeUnknown) as away:
            log.debug("heartbeat", node_id=link.node_id, reason=away)

    async def _is_away(self, link: Link) -> bool:
        """Whether the engine was told that a socket is closed which is open: this instance was taken for gone."""
        node = await self._read(link.node_id)
        return isinstance(node, Node) and node.record.away_until_ms > 0

    def do(self, link: Link, acts: Iterable[Act]) -> None:
        """Do what needs nothing but the link."""
        for act in acts:
            match act:
                case Say(message):
                    link.write(message)
                case HangUp(code, detail, trace_id):
                    link.hang_up(code, detail, trace_id)
                case Note(text):
                    log.warning("node", node_id=link.node_id, detail=text)
                case _:
                    raise TypeError(f"{act} is not to be done here")

    async def leave(self, link: Link, how: Parting) -> None:
        """The socket is closed: by whom, and why."""
        self._links.remove(link)
        known = link.known
        try:
            await insist(
                lambda: self._directory.at_home(
                    known.node_id,
                    lambda cell: disconnect(self._engine, cell, known.node_id, known.connection, how),
                ),
                _LEAVE_S,
            )
        except (DependencyDown, OutcomeUnknown) as away:
            log.warning("disconnect", node_id=known.node_id, reason=away, detail="nobody heard of it")
