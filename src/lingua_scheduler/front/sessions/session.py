"""A session that lives in this instance: its machine, its socket if it has one, and what is being done for it."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import LinguaError, OutcomeUnknown
from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.front.background import insist
from lingua_scheduler.front.sessions.effects import (
    Abandon,
    Announce,
    Close,
    Effect,
    Finish,
    Forget,
    Look,
    Number,
    Pong,
    Release,
    Save,
    Submit,
    Write,
)
from lingua_scheduler.front.sessions.manners import read_message
from lingua_scheduler.front.sessions.saver import Saver, SessionTaken
from lingua_scheduler.logs import get_log
from lingua_scheduler.protocol.errors import CloseCode, refusal_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.core.records import Event as Ended
    from lingua_scheduler.core.replay import Event
    from lingua_scheduler.front.sessions.connection import Connection
    from lingua_scheduler.front.sessions.saver import Change
    from lingua_scheduler.front.sessions.sessions import Sessions
    from lingua_scheduler.front.sessions.state import Saved
    from lingua_scheduler.front.sessions.talk import Talk
    from lingua_scheduler.protocol.session import MissingResult, SessionInit, TranslationResult

#: What must be done sooner or later is tried for so long while the engine is away. Everything it keeps goes by itself.
_PATIENCE_S: Final = 60.0
#: An answer waits for the engine as long as its client waits for the answer.
_FOREVER_S: Final = 86_400.0
#: How often it is seen, when an instance stops, whether what is under way has come to wait for a slot.
_OFTEN_S: Final = 0.1

log = get_log(__name__)


class Session:
    """Carries out what the machine says, and tells it what came of that."""

    def __init__(self, sessions: Sessions, talk: Talk, owner: str, *, create: bool, opened_ms: int) -> None:
        self.talk = talk
        self.id = talk.ledger.about.session_id
        self.owner = owner
        #: When its client's last connection was opened, by the engine's clock.
        self.opened_ms = opened_ms
        self.is_over = False
        self.connection: Connection | None = None
        self._sessions = sessions
        self._stage = sessions.stage
        self._background = sessions.background
        self._now = sessions.now
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at_ms = 0
        self._numbering: asyncio.Task[None] | None = None
        self._submitting: dict[int, asyncio.Task[None]] = {}
        #: Those of them whose jobs wait for a slot: the engine has them.
        self._waiting: set[int] = set()
        self._deliverer: asyncio.Task[None] | None = None
        self._is_wished = False
        self._saver = Saver(talk.save, talk.heard, self._put, create=create)

    # The client.

    def attach(self, connection: Connection) -> None:
        """The client is there, on this socket; an older one is told that it was replaced."""
        self._hang_up(CloseCode.REPLACED)
        self.connection = connection
        self._deliverer = asyncio.create_task(self._deliver(connection), name=f"answers of session {self.id}")

    def welcome(self, connection: Connection, token: str) -> None:
        """A new session, which has been saved."""
        self.attach(connection)
        self.carry(self.talk.welcome(token))

    def come_back(self, connection: Connection, init: SessionInit, token: str) -> None:
        """The client of this session has a new socket. `Invalid`: it wants what cannot be, and nothing has changed."""
        self.talk.going_on(init)
        self.attach(connection)
        self.carry(self.talk.back(init, token, self._now()))

    def detach(self, connection: Connection, *, has_all: bool) -> None:
        """A socket is closed, that of the client as it is now or an older one. `has_all`: nobody will come back."""
        if self.connection is not connection:
            return
        self.connection = None
        self._stop_delivering()
        if not self.is_over:
            self.carry(self.talk.give_up() if has_all else self.talk.away(self._now()))

    def hear(self, connection: Connection, data: str | bytes) -> None:
        """Something came. What comes from a socket that was replaced is nobody's word."""
        if self.connection is not connection or self.is_over:
            return
        try:
            message = read_message(data)
        except Invalid as invalid:
            self.carry(self.talk.unreadable(data, invalid, self._now()))
        else:
            self.carry(self.talk.hear(message, self._now()))

    # What the machine says.

    def carry(self, effects: Sequence[Effect]) -> None:
        """Do what it says, and come back when time alone would change something."""
        for effect in effects:
            self._carry_out(effect)
        self._arm()

    def _carry_out(self, effect: Effect) -> None:  # noqa: C901, PLR0912 - one line for each
        match effect:
            case Write():
                if self.connection is not None:
                    self.connection.write(effect.message, may_drop=effect.may_drop)
            case Pong():
                if self.connection is not None:
                    self.connection.pong(effect.payload)
            case Number():
                self._number(effect)
            case Submit():
                self._submit(effect)
            case Save():
                self._wish_saved()
            case Announce():
                self._announce(effect)
            case Abandon():
                self._abandon(effect)
            case Release():
                self._sessions.forget_job(effect.job_id)
                if not effect.is_foreign:
                    release = partial(self._stage.release, effect.job_id, effect.speech_ref)
                    self._spawn(insist(release, _PATIENCE_S), "releasing")
            case Look():
                self._spawn(self._look(effect), "looking")
            case Close():
                self._hang_up(effect.code, effect.detail)
            case Finish():
                if self.connection is not None:
                    self.connection.finish()
            case Forget():
                self._forget()

    def _spawn(self, work: object, what: str) -> None:
        self._background.spawn(work, f"{what} for session {self.id}")  # type: ignore[arg-type] # a coroutine

    def _arm(self) -> None:
        """One timer for all. One that rings too early is left as it is: nothing is due then, and it is set anew."""
        if self.is_over:
            self._disarm()
            return
        due_ms, now_ms = self.talk.due_ms, self._now()
        if self._timer is not None and self._rings_at_ms <= due_ms and now_ms < due_ms:
            return
        self._disarm()
        self._rings_at_ms = due_ms
        self._timer = asyncio.get_running_loop().call_later(max(0, due_ms - now_ms) / 1000, self._tick)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        self.carry(self.talk.tick(self._now()))

    # Utterances.

    def _number(self, number: Number) -> None:
        """One at a time: the machine asks for the next when it has this one."""
        self._numbering = asyncio.create_task(self._enter(number), name=f"numbering for session {self.id}")
        self._background.keep(self._numbering)

    async def _enter(self, number: Number) -> None:
        try:
            index = await self._stage.enter(self.talk.ledger.about, number, self.owner)
        except LinguaError as error:
            index = _not_accepted(error)
        if self.is_over:
            return
        if isinstance(index, Refusal) and index.code == "SESSION_TAKEN":
            self.replaced()
        elif isinstance(index, Refusal):
            self.carry(self.talk.not_numbered(index, self._now()))
        else:
            ledger = self.talk.ledger
            job_id = self._stage.new_job_id(ledger.about.principal, ledger.line.first)
            self.carry(self.talk.numbered(index, job_id, self._now()))

    def _submit(self, submit: Submit) -> None:
        self._sessions.know_job(submit.job_id, self, submit.index)
        task = asyncio.create_task(self._place(submit), name=f"placing {submit.index} of session {self.id}")
        self._submitting[submit.index] = task
        self._background.keep(task)
        task.add_done_callback(lambda _: self._not_submitting(submit.index))

    def _not_submitting(self, index: int) -> None:
        self._submitting.pop(index, None)
        self._waiting.discard(index)

    async def _place(self, submit: Submit) -> None:
        """Saved first: whoever goes on with this session elsewhere knows that it was said."""
        enters, waits = partial(self._in_time, self._now()), partial(self._busy, submit.index)
        try:
            await self._saver.save()
            placed = await self._stage.place(self.talk.ledger.about, submit, enters, waits)
        except SessionTaken:
            self.replaced()
            return
        except LinguaError as error:
            placed = _not_accepted(error)
            if isinstance(error, OutcomeUnknown):
                ends = self._stage.carry if self.is_over else self._stage.withdraw
                self._spawn(insist(partial(ends, submit.job_id), _PATIENCE_S), "settling what may have been placed")
        if self.is_over:
            # Whoever goes on with this session has seen the job, or will.
            return
        if isinstance(placed, Refusal):
            self._sessions.forget_job(submit.job_id)
            self.carry(self.talk.refused(submit.index, placed, self._now()))
        else:
            self.talk.ledger.found(submit.index, placed)
            self.carry(self.talk.placed(submit.index, self._now()))

    async def _in_time(self, said_ms: int) -> None:
        """Whoever goes on with this session elsewhere waits for what is being placed here, but not for long.

        What is late is placed only if nobody does: `SessionTaken`. The other announces it.
        """
        if self._now() - said_ms > self._sessions.rules.doubt_ms // 2:
            await self._saver.save()

    def _busy(self, index: int) -> None:
        """Nobody has room for a job of this session just now."""
        self._waiting.add(index)
        if not self.is_over:
            self.carry(self.talk.busy(index, self._now()))

    def _abandon(self, abandon: Abandon) -> None:
        task = self._submitting.get(abandon.index)
        if task is not None:
            task.cancel()
        self._spawn(self._cancel(task, abandon.job_id), "cancelling")

    async def _cancel(self, placing: asyncio.Task[None] | None, job_id: str) -> None:
        """A job that is being placed may exist by now, or not."""
        undo = self._stage.cancel
        if placing is not None:
            await asyncio.wait([placing])
            undo = self._stage.withdraw
        await insist(partial(undo, job_id), _PATIENCE_S)

    async def _look(self, look: Look) -> None:
        seen = await self._stage.look(look.job_id)
        if not self.is_over:
            self.talk.ledger.found(look.index, seen.job_id)
            self.carry(self.talk.seen(look.index, seen.state, seen.grace_until_ms, self._now()))

    async def job_ended(self, index: int, event: Ended) -> None:
        """The relay says that a job has ended. Only of one that went wrong it says why: how, is to be seen.

        If an engine that failed over knows nothing of that end, the job will have another.
        """
        state = (await self._stage.look(event.job)).state if event.detail else "FINISHED"
        if state in ENDS and not self.is_over:
            self.carry(self.talk.ended(index, state, self._now()))

    # Answers.

    def _announce(self, announce: Announce) -> None:
        if self.connection is not None:
            self.connection.announce(announce.events)
        else:
            self._wish_saved()

    async def _deliver(self, connection: Connection) -> None:
        try:
            is_finished = await connection.deliver(self._answers, self.id)
        except SessionTaken:
            self.replaced()
            return
        except LinguaError:
            trace_id = self.talk.ledger.about.trace_id
            log.exception("session", session_id=self.id, trace_id=trace_id, detail="its answers cannot be delivered")
            connection.close(CloseCode.INTERNAL, trace_id=trace_id)
            return
        if is_finished:
            connection.close(CloseCode.DONE)

    async def _answers(self, events: Sequence[Event]) -> list[TranslationResult | MissingResult]:
        """What goes out is known to whoever goes on with this session elsewhere, before anybody sees it."""
        await insist(self._saver.save, _FOREVER_S)
        if len(events) == 1:
            return [await self._answer(events[0])]
        return await asyncio.gather(*(self._answer(event) for event in events))

    async def _answer(self, event: Event) -> TranslationResult | MissingResult:
        about, sent = self.talk.ledger.about, self.talk.ledger.sent.get(event.index)
        way_ms = self.connection.way_ms if self.connection else None
        return await insist(lambda: self._stage.answer(about, event, sent, self._now(), way_ms), _FOREVER_S)

    # The state.

    async def _put(self, saved: Saved, change: Change | None, *, create: bool) -> Refusal | None:
        return await self._stage.save(saved, self.owner, change, create=create, opened_ms=self.opened_ms)

    async def save(self) -> None:
        """Save it now; what is broken is raised."""
        await self._saver.save()

    def _wish_saved(self) -> None:
        """It will be saved soon. However often that is wished, one task is at it."""
        if not self._is_wished:
            self._spawn(self._save_soon(), "saving")
        self._is_wished = True

    async def _save_soon(self) -> None:
        # Whatever is wished in this very tick is served by one save; what is wished later, by another.
        await asyncio.sleep(0)
        self._is_wished = False
        try:
            await insist(self._saver.save, _PATIENCE_S)
        except SessionTaken:
            self.replaced()

    async def still_ours(self) -> None:
        """Whether another has taken it over is seen by saving; then it is over here."""
        try:
            await self._saver.save()
        except SessionTaken:
            self.replaced()

    def recreate(self) -> None:
        """The engine came back empty: it gets everything again that is known here."""
        if not self.is_over:
            self._saver.lost()
            self.carry(self.talk.reopen(self._now()))

    def replaced(self) -> None:
        """Another connection goes on with this session: nothing that is said here counts any more.

        What is being placed is saved, and the other waits for it: it is placed all the same.
        """
        if not self.is_over:
            self._end()
            self._hang_up(CloseCode.REPLACED)

    def _forget(self) -> None:
        self._end()
        for task in self._submitting.values():
            task.cancel()
        self._spawn(insist(partial(self._stage.drop, self.id, self.owner), _PATIENCE_S), "forgetting")

    def _end(self) -> None:
        self.is_over = True
        self._sessions.remove(self)
        self._arm()

    def _hang_up(self, code: CloseCode, detail: str = "") -> None:
        """Close the client's socket. Its reader sees the end of it."""
        if self.connection is not None:
            self._stop_delivering()
            self.connection.close(code, detail, self.talk.ledger.about.trace_id)

    def _stop_delivering(self) -> None:
        if self._deliverer is not None and self._deliverer is not asyncio.current_task():
            self._deliverer.cancel()
        self._deliverer = None

    def _under_way(self) -> list[asyncio.Task[None]]:
        """What is being done for what was said, and not yet known to the engine."""
        numbering = self._numbering
        placing = [task for index, task in self._submitting.items() if index not in self._waiting]
        return [*([numbering] if numbering and not numbering.done() else []), *placing]

    async def leave(self, patience_s: float) -> None:
        """This instance stops: what was said is brought on its way, and the session can go on elsewhere.

        A job that waits for a slot goes on doing so in the engine; only nobody here waits for it.
        """
        if self.is_over:
            return
        self._hang_up(CloseCode.RESTART)
        self.connection = None  # What it says from now on would be saved by nobody: it says it again elsewhere.
        self.carry(self.talk.away(self._now()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while under_way := self._under_way():
                    await asyncio.wait(under_way, timeout=_OFTEN_S)
        with contextlib.suppress(LinguaError, SessionTaken):
            await self._saver.save()
        self._end()
        for index in self._waiting:
            self._submitting[index].cancel()


def _not_accepted(error: LinguaError) -> Refusal:
    """What broke, as the client is told. An utterance of which nobody knows whether it has its job is not accepted."""
    return refuse("SCHEDULER_DEPENDENCY_DOWN") if isinstance(error, OutcomeUnknown) else refusal_of(error)
