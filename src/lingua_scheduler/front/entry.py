"""The way of a job into its session: whether it may come, its number, and the session that waits for it meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING

from lingua_scheduler.core.audio_ref import is_own_ref
from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown, ScriptFailed
from lingua_scheduler.core.ids import name_of
from lingua_scheduler.core.letter import Letter
from lingua_scheduler.core.owner import instance_of
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.enter_session import Coming, Entered
from lingua_scheduler.flows.return_number import return_number
from lingua_scheduler.front.audio import keep_for_job

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from lingua_scheduler.core.limits import Limits
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.protocol.http import DispatchRequest


class Entry:
    """Of one job that somebody submits over HTTP. Its session adopts it in the moment in which it has its number."""

    def __init__(self, desk: Desk, name: str, said: DispatchRequest, limits: Limits, trace_id: str) -> None:
        self._desk = desk
        self._name = name
        self._said = said
        self._limits = limits
        self._trace_id = trace_id
        self._job_id = ""
        #: None: it has none yet, or not any more.
        self.number: int | None = None
        self._is_over = False
        #: The connection that has the session, by the word of the engine when it gave the number; "": none, or unknown.
        self._owner = ""
        #: What the instance was told that has the session, if that is another: which one, the job and its number.
        self._told: tuple[str, str, int] | None = None

    def enter(self, job_id: str) -> int | Awaitable[int | Refusal]:
        """Whether it may come, and its number: one, however often and under whichever id it has to be made."""
        desk, said = self._desk, self._said
        if self.number is None and self._is_plain and desk.buckets.spend(self._name):
            number = desk.numbers.spend(said.session_id, self._name)
            if number is not None:
                self._job_id, self.number = job_id, number
                return number
            return self._take_number(job_id)
        return self._enter(job_id)

    @property
    def _is_plain(self) -> bool:
        """Whether there is nothing to keep for it, and no session here that must know of it."""
        said = self._said
        return (
            said.utterance_index is None
            and self._desk.sessions.get(said.session_id) is None
            and not is_own_ref(said.audio_ref)
        )

    async def _enter(self, job_id: str) -> int | Refusal:
        if self.number is not None and self._adopt(job_id, self.number) is None:
            await self._tell_owner(job_id, self.number)
            return self.number
        if not self._desk.buckets.spend(self._name):
            refusal = await self._desk.buckets.admit_job(self._name)
            if refusal is not None:
                return refusal
        if not is_own_ref(self._said.audio_ref):
            return await self._take_number(job_id)
        # Side by side, each in a slot of its own: what is refused has at most spent a number.
        number, kept = await asyncio.gather(
            self._take_number(job_id), keep_for_job(self._desk, self._said.audio_ref, self._name, self._limits)
        )
        if isinstance(kept, Refusal):
            await self.refused()
            return kept
        return number

    async def _take_number(self, job_id: str) -> int | Refusal:
        """Its number, under which its session waits for it if it lives here. What cannot be had there is given back."""
        desk, said = self._desk, self._said
        coming = Coming(job_id, self._trace_id, self._limits.timeout_ms)
        entered: Entered | Refusal
        if said.utterance_index is not None or desk.sessions.get(said.session_id) is not None:
            least = desk.sessions.next_index(said.session_id)
            entered = await desk.numbers.enter(said.session_id, self._name, said.utterance_index, least, coming)
        elif (kept := desk.numbers.spend(said.session_id, self._name)) is not None:
            entered = Entered(kept)
        else:
            entered = await desk.numbers.fetch(said.session_id, self._name, coming)
        if isinstance(entered, Refusal):
            return entered
        number, self._owner = entered.utterance_index, entered.owner
        if self._is_over:
            # Nobody waits for it any more, and no job can have it.
            await self._return(number)
            return number
        refusal = self._adopt(job_id, number)
        if refusal is None:
            await self._tell_owner(job_id, number)
            return number
        await self.refused()
        # A number that nobody chose was taken meanwhile by what its client said there, and was refused: there are more.
        is_taken = said.utterance_index is None and refusal.code == "INVALID_MESSAGE"
        return await self._take_number(job_id) if is_taken else refusal

    def _adopt(self, job_id: str, number: int, trace_id: str = "") -> Refusal | None:
        self._withdraw(unless=(job_id, number))
        self._job_id, self.number = job_id, number
        trace_id, timeout_ms = trace_id or self._trace_id, self._limits.timeout_ms
        session_id, owner = self._said.session_id, self._owner
        return self._desk.sessions.adopt(session_id, number, job_id, trace_id, timeout_ms, owner)

    def _withdraw(self, unless: tuple[str, int] | None = None) -> None:
        if self.number is not None and self._job_id and (self._job_id, self.number) != unless:
            self._desk.sessions.withdraw(self._said.session_id, self.number, self._job_id)

    async def _tell_owner(self, job_id: str, number: int) -> None:
        """The session may be at another instance: from this moment on it waits for the job there, and hears its end.

        Nobody may have it just now. Then whoever goes on with it hears of the job by the engine, and is told its end.
        """
        if not self._owner:
            return
        desk, there = self._desk, instance_of(self._owner)
        if desk.sessions.is_here(self._said.session_id, self._owner):
            return
        desk.sessions.is_elsewhere(job_id)
        told = (there, job_id, number)
        if there in {"", desk.instance_id}:
            return
        if self._told is not None and name_of(self._told[1]) == name_of(job_id) and self._told[2] == number:
            return
        await self._withdraw_there()
        self._told = told
        await self._write("adopt", told)

    async def _withdraw_there(self) -> None:
        told, self._told = self._told, None
        if told is not None:
            await self._write("withdraw", told)

    async def _write(self, kind: str, told: tuple[str, str, int]) -> None:
        """Who cannot be told does not keep the job from anybody: its end can be asked for."""
        there, job_id, number = told
        detail, session_id = f"{number} {self._limits.timeout_ms}", self._said.session_id
        letter = Letter(kind, job_id, session=session_id, detail=detail, trace=self._trace_id)
        with contextlib.suppress(DependencyDown, OutcomeUnknown):
            await self._desk.neighbours.tell(there, letter)

    async def placed(self, job_id: str, number: int | None, trace_id: str) -> None:
        """It has its job: perhaps another, which was made before under another number. None: that is not known.

        One that was made before may have had its turn.
        """
        told = self._told
        if told is not None and number is not None and (name_of(job_id), number) != (name_of(told[1]), told[2]):
            await self._tell_owner(job_id, number)
        if number is not None:
            self._adopt(job_id, number, trace_id)
        if self.number is not None:
            self._desk.sessions.placed(self._said.session_id, self.number, self._job_id)

    async def refused(self) -> None:
        """It has no job. Whoever chose its number may come again with it: a refusal is not remembered."""
        self._withdraw()
        await self._withdraw_there()
        number, self.number = self.number, None
        if number is not None:
            await self._return(number)

    async def not_made(self) -> None:
        """The engine could not serve, and nothing was made: as if it were refused, whatever is still under way."""
        self._is_over = True
        await self.refused()

    async def _return(self, number: int) -> None:
        """Whoever chose a number that no job has may come again with it; at the latest when the engine is back."""
        if self._said.utterance_index is None:
            return
        try:
            await self._give_back(number)
        except DependencyDown:
            told = f"giving back number {number} of session {self._said.session_id}"
            self._desk.delivery.insist(partial(self._give_back, number), told)

    async def _give_back(self, number: int) -> None:
        # If nobody knows whether that was done it is not done again: somebody may have taken the number since.
        with contextlib.suppress(OutcomeUnknown, ScriptFailed):
            await return_number(self._desk.engine, self._said.session_id, self._name, number)

    def lost(self) -> None:
        """Nobody knows how it went, or whoever wanted to know is gone."""
        self._is_over = True
        if self.number is not None:
            self._desk.sessions.doubt(self._said.session_id, self.number, self._job_id)
