"""Nodes at a door without sockets: what is written to them is kept, and read by the test."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.owner import new_connection
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.front.ask import Ask, Submitted
from lingua_scheduler.front.assignment import Assignment
from lingua_scheduler.front.delivery import Delivery
from lingua_scheduler.front.directory import Directory
from lingua_scheduler.front.neighbours import Neighbours
from lingua_scheduler.front.nodes.links import Known, Link, Links
from lingua_scheduler.front.submit import Submitter
from lingua_scheduler.protocol.legacy import abilities_of, registering_node
from lingua_scheduler.protocol.node import NodeRegister
from lingua_scheduler.protocol.options import Pipeline
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.records import Event, Ticket
    from lingua_scheduler.front.assignment import Errand
    from lingua_scheduler.protocol.errors import CloseCode
    from lingua_scheduler.protocol.node import NodeAsrPartial
    from tests.support.world import World

PLAIN: Final = Assignment(src_lang="en", tgt_lang="zh", pipeline=Pipeline())
TRACE: Final = "the job's"
#: The instance that all of this happens at, unless there are several.
INSTANCE: Final = "here"
#: A node that says everything it can: it acks, begins, stops.
TALKATIVE: Final = ["job_ack", "job_started", "job_stopped"]


class Tape:
    """The other end of a link. A broken one takes nothing any more."""

    def __init__(self) -> None:
        self.written: list[str | bytes] = []
        self.closed_with: CloseCode | None = None
        #: So many more frames can be written; None: any number.
        self.room: int | None = None

    @property
    def way_ms(self) -> int | None:
        return None

    def write(self, data: str | bytes, *, may_drop: bool = False) -> bool:
        assert not may_drop
        if self.closed_with is not None or self.room == 0:
            return False
        if self.room is not None:
            self.room -= 1
        self.written.append(data)
        return True

    async def close(self, code: CloseCode, detail: str = "", trace_id: str | None = None) -> None:
        del detail, trace_id
        self.closed_with = code

    def messages(self, kind: str = "") -> list[dict[str, Any]]:
        """What was written, of one kind or all, without binary frames."""
        found = [json.loads(data) for data in self.written if isinstance(data, str)]
        return [message for message in found if kind in {"", message["type"]}]


class Listeners:
    """Sessions as the nodes' side knows them: who is told what."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.waits_for: set[str] = set()
        self.moved: set[str] = set()

    def accepted(self, errand: Errand) -> None:
        self.heard.append(("accepted", errand))

    def partial(self, errand: Errand, message: NodeAsrPartial) -> None:
        self.heard.append((message.text, errand))

    def mailed(self, node_id: str) -> None:
        self.heard.append(("mailed", node_id))

    def knows(self, job_id: str) -> bool:
        return job_id in self.waits_for

    def has_moved(self, job_id: str) -> bool:
        return job_id in self.moved

    def adopt_ended(self, ticket: Ticket) -> None:
        self.heard.append(("adopted", ticket.job))

    async def ended(self, event: Event) -> None:
        self.heard.append(("ended", event))

    async def refused(self, event: Event) -> None:
        self.heard.append(("refused", event))

    def of(self, kind: str) -> list[Any]:
        return [what for told, what in self.heard if told == kind]


class Stage:
    """A world with links, a delivery, and listeners."""

    def __init__(self, world: World, instance: str = INSTANCE) -> None:
        self.world = world
        self.instance = instance
        self.links = Links()
        self.listeners = Listeners()
        self.directory = Directory(world.engine, CELL)
        self.submitter = Submitter(world.engine, CELL, home=instance, directory=self.directory)
        self.neighbours = Neighbours(world.engine, self.directory, instance)
        self.delivery = Delivery(
            world.engine, self.links, self.submitter, self.listeners, self.neighbours, lambda: world.now_ms
        )

    async def noted(self) -> None:
        """Nobody waits any longer for the nodes' own words: the engine has heard what was written to them."""
        self.delivery.notes.tell_all()
        # What is asked next goes out behind it.
        await asyncio.sleep(0)

    async def put(self, **wanted: Any) -> str:
        """A job for en:zh, carried if it can be; its id."""
        ask = Ask("s1", "en", "zh", wanted=Wanted(**wanted))
        submitted = await self.delivery.place(ask, PLAIN, trace_id=TRACE)
        assert isinstance(submitted, Submitted), submitted
        return submitted.job_id

    async def join(self, node_id: str = "n1", **said: Any) -> Tape:
        """A node on a socket, ready, that serves en:zh."""
        told: dict[str, Any] = {
            "semantic_langs": ["en", "zh"],
            "nmt_pairs": [("en", "zh")],
            "max_concurrent_jobs": 2,
            "health": "ready",
            "advanced_features": TALKATIVE,
        }
        message = NodeRegister(node_id=node_id, **(told | said))
        words = registering_node(message)
        connection = new_connection(self.instance)
        answer = await register(self.world.engine, CELL, node_id, connection=connection, nonce=node_id, **words)
        assert isinstance(answer, Registered), answer
        tape = Tape()
        known = Known(
            node_id=node_id,
            epoch=answer.epoch,
            connection=connection,
            credential="",
            abilities=abilities_of(message),
            words=words,
            trace_id="the socket's",
            opened_ms=self.world.now_ms,
        )
        self.links.add(Link(tape, known))
        return tape
