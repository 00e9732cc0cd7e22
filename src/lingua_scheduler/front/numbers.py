"""Numbers of sessions that were taken out ahead of the jobs that will need them: one call of the engine for several.

Whoever submits jobs for a session over HTTP, and does not number them himself, waits for the engine to do so before his
job can be placed. Who comes often finds the next number here. A session that has a connection, or may have one again,
is told every number in its turn: the engine gives no more than one of those at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.enter_session import MAX_NUMBERS, NOTHING, Coming, Entered, enter_session
from lingua_scheduler.front.purse import Purse

if TYPE_CHECKING:
    from lingua_scheduler.config import Settings
    from lingua_scheduler.store.engine import Engine

#: Of so many sessions numbers are kept. Those that came first are forgotten first: what is left of them, nobody gets.
MAX_KEPT: Final = 4_096


class _Kept:
    """What is left of the numbers of one session for one principal."""

    __slots__ = ("next", "purse")

    def __init__(self, burst: int) -> None:
        self.purse = Purse(burst, asyncio.get_running_loop().time)
        self.next = 0


class Numbers:
    """Those that this instance has in hand."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._rates = settings.rates
        self._ttl_ms = settings.jobs.job_record_ttl_ms
        self._kept: dict[tuple[str, str], _Kept] = {}

    def spend(self, session_id: str, principal: str) -> int | None:
        """The next number, if there is one here."""
        kept = self._kept.get((session_id, principal))
        if kept is None or not kept.purse.spend():
            return None
        return _next(kept)

    async def fetch(self, session_id: str, principal: str, coming: Coming = NOTHING) -> Entered | Refusal:
        """The next number, whichever the engine gives; and some for those who follow. `coming` is what it is for."""
        kept = self._kept.get((session_id, principal))
        if kept is None:
            while len(self._kept) >= MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[session_id, principal] = _Kept(self._rates.utterances_burst)
        own: Entered | None = None

        async def take_out(number: int) -> int | Refusal:
            nonlocal own
            entered = await self._enter(session_id, principal, min(number, MAX_NUMBERS), coming=coming)
            if isinstance(entered, Refusal):
                return entered
            if number > 1:
                kept.next = entered.utterance_index + 1
            own = entered
            return entered.number

        fetched = await kept.purse.fetch(take_out)
        if isinstance(fetched, Refusal):
            return fetched
        return own if own is not None else Entered(_next(kept))

    async def enter(
        self,
        session_id: str,
        principal: str,
        utterance_index: int | None,
        at_least: int,
        coming: Coming = NOTHING,
    ) -> Entered | Refusal:
        """The number that the caller has chosen; or the next of a session that has a connection here."""
        return await self._enter(session_id, principal, 1, utterance_index, at_least, coming)

    async def _enter(
        self,
        session_id: str,
        principal: str,
        number: int,
        utterance_index: int | None = None,
        at_least: int = 0,
        coming: Coming = NOTHING,
    ) -> Entered | Refusal:
        return await enter_session(
            self._engine,
            session_id,
            principal,
            utterance_index=utterance_index,
            at_least=at_least,
            rate=self._rates.utterances_per_s,
            burst=self._rates.utterances_burst,
            ttl_ms=self._ttl_ms,
            number=number,
            coming=coming,
        )


def _next(kept: _Kept) -> int:
    kept.next += 1
    return kept.next - 1
