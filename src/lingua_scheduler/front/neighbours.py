"""The other instances: who holds a node's socket, where a job's end is waited for, and how they are told.

What is remembered here of others is only a hint. A letter that comes to the wrong instance is sent on from there, by
what the engine says; what never arrives is seen by looking: a job whose node was not told goes to another when its
node does not accept it, and a session looks at the jobs that it waits for.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.core.letter import Letter
from lingua_scheduler.core.owner import instance_of, mark_in, mark_of
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.post import post
from lingua_scheduler.logs import get_log
from lingua_scheduler.views.instances import read_directory
from lingua_scheduler.views.job import read_job
from lingua_scheduler.views.node import read_node
from lingua_scheduler.views.session import read_session

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingua_scheduler.core.records import Event, Ticket
    from lingua_scheduler.front.directory import Directory
    from lingua_scheduler.store.engine import Engine

#: A node without a socket: it fetches its work itself, here or anywhere.
POLLS: Final = ""
#: So many holders of nodes are remembered, and for so long.
_MAX_HOLDERS: Final = 100_000
_HOLDS_S: Final = 10.0
#: Who is there is asked anew at most so often, however many jobs have a home that nobody knows.
_ASK_AGAIN_S: Final = 1.0

log = get_log(__name__)


class Neighbours:
    """As one instance knows them."""

    def __init__(self, engine: Engine, directory: Directory, instance_id: str) -> None:
        self._engine = engine
        self._directory = directory
        self.instance_id = instance_id
        self._mark = mark_of(instance_id)
        #: Who was seen to be there, by the mark of his jobs.
        self._by_mark: dict[str, str] = {}
        self._asked_s = -_ASK_AGAIN_S
        #: Which instance holds the socket of which node, of which epoch; and until when that is believed.
        self._holders: dict[tuple[str, str], tuple[str, float]] = {}
        #: How often somebody was forgotten: who was asked for before that may be known from before.
        self._forgotten = 0

    def know(self, instances: Iterable[str]) -> None:
        """These are there."""
        self._by_mark = {mark_of(one): one for one in instances}

    # Nodes.

    async def holder(self, node_id: str, epoch: str = "") -> str | None:
        """The instance that holds the node's socket, `POLLS` if it has none; None: nobody can reach it by now.

        An epoch is that of the node as it is meant; "" means whatever it is by now.
        """
        clock = asyncio.get_running_loop().time
        known, until_s = self._holders.get((node_id, epoch), ("", 0.0))
        if clock() < until_s:
            return known
        forgotten = self._forgotten
        node = await self._directory.at_home(node_id, lambda cell: read_node(self._engine, cell, node_id))
        if isinstance(node, Refusal) or epoch not in {"", node.record.epoch}:
            return None
        connection = node.profile.connection
        found = instance_of(connection)
        if connection and not found:
            return None
        if found == POLLS:
            # It may take a socket anywhere, and nobody here would hear of that.
            return POLLS
        if len(self._holders) >= _MAX_HOLDERS:
            self._holders.clear()
        if forgotten == self._forgotten:
            self._holders[node_id, epoch] = found, clock() + _HOLDS_S
        return found

    def forget_holder(self, node_id: str, epoch: str) -> None:
        """The node may have moved: next time the engine is asked."""
        self._holders.pop((node_id, epoch), None)
        self._forgotten += 1

    def has_moved(self, node_id: str, epoch: str) -> None:
        """The node has another connection than it had, wherever that is."""
        for known in (epoch, ""):
            self.forget_holder(node_id, known)

    async def tell_holder(self, node_id: str, epoch: str, letter: Letter) -> bool:
        """Write to the instance that holds the node's socket. False: that is this one or nobody, or nobody reads it."""
        was_known = (node_id, epoch) in self._holders
        holder = await self.holder(node_id, epoch)
        if holder and holder != self.instance_id and await self.tell(holder, letter):
            return True
        self.forget_holder(node_id, epoch)
        # What was remembered may be old: the node is not to blame for that.
        return was_known and await self.tell_holder(node_id, epoch, letter)

    # Jobs and their sessions.

    def is_at_home(self, job_id: str) -> bool:
        """Whether a job was made here: if anybody waits for it, then here, unless he has moved."""
        return mark_in(job_id) == self._mark

    async def tell_home(self, event: Event) -> Ticket | None:
        """Write to whoever may wait for a job that was made elsewhere how that goes on; else as `tell_session`."""
        home = await self._home_of(event.job)
        if home is None or not await self.tell(home, _letter_of(event)):
            return await self.tell_session(event)
        return None

    async def tell_session(self, event: Event) -> Ticket | None:
        """Write to whoever has the job's session by now; what the job was made with, if that is this instance.

        If nobody has, whoever goes on with it will look.
        """
        job = await read_job(self._engine, event.job)
        if isinstance(job, Refusal):
            return None
        is_here = await self.tell_session_of(_letter_of(event), job.ticket.session)
        return job.ticket if is_here else None

    async def tell_session_of(self, letter: Letter, session_id: str = "") -> bool:
        """Write to whoever has this session, which the letter may name, unless that is this instance: whether it is."""
        session = await read_session(self._engine, session_id or letter.session)
        owner = "" if isinstance(session, Refusal) else instance_of(session.owner)
        if owner not in {"", self.instance_id}:
            await self.tell(owner, letter)
        return owner == self.instance_id

    async def tell_owner(self, session_id: str, owner: str) -> None:
        """A session was taken over from this connection: who holds that hangs up."""
        await self._hint(instance_of(owner), Letter("taken", session=session_id, detail=owner))

    async def tell_replaced(self, node_id: str, connection: str) -> None:
        """The same for a node that came back here."""
        await self._hint(instance_of(connection), Letter("replaced", node=node_id, detail=connection))

    async def tell_orphaned(self, instance_id: str) -> None:
        """Its nodes were handed over because it was gone. If it is there by now, it was not, and takes them back.

        If it is not there yet, it comes back after this, and takes them in as whoever was taken for gone does.
        """
        await self._hint(instance_id, Letter("orphaned"))

    async def _hint(self, instance_id: str, letter: Letter) -> None:
        """Write to another instance what it would find out by itself, only later."""
        if instance_id not in {"", self.instance_id}:
            with contextlib.suppress(LinguaError):
                await self.tell(instance_id, letter)

    async def _home_of(self, job_id: str) -> str | None:
        mark, now_s = mark_in(job_id), asyncio.get_running_loop().time()
        if mark not in self._by_mark and now_s >= self._asked_s + _ASK_AGAIN_S:
            self._asked_s = now_s
            self.know(instance for instance, _ in (await read_directory(self._engine)).beats)
        return self._by_mark.get(mark)

    async def tell(self, instance_id: str, letter: Letter) -> bool:
        """Whether the letter lies in that instance's inbox."""
        sent = await post(self._engine, instance_id, letter)
        if isinstance(sent, Refusal):
            log.info("post", instance_id=instance_id, kind=letter.kind, subject=letter.about, reason=sent.code)
            return False
        return True


def _letter_of(event: Event) -> Letter:
    return Letter(event.kind, event.job, event.attempt, event.node, detail=event.detail)
