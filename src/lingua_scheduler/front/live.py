"""The fleet, live: one look for all who watch at this instance, everything first, and then what has changed.

Nobody is looked for while nobody watches. What was told has a version; whoever lost his socket and comes back with the
last one he had goes on from there, if that is not too long ago and was told here, and begins anew otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.front.background import Background
from lingua_scheduler.front.router import split_query
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import CloseCode
from lingua_scheduler.protocol.feed import event_answer
from lingua_scheduler.protocol.live import LiveDelta, LiveSnapshot, LiveStill, live_node
from lingua_scheduler.views.feed import read_feed
from lingua_scheduler.views.node import read_node

if TYPE_CHECKING:
    from lingua_scheduler.front.auth import Peer
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.socket import Socket
    from lingua_scheduler.protocol.feed import EventAnswer
    from lingua_scheduler.protocol.fleet import StatsAnswer
    from lingua_scheduler.protocol.live import LiveNode
    from lingua_scheduler.views.slots import NodeSlots

#: So many may watch at one instance.
MAX_VIEWERS: Final = 100
#: Of a larger fleet so many nodes are shown, those that are not well first.
MAX_NODES: Final = 500
#: So many of the last events are shown to whoever begins.
MAX_EVENTS: Final = 200
#: So many deltas are remembered, for whoever comes back.
_REMEMBERED: Final = 30
#: Whoever hears nothing else hears so often that the server is there.
_STILL_S: Final = 2.0
#: So often it is looked whether whoever is signed in still is.
_RECHECK_S: Final = 30.0
#: What changes how nodes stand; then there is another look at the fleet, but no sooner than this after the last.
_MOVING: Final = ("node_", "admin_")
_AGAIN_MS: Final = 500
_WELL: Final = (Standing.available, Standing.full)


class Live:
    """What was told last, and to whom."""

    def __init__(self) -> None:
        self._viewers: set[Socket] = set()
        #: Which of all that ever told anything this is: versions of another one mean nothing here.
        self._name = secrets.token_hex(4)
        self._number = 0
        self._deltas: deque[tuple[int, str]] = deque(maxlen=_REMEMBERED)
        self._stats: StatsAnswer | None = None
        self._nodes: dict[str, LiveNode] = {}
        self._total = 0
        #: When the numbers were made with which the nodes were looked at last.
        self._compared_ms = 0
        self._events: deque[EventAnswer] = deque(maxlen=MAX_EVENTS)
        self._last_event = ""
        #: Something happened that the last look at the fleet does not show.
        self._is_moved = False
        self._said_at = 0.0
        #: One look at a time, whoever asks for it.
        self._looking = asyncio.Lock()
        self._closing = Background()

    def __len__(self) -> int:
        return len(self._viewers)

    @property
    def _version(self) -> str:
        return f"{self._name}.{self._number}"

    async def serve(self, desk: Desk, socket: Socket, peer: Peer) -> None:
        """Tell somebody, until he goes. What he says is of no matter."""
        if peer.principal is None:
            await socket.close(CloseCode.UNAUTHENTICATED, "sign in, or show a token when you connect")
            return
        if len(self._viewers) >= MAX_VIEWERS:
            await socket.close(CloseCode.OVERLOADED, f"{MAX_VIEWERS} watch here already")
            return
        # Without the engine he is told what is remembered, and that it is away.
        with contextlib.suppress(DependencyDown, OutcomeUnknown):
            await self.step(desk, watched=True)
        self._greet(desk, socket, split_query(peer.query).get("after", ""))
        self._viewers.add(socket)
        guard = asyncio.create_task(_guard(desk, socket, peer), name="is he still signed in")
        try:
            while await socket.receive() is not None:
                pass
        finally:
            guard.cancel()
            self._viewers.discard(socket)

    def _greet(self, desk: Desk, socket: Socket, after: str) -> None:
        name, _, number = after.partition(".")
        first = self._deltas[0][0] if self._deltas else self._number + 1
        if name == self._name and number.isdecimal() and first <= int(number) + 1 <= self._number + 1:
            for place, data in self._deltas:
                if place > int(number):
                    socket.write(data)
            socket.write(encode(LiveStill(version=self._version, now_ms=desk.clock())).decode())
            return
        whole = LiveSnapshot(
            version=self._version,
            now_ms=desk.clock(),
            stats=self._stats or desk.stats.now(desk),
            nodes=list(self._nodes.values()),
            nodes_total=self._total,
            events=list(self._events),
        )
        socket.write(encode(whole).decode())

    async def step(self, desk: Desk, *, watched: bool = False) -> None:
        """Look once, and tell everybody what is different. Nobody watches: nobody looks."""
        if not (self._viewers or watched):
            return
        now, what = asyncio.get_running_loop().time(), dict[str, Any]()
        try:
            async with self._looking:
                await self._look(desk, what)
        except (DependencyDown, OutcomeUnknown):
            # The server is there all the same; what is wrong and how old the numbers are, they say themselves. What
            # was found before the look broke off is told now: it is not new to the next one.
            if "stats" not in what and (stats := self._news(desk)) is not None:
                what["stats"] = stats
            self._pass_on(desk, what, now)
            raise
        self._pass_on(desk, what, now)

    def _pass_on(self, desk: Desk, what: dict[str, Any], now: float) -> None:
        """Tell what has changed: the fields of a delta."""
        if what:
            self._number += 1
            data = encode(LiveDelta(version=self._version, now_ms=desk.clock(), **what)).decode()
            self._deltas.append((self._number, data))
            self._tell(data, now)
        else:
            self._still(desk, now)

    def _news(self, desk: Desk) -> StatsAnswer | None:
        """The numbers of another look than the last that was told, or with another word on what is wrong."""
        told, last = self._stats, desk.stats.now(desk)
        if last is None or (told and (told.generated_at_ms, told.health) == (last.generated_at_ms, last.health)):
            return None
        self._stats = last
        return last

    def _still(self, desk: Desk, now: float) -> None:
        if now - self._said_at >= _STILL_S:
            self._tell(encode(LiveStill(version=self._version, now_ms=desk.clock())).decode(), now)

    def _tell(self, data: str, now: float) -> None:
        self._said_at = now
        for socket in list(self._viewers):
            if not socket.write(data):
                # He does not read. He may come back, and is told then what he missed, or everything.
                self._viewers.discard(socket)
                closing = socket.close(CloseCode.OVERLOADED, "you read too slowly; come again")
                self._closing.spawn(closing, "the close of one who does not read")

    async def _look(self, desk: Desk, what: dict[str, Any]) -> None:
        """What has changed, as far as the look comes."""
        await self._find_events(desk, what)
        if self._is_moved and (desk.stats.age_ms(desk) or 0) >= _AGAIN_MS:
            # Whoever watches sees at once what became of it, and not with the next look of all.
            had_begun = desk.stats.is_making
            await desk.stats.make(desk)
            # One that had begun before may not show it: then there is another.
            self._is_moved = had_begun
        stats = self._news(desk)
        if stats is not None:
            what["stats"] = stats
        made_at_ms = self._stats.generated_at_ms if self._stats else 0
        if made_at_ms != self._compared_ms:
            await self._compare(desk, what)
            self._compared_ms = made_at_ms

    async def _find_events(self, desk: Desk, what: dict[str, Any]) -> None:
        """What came since the last look, all of it; before the first, the last ones."""
        while True:
            after = self._last_event
            found = await read_feed(desk.engine, after, MAX_EVENTS)
            if isinstance(found, Refusal) or not found:
                return
            told = [event_answer(event_id, notice) for event_id, notice in found]
            self._last_event = told[-1].id
            self._events.extend(told)
            self._is_moved |= any(event.kind.startswith(_MOVING) for event in told)
            what.setdefault("events", []).extend(told)
            if not after or len(told) < MAX_EVENTS:
                return

    async def _compare(self, desk: Desk, what: dict[str, Any]) -> None:
        """The nodes that are otherwise than they were told, and those that are not shown any more."""
        fleet = desk.stats.fleet
        there = [] if fleet is None else sorted(fleet.nodes, key=lambda node: (_is_well(node), node.node_id))
        names = [node.node_id for node in there[:MAX_NODES]]
        looks = await asyncio.gather(*(self._read(desk, node_id) for node_id in names))
        now = {node.node_id: node for node in looks if node is not None}
        changed = [node for node_id, node in now.items() if self._nodes.get(node_id) != node]
        gone = [node_id for node_id in self._nodes if node_id not in now]
        if changed:
            what["nodes"] = changed
        if gone:
            what["gone"] = gone
        if len(there) != self._total:
            what["nodes_total"] = len(there)
        self._nodes, self._total = now, len(there)

    async def _read(self, desk: Desk, node_id: str) -> LiveNode | None:
        node = await desk.directory.at_home(node_id, lambda cell: read_node(desk.engine, cell, node_id))
        return None if isinstance(node, Refusal) else live_node(node_id, node.record, node.profile, len(node.pairs))


def _is_well(node: NodeSlots) -> bool:
    return node.standing in _WELL and not node.is_suspect


async def _guard(desk: Desk, socket: Socket, peer: Peer) -> None:
    """Whoever is not signed in any more watches no longer."""
    while peer.cookie is not None:
        await asyncio.sleep(_RECHECK_S)
        with contextlib.suppress(DependencyDown, OutcomeUnknown):
            refusal = await desk.seats.admit(peer.cookie, "admin")
            if isinstance(refusal, Refusal):
                await socket.close(CloseCode.UNAUTHENTICATED, refusal.detail)
                return


async def serve_live(desk: Desk, socket: Socket, peer: Peer) -> None:
    """From the open socket of somebody who wants to watch to its end."""
    await desk.live.serve(desk, socket, peer)
