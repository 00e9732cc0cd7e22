"""Nodes on real sockets, and a door for them with everything behind it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.front.ask import Ask, Submitted
from lingua_scheduler.front.assignment import Assignment
from lingua_scheduler.front.delivery import Delivery
from lingua_scheduler.front.hearing import Hearing
from lingua_scheduler.front.hints import Hints
from lingua_scheduler.front.nodes.links import Links
from lingua_scheduler.front.nodes.socket import serve_node
from lingua_scheduler.loops.reaper import Reaper
from lingua_scheduler.loops.relayer import Relayer
from lingua_scheduler.protocol.options import Pipeline
from lingua_scheduler.views.audit import audit_whole
from lingua_scheduler.views.job import Job
from lingua_scheduler.views.node import Node, read_node
from tests.support.doors import PATIENCE_S, open_door
from tests.support.nodes import Listeners

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from websockets.asyncio.client import ClientConnection

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.door import Door, Serve

CELL: Final = "c0"
PLAIN: Final = Assignment(src_lang="en", tgt_lang="zh", pipeline=Pipeline())
#: A node of the field: it says nothing of acks, and is ready by its first beat.
FIELD: Final[dict[str, Any]] = {
    "version": "2.0",
    "capability_by_type": [{"type": "asr", "ready": True}, {"type": "semantic", "ready": True}],
    "language_capabilities": {
        "asr_languages": ["en", "zh"],
        "semantic_languages": ["en", "zh"],
        "tts_languages": ["en", "zh"],
    },
}
#: A node of ours: it says everything.
OURS: Final[dict[str, Any]] = {
    "semantic_langs": ["en", "zh"],
    "nmt_pairs": [["en", "zh"]],
    "max_concurrent_jobs": 2,
    "health": "ready",
    "advanced_features": ["job_ack", "job_started", "job_stopped"],
}


class Fleet:
    """A door for nodes, with everything behind it."""

    def __init__(self, desk: Desk, door: Door, url: str, listeners: Listeners) -> None:
        self.desk = desk
        self.door = door
        self.url = url
        self.listeners = listeners

    @asynccontextmanager
    async def node(self, node_id: str = "n1", **said: Any) -> AsyncIterator[Peer]:
        """A node that has registered."""
        async with connect(f"{self.url}/ws/node") as socket:
            peer = Peer(socket, node_id)
            await peer.say("node_register", **(said or OURS))
            welcome = await peer.hears("node_register_ack")
            peer.epoch = welcome["epoch"]
            yield peer

    async def put(self, node_id: str = "", **more: Any) -> str:
        ask = Ask("s1", "en", "zh", utterance_index=3, wanted=Wanted(preferred_node_id=node_id, wait_ms=1_000))
        submitted = await self.desk.delivery.place(ask, PLAIN, trace_id="t1", **more)
        assert isinstance(submitted, Submitted), submitted
        return submitted.job_id

    async def end_of(self, job_id: str) -> Job:
        job = await self.desk.hearing.wait_end(job_id, 5_000)
        assert isinstance(job, Job)
        assert job.record.ended_at_ms, job.record.state
        return job

    async def record(self, node_id: str = "n1") -> Node:
        node = await read_node(self.desk.engine, CELL, node_id)
        assert isinstance(node, Node), node
        return node


class Peer:
    """The node's end of its socket."""

    def __init__(self, socket: ClientConnection, node_id: str) -> None:
        self.socket = socket
        self.node_id = node_id
        self.epoch = ""

    async def say(self, kind: str, **said: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, "node_id": self.node_id} | said))

    async def about(self, kind: str, job: dict[str, Any], **said: Any) -> None:
        """Say something about an attempt that was assigned."""
        named = {name: job[name] for name in ("job_id", "attempt_id", "session_id", "trace_id")}
        await self.say(kind, **(named | said))

    async def hears(self, kind: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            message: dict[str, Any] = json.loads(await self.socket.recv())
        assert message["type"] == kind, message
        return message

    async def end(self) -> tuple[dict[str, Any], int]:
        """The last message, and what it was closed with."""
        said: dict[str, Any] = {}
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    said = json.loads(await self.socket.recv())
                except ConnectionClosed as closed:
                    return said, closed.rcvd.code if closed.rcvd else 0

    async def is_quiet(self) -> bool:
        """Whether nothing came before the answer to something harmless that is refused."""
        await self.say("job_ack", job_id="c0.nothing", attempt_id=1)
        return bool((await self.hears("error"))["code"] == "UNKNOWN_JOB")


@asynccontextmanager
async def opened(url: str, serve: Serve = serve_node, **flags: object) -> AsyncIterator[Fleet]:
    async with open_door(url, (), serve_node=serve, **({"server__drain_ms": 100} | flags)) as door:  # type: ignore[arg-type]
        desk, listeners = door.desk, Listeners()
        desk.links, desk.sessions = Links(), listeners  # type: ignore[assignment] # what they hear is all they need
        desk.hints = Hints(desk.engine, listeners, desk.neighbours)
        desk.delivery = Delivery(desk.engine, desk.links, desk.submitter, desk.hints, desk.neighbours, desk.clock)
        desk.hearing = Hearing(desk.engine, desk.directory, desk.links, desk.delivery, listeners, desk.neighbours)

        async def hear(event: Event) -> None:
            desk.submitter.hear(event)
            await desk.hearing.hear(event)

        async with Reaper(desk.engine, CELL, 50), Relayer(desk.engine, CELL, 10, hear):
            yield Fleet(desk, door.door, door.ws, listeners)
        await desk.delivery.close()
        assert await audit_whole(desk.engine, CELL, overdue_ms=60_000) == []
