"""The sessions that live in this instance, and what they hear of their jobs."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Final

from uuid_utils import uuid7

from lingua_scheduler.core.ids import name_of
from lingua_scheduler.core.owner import new_connection
from lingua_scheduler.core.records import Given
from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.core.traces import trace_in
from lingua_scheduler.front.background import Background
from lingua_scheduler.front.sessions.backstage import Backstage
from lingua_scheduler.front.sessions.rules import rules_of
from lingua_scheduler.front.sessions.said import insisting
from lingua_scheduler.front.sessions.session import Session
from lingua_scheduler.front.sessions.state import About, hash_of, is_token, new_token
from lingua_scheduler.front.sessions.talk import Talk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lingua_scheduler.core.records import Event, Ticket
    from lingua_scheduler.front.assignment import Errand
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.sessions.opening import Begin, Resume
    from lingua_scheduler.front.sessions.rules import SessionRules
    from lingua_scheduler.protocol.node import NodeAsrPartial

#: How long what is under way may take when this instance stops.
_LEAVE_S: Final = 2.0
#: So many jobs of sessions that are elsewhere are remembered.
_MAX_MOVED: Final = 10_000


def _new_id() -> str:
    return secrets.token_hex(16)


class Sessions:
    """By their id, and by the jobs of their utterances."""

    def __init__(self, desk: Desk, rules: SessionRules | None = None, now: Callable[[], int] | None = None) -> None:
        self.rules = rules or rules_of(desk.settings)
        self.stage = Backstage(desk, self.rules)
        self.background = Background()
        self.now = now or desk.clock
        self._instance_id = desk.instance_id
        self._by_id: dict[str, Session] = {}
        #: By the name that a job has in whichever cell.
        self._by_job: dict[str, tuple[Session, int]] = {}
        #: Jobs of sessions that are not here any more. Another instance may go on with them, and is told what is heard.
        self._moved: dict[str, None] = {}
        #: Sessions that are just being taken over from elsewhere, and what is submitted for them meanwhile.
        self._coming: list[tuple[str, list[Given]]] = []
        #: Ids go up with time: jobs with lower names than this were made before this process began.
        self._began = str(uuid7())

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, session_id: str) -> Session | None:
        """The session, if it lives here."""
        return self._by_id.get(session_id)

    def is_here(self, session_id: str, owner: str = "") -> bool:
        """Whether it lives here. `owner`: the connection that has it, by the word of the engine, if that is known."""
        session = self._by_id.get(session_id)
        return session is not None and owner in {"", session.owner}

    # Beginning, and going on.

    async def begin(
        self, begin: Begin, principal: str, client: str, trace_id: str, opened_ms: int = 0
    ) -> tuple[Session, str] | Refusal:
        """A new session, saved, and its token. `Refusal`: there are too many, or the code stands for no node.

        `opened_ms`: when its client's connection was opened, by the engine's clock.
        """
        init, paired = begin.init, ""
        admitted = await self.stage.admits(principal)
        if isinstance(admitted, Refusal):
            return admitted
        if begin.pairing_code:
            found = await self.stage.paired(begin.pairing_code, principal, client)
            if isinstance(found, Refusal):
                return found
            paired = found
        session_id = f"s-{uuid7()}"
        token = new_token(session_id)
        about = About(
            session_id=session_id,
            principal=principal,
            token_hash=hash_of(token),
            trace_id=init.trace_id or trace_in(init.traceparent) or trace_id,
            init=insisting(init, paired),
            agreed=begin.agreed,
            paired_node_id=paired,
        )
        talk = Talk.begin(self.rules, about, self.now(), _new_id)
        session = Session(self, talk, new_connection(self._instance_id), create=True, opened_ms=opened_ms)
        await session.save()
        self._add(session)
        return session, token

    async def resume(self, resume: Resume, principal: str, opened_ms: int = 0) -> Session | Refusal | None:
        """The session that a token belongs to, here or saved by another; None: there is none, or not for him.

        `Refusal`: its client has a connection that was opened later than this one, and speaks by that.
        """
        known = self._by_id.get(resume.session_id)
        if known is not None:
            about = known.talk.ledger.about
            if about.principal != principal or not is_token(resume.token, about.token_hash):
                return None
            if opened_ms < known.opened_ms <= self.now():
                return refuse("SESSION_TAKEN")
            known.opened_ms = opened_ms
            # Another instance may have it by now: then this one ends, and it is taken back from there.
            await known.still_ours()
            if not known.is_over:
                return known
        coming: tuple[str, list[Given]] = (resume.session_id, [])
        self._coming.append(coming)
        try:
            return await self._take(resume, principal, opened_ms, coming[1])
        finally:
            self._coming = [other for other in self._coming if other is not coming]

    async def _take(
        self, resume: Resume, principal: str, opened_ms: int, coming: list[Given]
    ) -> Session | Refusal | None:
        owner = new_connection(self._instance_id)
        taken = await self.stage.take(resume.session_id, owner, principal, hash_of(resume.token), opened_ms)
        if taken is None or isinstance(taken, Refusal):
            return taken if taken is not None and taken.code == "SESSION_TAKEN" else None
        # From here on nothing is waited for: whoever takes the session next finds it here.
        saved, beside = taken
        talk = Talk.load(self.rules, saved, self.now(), _new_id, beside.heard)
        session = Session(self, talk, owner, create=False, opened_ms=opened_ms)
        self._add(session)
        telling = self.stage.tell_last_owner(session.id, beside.last_owner)
        self.background.spawn(telling, f"telling who had session {session.id}")
        for index, sent in saved.sent.items():
            if sent.job_id:
                self.know_job(sent.job_id, session, index)
        # What came over HTTP while nobody had it; most of it was known to whoever had it before.
        for one in {one.utterance: one for one in (*beside.given, *coming)}.values():
            self.adopt_late(session.id, one)
        # From now on its time passes here, whether or not its client is welcome.
        session.carry(())
        return session

    def _add(self, session: Session) -> None:
        older = self._by_id.get(session.id)
        if older is not None:
            older.replaced()
        self._by_id[session.id] = session

    def remove(self, session: Session) -> None:
        """It is over, or lives elsewhere."""
        if self._by_id.get(session.id) is session:
            del self._by_id[session.id]
        for sent in session.talk.ledger.sent.values():
            if self._by_job.get(name_of(sent.job_id), (None, 0))[0] is session:
                del self._by_job[name_of(sent.job_id)]
                self.is_elsewhere(sent.job_id)

    def is_elsewhere(self, job_id: str) -> None:
        """The session of this job is not here."""
        self._moved[name_of(job_id)] = None
        while len(self._moved) > _MAX_MOVED:
            del self._moved[next(iter(self._moved))]

    async def taken(self, session_id: str, owner: str) -> None:
        """Another instance says that it goes on with a session that this connection had. The engine knows."""
        session = self._by_id.get(session_id)
        if session is not None and session.owner == owner:
            await session.still_ours()

    # Jobs.

    def know_job(self, job_id: str, session: Session, index: int) -> None:
        """A session waits for this job, which may not exist yet."""
        self._by_job[name_of(job_id)] = (session, index)

    def knows(self, job_id: str) -> bool:
        """Whether a session here waits for a job."""
        return name_of(job_id) in self._by_job

    def has_moved(self, job_id: str) -> bool:
        """Whether a session waited for it here that may live elsewhere by now.

        If it was made before this process began, it was by another that had its name, and whose sessions nobody knows.
        """
        return name_of(job_id) in self._moved or name_of(job_id) < self._began

    def forget_job(self, job_id: str) -> None:
        """Nobody waits for it any more."""
        self._by_job.pop(name_of(job_id), None)

    def next_index(self, session_id: str) -> int:
        """No number below this one is left in a session that may live here, as far as is known here."""
        session = self._by_id.get(session_id)
        return 0 if session is None else session.talk.ledger.next_index

    def adopt(
        self, session_id: str, index: int, job_id: str, trace_id: str, timeout_ms: int, owner: str = ""
    ) -> Refusal | None:
        """Somebody submits a job for a session that may live here: its answer is told there too, in its turn.

        From the moment on in which it has its number. How it goes on is told by one of the next three. `Refusal`: it
        cannot have its turn there.

        `owner`: the connection that has the session, by the word of the engine, if that is known. If that is another
        than the one that has it here, it went on elsewhere and nobody here has heard of it: it finds that out now.
        """
        for taken_id, coming in self._coming:
            if taken_id == session_id:
                coming.append(Given(index, job_id, trace_id, timeout_ms))
        session = self._by_id.get(session_id)
        if session is None:
            return None
        if owner not in {"", session.owner}:
            self.background.spawn(session.still_ours(), f"looking who has session {session_id}")
            return None
        now_ms = self.now()
        effects = session.talk.ledger.adopt(index, job_id, trace_id, now_ms + timeout_ms, now_ms)
        if isinstance(effects, Refusal):
            return effects
        self.know_job(job_id, session, index)
        session.carry(effects)
        return None

    def adopt_late(self, session_id: str, given: Given) -> Refusal | None:
        """The same for a job that was numbered a while ago or elsewhere, so nobody here sees what becomes of it.

        It is looked at. `Refusal`: it has its turn there already, had it, or cannot have it any more.
        """
        index, job_id = given.utterance, given.job
        refusal = self.adopt(session_id, index, job_id, given.trace, given.timeout_ms)
        if refusal is None:
            self.doubt(session_id, index, job_id)
        return refusal

    def adopt_ended(self, ticket: Ticket) -> None:
        """A job has ended of which its session, which may live here, knows nothing: whoever should have told could not.

        One of its own that it does not know any more has no turn: so it is with all whose turn is past.
        """
        self.adopt_late(ticket.session, Given(ticket.utterance, ticket.job, ticket.trace, ticket.timeout_ms))

    def placed(self, session_id: str, index: int, job_id: str) -> None:
        """A job that was adopted has been placed."""
        session = self._adopter(session_id, index, job_id)
        if session is not None:
            session.talk.ledger.found(index, job_id)
            session.carry(session.talk.placed(index, self.now()))

    def withdraw(self, session_id: str, index: int, job_id: str) -> None:
        """A job that was adopted has been refused, or never was: nobody here waits for it."""
        session = self._adopter(session_id, index, job_id)
        if session is not None:
            session.carry(session.talk.withdraw(index, self.now()))

    def doubt(self, session_id: str, index: int, job_id: str) -> None:
        """Nobody knows whether a job that was adopted was placed."""
        session = self._adopter(session_id, index, job_id)
        if session is not None:
            session.carry(session.talk.doubt(index, self.now()))

    def _adopter(self, session_id: str, index: int, job_id: str) -> Session | None:
        """The session that waits for this job of somebody else."""
        session = self._by_id.get(session_id)
        return session if session is not None and session.talk.ledger.has_adopted(index, job_id) else None

    async def ended(self, event: Event) -> None:
        """A job has ended."""
        known = self._by_job.get(name_of(event.job))
        if known is not None:
            session, index = known
            await session.job_ended(index, event)

    async def refused(self, event: Event) -> None:
        """A job has waited in vain, and is gone. Whoever is still placing it is told better by its submitter."""
        known = self._by_job.get(name_of(event.job))
        if known is not None and not known[0].talk.ledger.is_being_placed(known[1]):
            session, index = known
            session.carry(session.talk.in_vain(index, self.now()))

    def accepted(self, errand: Errand) -> None:
        """A node has a job, whichever session it belongs to."""
        session = self._by_id.get(errand.session_id)
        if session is not None:
            session.carry(session.talk.ledger.accepted(errand, self.now()))

    def partial(self, errand: Errand, message: NodeAsrPartial) -> None:
        """What a node has understood so far of a job that it holds."""
        session = self._by_id.get(errand.session_id)
        if session is not None:
            session.carry(session.talk.ledger.partial(errand, message, self.now()))

    # The engine, and the end.

    def reopen(self) -> None:
        """The engine came back empty: every session is saved again, and what is lost is announced."""
        for session in self:
            session.recreate()

    async def close(self, left_s: Callable[[float], float] = float) -> None:
        """This instance stops: no client is heard any more, and the sessions can go on elsewhere.

        The nodes are still needed for what was said last: their sockets are closed after this. `left_s` says how
        much is left of the time that is wanted.
        """
        await asyncio.gather(*(session.leave(left_s(_LEAVE_S)) for session in self))
        await self.background.close(left_s(_LEAVE_S))
