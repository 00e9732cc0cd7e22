"""Carrying jobs to their nodes: the assignment is written to the socket, or waits in the mailbox of a node without one.

Whoever could not be written to has not got the job: its slot is free again and the job goes to the next node, before
whoever submitted it hears anything.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.core.ids import cell_of
from lingua_scheduler.core.letter import Letter
from lingua_scheduler.core.meters import JobTimes
from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.flows.attempts import Delivered
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.deliver import deliver, delivering
from lingua_scheduler.flows.dispatch import Placed
from lingua_scheduler.flows.undeliver import undeliver
from lingua_scheduler.front.ask import Submitted
from lingua_scheduler.front.assignment import Cargo, cargo_of, frames_of, inlines_audio, job_assign
from lingua_scheduler.front.background import Background, insist
from lingua_scheduler.front.bells import Bells
from lingua_scheduler.front.durations import Durations
from lingua_scheduler.front.errands import Errands
from lingua_scheduler.front.fallback import tell_fallback
from lingua_scheduler.front.neighbours import POLLS
from lingua_scheduler.front.notes import Notes
from lingua_scheduler.front.recall import recall
from lingua_scheduler.front.tracing import Tracing
from lingua_scheduler.logs import get_log
from lingua_scheduler.protocol.errors import refusal_of
from lingua_scheduler.views.audio import read_audio
from lingua_scheduler.views.job import read_job
from lingua_scheduler.views.whereabouts import At, read_whereabouts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.front.ask import Ask, Enters
    from lingua_scheduler.front.assignment import Assignment, Errand
    from lingua_scheduler.front.bells import Bell
    from lingua_scheduler.front.neighbours import Neighbours
    from lingua_scheduler.front.nodes.links import Link, Links
    from lingua_scheduler.front.submit import Submitter
    from lingua_scheduler.protocol.node import JobAssign
    from lingua_scheduler.store.engine import Engine
    from lingua_scheduler.store.face import No

    Place = Placed | Delivered
    Told = Literal["here", "elsewhere"]

#: For so long the engine is told again of what is not under way any more, and of what a node was told.
_PATIENCE_S: Final = 5.0
_NOTE_PATIENCE_S: Final = 60.0
#: Where there are no spans.
_NOTHING: Final = contextlib.nullcontext()

log = get_log(__name__)


class Accepts(Protocol):
    """Sessions, here and elsewhere, as far as they hear of deliveries; and whoever waits at a mailbox elsewhere."""

    def accepted(self, errand: Errand) -> None: ...

    def mailed(self, node_id: str) -> None: ...


class Delivery:
    """The way from an attempt that has a node to the node that has the attempt."""

    def __init__(
        self,
        engine: Engine,
        links: Links,
        submitter: Submitter,
        sessions: Accepts,
        neighbours: Neighbours,
        now: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._links = links
        self._neighbours = neighbours
        self._submitter = submitter
        submitter.is_left = self._look_after
        self._sessions = sessions
        self._background = Background()
        self._mailboxes = Bells()
        self._now = now
        self.errands = Errands(now)
        #: What was written to nodes that will say themselves that they have it.
        self.notes = Notes(self._note_soon)
        #: How long it took from a caller's word to a node that has the job.
        self.durations = Durations()
        #: How those ended that were asked for here: placed, or by the code with which they were refused.
        self.outcomes: Counter[str] = Counter()
        #: Those that no node could take, by what kept most nodes from it.
        self.kept_away: Counter[str] = Counter()
        self.times = JobTimes()
        self.tracing = Tracing()
        #: Jobs that are being carried from here just now.
        self._under_way: dict[str, asyncio.Event] = {}
        #: Told of which job something must be in the outbox: whoever empties it need not wait for his next look.
        self.has_news: Callable[[str], None] = _nothing
        #: Told of a job that has its result, with what that put into the outbox. For so long it is ours to hand over;
        #: 0: it is not, but a relay's.
        self.has_result: Callable[[Event, str], None] = _nobody
        self.lease_ms = 0

    async def close(self, left_s: Callable[[float], float] = float) -> None:
        """Wait for what is under way for a moment, and give the rest up. `left_s` says what is left of that moment."""
        self.notes.tell_all()
        await self._background.close(left_s(1.0))

    def wake(self) -> None:
        """Whoever waits for something in a mailbox looks once more."""
        self._mailboxes.ring_all()

    def mailbox_bell(self, node_id: str) -> Bell:
        """Rings when something is put into the mailbox of a node without a socket: listen, look, wait."""
        return self._mailboxes.listening(node_id)

    def ring_mailbox(self, node_id: str) -> None:
        """Something may lie in a mailbox: another instance says so."""
        self._mailboxes.ring(node_id)

    async def place(
        self,
        ask: Ask,
        assignment: Assignment,
        audio: bytes | None = None,
        *,
        principal: str = "",
        request_id: str = "",
        trace_id: str = "",
        enters: Enters | None = None,
        new_id: str = "",
        waits: Callable[[], None] | None = None,
        parent: str | None = None,
    ) -> Submitted | Refusal:
        """Submit a job and carry it to its node. `audio`: what is stored under the assignment's own `audio_ref`.

        A job that was known already, or had to wait, is carried by others. One that could not be written to any node
        is answered as it is: it exists, and goes on as soon as a node has room. `parent`: the caller's span.
        """
        submission = self.tracing.submission(trace_id, parent, waits)
        began, era = perf_counter(), self._engine.era
        ask = msgspec.structs.replace(ask, body=assignment.text())
        untold: dict[str, tuple[Placed, Cargo, Link | None]] = {}

        def at_once(job_id: str, placed: Placed, index: int) -> None:
            cargo = Cargo(assignment, ask.session_id, index, trace_id, placed.deadline_at_ms, audio)
            if self._write(job_id, placed, cargo):
                if placed.acks:
                    self.notes.add(job_id, placed)
                else:
                    self._note_soon(job_id, placed)
            else:
                untold[job_id] = placed, cargo, self._links.get(placed.node_id)

        try:
            try:
                submitted = await self._submitter.submit(
                    ask,
                    principal=principal,
                    request_id=request_id,
                    trace_id=trace_id,
                    enters=enters,
                    at_once=at_once,
                    new_id=new_id,
                    waits=submission.waits,
                )
            except BaseException:
                # Whoever asked may ask again: its node must hear of it all the same.
                for job_id, (placed, _, _) in untold.items():
                    self.carry_soon(job_id, placed.attempt_id)
                raise
            submission.dispatched()
            if untold and isinstance(submitted, Submitted) and submitted.job_id in untold:
                _, cargo, known = untold[submitted.job_id]
                submitted = await self._carried(submitted, cargo, known, ask, request_id=request_id, new_id=new_id)
            if ask.wanted.preferred_node_id:
                self._look_for_fallback(ask.wanted.preferred_node_id, submitted)
            if self._engine.is_replicated and isinstance(submitted, Submitted):
                # The node has it by now; only the promise waits.
                await self._promise(submitted.job_id, ask, era, request_id=request_id, new_id=new_id)
        except BaseException as error:
            self.outcomes[_failure(error)] += 1
            raise
        self.durations.add((perf_counter() - began) * 1000)
        self.outcomes["placed" if isinstance(submitted, Submitted) else self._refused(submitted)] += 1
        submission.over(submitted)
        return submitted

    def _refused(self, refusal: Refusal) -> str:
        """How it is called; what kept most nodes away is counted."""
        if refusal.breakdown is not None and (reason := refusal.breakdown.mostly):
            self.kept_away[reason] += 1
        return refusal.code

    async def _promise(self, job_id: str, ask: Ask, era: int, *, request_id: str, new_id: str) -> None:
        """Until whoever asked may count on the job. If he does not hear that, he may ask for it again."""
        try:
            if era != self._engine.era:
                # Another server may serve by now. What that one knows of the job is what can be promised.
                era = self._engine.era
                await self._seek(job_id)
            await self._engine.assured(cell_of(job_id), era)
        except asyncio.CancelledError:
            if not (request_id or new_id):
                self._drop(job_id)
            raise
        except (DependencyDown, OutcomeUnknown) as doubt:
            again = "" if new_id else request_id or self._submitter.id_to_ask_again(job_id, ask)
            raise OutcomeUnknown(str(doubt), again) from doubt

    def _look_for_fallback(self, preferred_node_id: str, submitted: Submitted | Refusal) -> None:
        """Tell why a new job did not go where it was to go first, if so."""
        if isinstance(submitted, Refusal) or not submitted.is_new or submitted.placed.node_id == preferred_node_id:
            return
        job_id = submitted.job_id
        self._background.spawn(self._tell_fallback(job_id), f"telling why job {job_id} went elsewhere")

    async def _tell_fallback(self, job_id: str) -> None:
        job = await read_job(self._engine, job_id)
        if not isinstance(job, Refusal):
            tell_fallback(job)

    def insist(self, call: Callable[[], Awaitable[object]], name: str) -> None:
        """The engine is away, and must hear something when it is back."""
        self._background.spawn(insist(call, _PATIENCE_S), name)

    def _drop(self, job_id: str) -> None:
        """Nobody will ask for it again, and whoever asked cannot hear of it: it must not run."""
        self.insist(lambda: cancel(self._engine, job_id, "the caller is gone"), f"dropping job {job_id}")

    async def _carried(
        self, submitted: Submitted, cargo: Cargo, known: Link | None, ask: Ask, *, request_id: str, new_id: str
    ) -> Submitted:
        """A new job that its node was not told of at once: when it is with one, or there is none for it just now."""
        job_id, placed = submitted.job_id, submitted.placed
        try:
            at: Delivered | At | Refusal = await self.carry(job_id, placed, cargo, known)
            if isinstance(at, Refusal):
                at = await self._seek(job_id)
        except asyncio.CancelledError:
            # Whoever else knows it by its id, or by its request, may go on with it.
            if request_id or new_id:
                self.carry_soon(job_id, placed.attempt_id)
            else:
                self._drop(job_id)
            raise
        except (DependencyDown, OutcomeUnknown) as away:
            again = "" if new_id else request_id or self._submitter.id_to_ask_again(job_id, ask)
            raise OutcomeUnknown(f"job {job_id} exists, and the engine went away: {away}", again) from away
        return Submitted(job_id, Placed(at.state, at.node_id, at.epoch, at.attempt_id, at.acks, is_new=True))

    async def _seek(self, job_id: str) -> At:
        """Where a job is that others took on in the meantime."""
        seen = await read_whereabouts(self._engine, job_id)
        if isinstance(seen, At):
            return seen
        raise OutcomeUnknown(f"job {job_id} was placed, and is not there any more")

    async def carry_again(self, job_id: str, attempt_id: int, *, afresh: bool = False) -> None:
        """Carry a later attempt, or one that had waited, unless somebody here has done so or is about to.

        Whether somebody did who is gone is not known: a node that may come back keeps it. `afresh`: another instance
        believes that its node is here. If it is not, where it is must be asked.
        """
        while (under_way := self._under_way.get(job_id)) is not None:
            await under_way.wait()
        with self._carrying(job_id):
            job = await read_job(self._engine, job_id)
            if isinstance(job, Refusal) or (job.record.state, job.record.attempt) != ("RESERVED", attempt_id):
                return
            cargo = cargo_of(job)
            if cargo is None:
                log.error("deliver", job_id=job_id, reason="it has no assignment that could be carried")
                return
            record = job.record
            if afresh:
                self._neighbours.forget_holder(record.node, record.epoch)
            # The first choice of a job that had to wait; its others follow from how that went.
            if attempt_id == 1 and self.errands.get(job_id, record.node) is None:
                tell_fallback(job)
            at = Delivered(record.state, record.attempt, record.node, record.epoch, record.acks)
            await self._carry(job_id, at, cargo, self._links.get(at.node_id), unsure=True)

    def carry_soon(self, job_id: str, attempt_id: int) -> None:
        """Carry a later attempt at once, without waiting for the outbox to tell of it. If that fails, it does."""
        self._background.spawn(self.carry_again(job_id, attempt_id), f"carrying attempt {attempt_id} of job {job_id}")

    def _look_after(self, job_id: str) -> None:
        """Its node may have been chosen, and nobody has told it. If the engine is away, that waits until it is back."""
        self.insist(lambda: self.carry_again(job_id, 1), f"carrying job {job_id}, which nobody waited for")

    async def carry(self, job_id: str, at: Place, cargo: Cargo, known: Link | None) -> Delivered | Refusal:
        """Carry an attempt to its node, and if that fails the next one to the next: until one has it, or none can.

        `known`: the node's link here, when the engine said where the attempt is. `Refusal`: others have taken it on
        meanwhile, and know better where it is by now.
        """
        if (under_way := self._under_way.get(job_id)) is not None:
            await under_way.wait()
            return refuse("STALE_ATTEMPT")
        with self._carrying(job_id):
            return await self._carry(job_id, at, cargo, known)

    @contextlib.contextmanager
    def _carrying(self, job_id: str) -> Iterator[None]:
        over = self._under_way[job_id] = asyncio.Event()
        try:
            yield
        finally:
            del self._under_way[job_id]
            over.set()

    async def _carry(
        self, job_id: str, at: Place, cargo: Cargo, known: Link | None, *, unsure: bool = False
    ) -> Delivered | Refusal:
        while True:
            link = self._links.get(at.node_id)
            if link is not None and link is not known:
                # The node has come since, and did not name what it was not told; or something was read meanwhile. By
                # now its slot may be another's.
                if not await self._is_still(job_id, at):
                    return refuse("STALE_ATTEMPT")
                known = link
                continue
            if link is not None and _lacks_audio(cargo, link):
                audio = await read_audio(self._engine, cargo.assignment.audio_ref or "")
                if isinstance(audio, Refusal):
                    return await self._give_up(job_id, audio)
                cargo, known = msgspec.structs.replace(cargo, audio=audio.audio), None
                continue
            told = await self._tell(job_id, at, cargo)
            if told == "here":
                return await self._told(job_id, at)
            if told == "elsewhere":
                return Delivered(at.state, at.attempt_id, at.node_id, at.epoch, at.acks)
            if self._links.get(at.node_id) not in {None, link}:
                # It has come here while others were asked.
                continue
            moved = await undeliver(self._engine, job_id, at.attempt_id, at.node_id, at.epoch, unsure=unsure)
            if isinstance(moved, Refusal) or moved.state != "RESERVED" or moved.attempt_id == at.attempt_id:
                return moved
            at, known, unsure = moved, self._links.get(moved.node_id), False

    async def _is_still(self, job_id: str, at: Place) -> bool:
        """Whether an attempt waits to be written to its node."""
        seen = await read_whereabouts(self._engine, job_id)
        if not isinstance(seen, At):
            return False
        here = (seen.state, seen.node_id, seen.epoch, seen.attempt_id)
        return here == ("RESERVED", at.node_id, at.epoch, at.attempt_id)

    async def _tell(self, job_id: str, at: Place, cargo: Cargo) -> Told | None:
        """How the node hears of it: it was told here, or finds it in its mailbox; or whoever holds it tells it."""
        if self._write(job_id, at, cargo):
            return "here"
        link = self._links.get(at.node_id)
        if link is not None and link.epoch == at.epoch:
            return None
        if await self._neighbours.holder(at.node_id, at.epoch) == POLLS:
            self._has_told(cargo.errand(job_id, at.attempt_id, at.node_id))
            return "here"
        letter = Letter("carry", job_id, at.attempt_id, at.node_id, trace=cargo.trace_id)
        return "elsewhere" if await self._neighbours.tell_holder(at.node_id, at.epoch, letter) else None

    def _write(self, job_id: str, at: Place, cargo: Cargo) -> bool:
        """Write the assignment to the node's socket, if it has one here and all of it is at hand. Pauses nowhere."""
        link, errand = self._links.get(at.node_id), cargo.errand(job_id, at.attempt_id, at.node_id)
        if link is None or link.epoch != at.epoch or _lacks_audio(cargo, link):
            return False
        # Of one that was written here already, only the engine may not have heard.
        if self.errands.get(job_id, at.node_id) != errand:
            parent = self.tracing.parent(errand.trace_id, job_id) if self.tracing.is_on else None
            with self.tracing.during("deliver", errand.trace_id, job_id, **_told(errand)) if parent else _NOTHING:
                frames = frames_of(cargo.assignment, errand, cargo.audio or b"", link.abilities, parent)
                if not link.write_all(frames):
                    return False
            link.took(job_id, at.attempt_id)
            self._has_told(errand)
        return True

    def _has_told(self, errand: Errand) -> None:
        self.errands.add(errand)
        if errand.attempt_id == 1:
            self.times.told(errand.job_id, self._now())

    def recall_soon(self, cell: str, node_id: str) -> None:
        """A node came here with what it works on: what it says of that is passed on as if it had been told here."""
        recalling = recall(self._engine, self.errands, cell, node_id)
        self._background.spawn(recalling, f"recalling the jobs of node {node_id}")

    def _note_soon(self, job_id: str, at: Place) -> None:
        """The engine hears in this tick that the node was told. Nobody waits for that: the node has the job."""

        def noted(noting: asyncio.Future[Delivered | No]) -> None:
            if noting.cancelled() or noting.exception() is not None:
                self._note_later(job_id, at)
            else:
                self._noted(job_id, noting.result())

        delivering(self._engine, job_id, at.attempt_id, at.node_id, at.epoch).add_done_callback(noted)

    def _note_later(self, job_id: str, at: Place) -> None:
        """The engine is away just now. It hears it when it is back."""
        self._background.spawn(
            insist(lambda: self._note(job_id, at), _NOTE_PATIENCE_S), f"noting that job {job_id} was delivered"
        )

    async def _told(self, job_id: str, at: Place) -> Delivered | Refusal:
        """The engine hears that the node was told. If it is away just now it hears it later; the node has the job."""
        try:
            return await self._note(job_id, at)
        except (DependencyDown, OutcomeUnknown):
            self._note_later(job_id, at)
            return Delivered("RESERVED", at.attempt_id, at.node_id, at.epoch, at.acks)

    async def _note(self, job_id: str, at: Place) -> Delivered | Refusal:
        told = await deliver(self._engine, job_id, at.attempt_id, at.node_id, at.epoch)
        if self._links.get(at.node_id) is None:
            self._mailboxes.ring(at.node_id)
            self._sessions.mailed(at.node_id)
        self._noted(job_id, told)
        return told

    def _noted(self, job_id: str, told: Delivered | No | Refusal) -> None:
        if isinstance(told, Delivered) and told.state == "ACCEPTED":
            self.accepted(job_id, told.node_id)

    def accepted(self, job_id: str, node_id: str) -> None:
        """The node has taken the job: it said so, or it never does and was written to."""
        errand = self.errands.get(job_id, node_id)
        if errand is not None:
            self.notes.heard(job_id, errand.attempt_id, node_id)
            self._sessions.accepted(errand)

    def ending(self, name: str, job_id: str, attempt_id: int, node_id: str) -> AbstractContextManager[None]:
        """The end of an attempt as a span, where there are any, and if the job is known here."""
        errand = self.errands.get(job_id, node_id) if self.tracing.is_on else None
        if errand is None:
            return _NOTHING
        return self.tracing.during(name, errand.trace_id, job_id, node_id=node_id, attempt=attempt_id)

    def over(self, job_id: str, attempt_id: int, node_id: str) -> None:
        """A node has nothing more to say of an attempt. What follows from that is in the outbox."""
        self._let_go(job_id, attempt_id, node_id)
        self.has_news(job_id)

    def finished(self, event: Event, result: str) -> None:
        """The same of one that ended its job, of which nobody else tells."""
        self._let_go(event.job, event.attempt, event.node)
        self.has_result(event, result)

    def _let_go(self, job_id: str, attempt_id: int, node_id: str) -> None:
        self.notes.heard(job_id, attempt_id, node_id)
        self.errands.drop(job_id, attempt_id, node_id)
        if (link := self._links.get(node_id)) is not None:
            link.let_go(job_id, attempt_id)

    async def _give_up(self, job_id: str, refusal: Refusal) -> Refusal:
        """Nobody can do a job whose audio is gone."""
        log.warning("cancel", job_id=job_id, reason=refusal.detail)
        await cancel(self._engine, job_id, "its audio is gone")
        return refusal

    async def assignment_of(self, job_id: str, attempt_id: int) -> JobAssign | Refusal:
        """What a node that polls is told of an attempt."""
        job = await read_job(self._engine, job_id)
        if isinstance(job, Refusal):
            return job
        cargo = cargo_of(job)
        if cargo is None or job.record.attempt != attempt_id or job.record.ended_at_ms:
            return refuse("STALE_ATTEMPT")
        audio = b""
        if cargo.assignment.has_own_audio:
            stored = await read_audio(self._engine, cargo.assignment.audio_ref or "")
            if isinstance(stored, Refusal):
                return await self._give_up(job_id, stored)
            audio = stored.audio
        errand = cargo.errand(job_id, attempt_id, job.record.node)
        parent = self.tracing.parent(errand.trace_id, job_id)
        return job_assign(cargo.assignment, errand, audio, traceparent=parent)


def _failure(error: BaseException) -> str:
    """As what it counts that nobody could be told whether a job was placed."""
    if isinstance(error, asyncio.CancelledError):
        return "CANCELLED"
    return refusal_of(error).code if isinstance(error, LinguaError) else "INTERNAL"


def _told(errand: Errand) -> dict[str, object]:
    """What a span says of an attempt."""
    return {"node_id": errand.node_id, "attempt": errand.attempt_id}


def _nothing(_: str) -> None:
    pass


def _nobody(_event: Event, _result: str) -> None:
    pass


def _lacks_audio(cargo: Cargo, link: Link) -> bool:
    assignment = cargo.assignment
    return assignment.has_own_audio and cargo.audio is None and inlines_audio(assignment, link.abilities)
