"""What the relayer brings out of the outbox, and who must hear of it."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from lingua_scheduler.core.letter import Letter
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.front.bells import Bells
from lingua_scheduler.front.guests import tell_other_cell
from lingua_scheduler.logs import get_log
from lingua_scheduler.protocol.errors import CloseCode
from lingua_scheduler.views.job import read_job
from lingua_scheduler.views.node import read_node

if TYPE_CHECKING:
    import asyncio

    from lingua_scheduler.core.records import Event, Ticket
    from lingua_scheduler.front.delivery import Delivery
    from lingua_scheduler.front.directory import Directory
    from lingua_scheduler.front.neighbours import Neighbours
    from lingua_scheduler.front.nodes.links import Links
    from lingua_scheduler.store.engine import Engine
    from lingua_scheduler.views.job import Job

#: Whoever waits for the end of a job looks for himself so often: another instance may have heard of it.
_LOOK_MS: Final = 1_000

log = get_log(__name__)


class Finished(msgspec.Struct, frozen=True):
    """How a job ended well, by the word of its node that the engine has taken."""

    attempt_id: int
    node_id: str
    #: As it is stored.
    result: str


class Ears(Protocol):
    """Sessions, as far as they hear what becomes of their jobs."""

    def knows(self, job_id: str) -> bool: ...

    def has_moved(self, job_id: str) -> bool: ...

    def adopt_ended(self, ticket: Ticket) -> None: ...

    async def ended(self, event: Event) -> None: ...

    async def refused(self, event: Event) -> None: ...


class Hearing:
    """Hands every event to whom it concerns. It bears to be called twice with the same one."""

    def __init__(
        self,
        engine: Engine,
        directory: Directory,
        links: Links,
        delivery: Delivery,
        sessions: Ears,
        neighbours: Neighbours,
    ) -> None:
        self._engine = engine
        self._directory = directory
        self._links = links
        self._delivery = delivery
        self._sessions = sessions
        self._neighbours = neighbours
        self._ends = Bells()

    async def hear(self, event: Event) -> None:
        """Hand an event over. What raises comes back."""
        match event.kind:
            case "reserved":
                await self._delivery.carry_again(event.job, event.attempt)
                if event.attempt == 1 and not self._neighbours.is_at_home(event.job):
                    # It has waited, and somebody with it.
                    await self._neighbours.tell_home(event)
            case "fenced":
                await self.stop(event)
            case "ended" | "refused":
                await self.hear_end(event)
                if event.kind == "ended":
                    self._delivery.times.ended(event.job, event.at_ms)
            case "lost" | "cut_off":
                await self.hang_up(event)
            case "let_go" | "guest_lost":
                await tell_other_cell(self._engine, event)
                self._delivery.has_news(event.job)
            case "mass_silence":
                reason = f"silent at once, and {event.detail} are heard: nobody is given up"
                log.warning("mass_silence", number=event.attempt, reason=reason)
            case "forgiven":
                detail = "its slot is free again"
                reason = "it did not say whether it stopped"
                log.warning("forgiven", node_id=event.node, job_id=event.job, reason=reason, detail=detail)
            case _:
                log.error("hear", kind=event.kind, reason="nobody knows what to do with it")

    async def hear_end(self, event: Event, *, by_letter: bool = False) -> None:
        """Tell whoever waits for the end of a job; also elsewhere, but for those who wrote it to us."""
        self._ends.ring(event.job)
        if event.kind == "ended":
            self._delivery.errands.drop(event.job, event.attempt)
            await self._sessions.ended(event)
        else:
            await self._sessions.refused(event)
        if not self._sessions.knows(event.job):
            await self._pass_on(event, by_letter=by_letter)

    async def _pass_on(self, event: Event, *, by_letter: bool) -> None:
        """Tell another instance, if it is there that somebody may wait: where it was made, or where its session is.

        A session that is here, and was not told that the job is on its way, is told so now.
        """
        is_at_home = self._neighbours.is_at_home(event.job)
        ticket: Ticket | None = None
        if not (is_at_home or by_letter):
            ticket = await self._neighbours.tell_home(event)
        elif not is_at_home or self._sessions.has_moved(event.job):
            ticket = await self._neighbours.tell_session(event)
        if ticket is not None and event.kind == "ended":
            self._sessions.adopt_ended(ticket)

    async def stop(self, event: Event) -> None:
        """Whatever epoch the node has by now: the same process may still be at work."""
        self._delivery.errands.drop(event.job, event.attempt)
        if self._links.get(event.node) is None:
            letter = Letter("fenced", event.job, event.attempt, event.node, detail=event.detail)
            await self._neighbours.tell_holder(event.node, "", letter)
            return
        reason, trace_id = await self._why_fenced(event)
        link = self._links.get(event.node)
        if link is not None:
            link.cancel(event.job, event.attempt, reason, trace_id)

    async def _why_fenced(self, event: Event) -> tuple[str, str | None]:
        """Why the node must stop (of a job that was cancelled, what its caller said), and the job's trace."""
        job = await read_job(self._engine, event.job)
        if isinstance(job, Refusal):
            return event.detail, None
        said = job.record.past.reason if event.detail == "cancelled" else ""
        return said or event.detail, job.ticket.trace

    async def hang_up(self, event: Event) -> None:
        """A node that is still given up although its socket is open must register anew; it does so on a new one."""
        link = self._links.get(event.node)
        if link is None:
            letter = Letter(event.kind, node=event.node, detail=event.epoch)
            await self._neighbours.tell_holder(event.node, event.epoch, letter)
        if link is None or link.epoch != event.epoch:
            return
        node = await self._directory.at_home(event.node, lambda cell: read_node(self._engine, cell, event.node))
        if isinstance(node, Refusal) or not (node.record.lost_at_ms or node.record.cut_off):
            return
        why = "it was silent for too long" if node.record.lost_at_ms else "it did not confirm that it stopped a job"
        log.warning("hang_up", node_id=event.node, reason=why, detail="it must register again")
        link.hang_up(CloseCode.TIMEOUT, f"register again: {why}")

    def wake(self) -> None:
        """Whoever waits for an end looks once more."""
        self._ends.ring_all()

    def finished(self, event: Event, result: str) -> bool:
        """A job has its result: whoever waits for it here need not ask the engine. Whether nobody else must hear it."""
        job_id = event.job
        self._ends.ring(job_id, Finished(event.attempt, event.node, result))
        sessions = self._sessions
        if sessions.knows(job_id) or sessions.has_moved(job_id) or not self._neighbours.is_at_home(job_id):
            return False
        self._delivery.times.ended(job_id, event.at_ms)
        return True

    async def wait_end(self, job_id: str, wait_ms: int, stop: asyncio.Event | None = None) -> Job | Refusal:
        """The job, as soon as it has ended, or as it is after so long. Nobody waits once `stop` is set."""
        found = await self.wait_result(job_id, wait_ms, stop)
        return await read_job(self._engine, job_id) if isinstance(found, Finished) else found

    async def wait_result(
        self, job_id: str, wait_ms: int, stop: asyncio.Event | None = None
    ) -> Finished | Job | Refusal:
        """The same, but of a job whose result is told here only that."""
        until = monotonic() + wait_ms / 1000
        with self._ends.listening(job_id) as bell:
            # One that was carried from here, and has not been heard of since, has not ended.
            must_look = not self._delivery.errands.has(job_id)
            while True:
                left_ms = int((until - monotonic()) * 1000)
                stopped = left_ms <= 0 or (stop is not None and stop.is_set())
                if must_look or stopped:
                    job = await read_job(self._engine, job_id)
                    if isinstance(job, Refusal) or job.record.ended_at_ms or stopped:
                        return job
                must_look = True
                await bell.wait(min(left_ms, _LOOK_MS))
                if isinstance(bell.news, Finished):
                    return bell.news
