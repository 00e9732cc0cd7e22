"""The postman: collects the letters to this instance, has them handled, and settles them. At least once each."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.letter import MAX_DELIVERIES, UnknownKind
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.walk import Walk, within
from lingua_scheduler.flows.bury import bury
from lingua_scheduler.flows.collect import collect, collect_again, collect_pending
from lingua_scheduler.flows.mail import parcels
from lingua_scheduler.flows.settle import settle
from lingua_scheduler.logs import get_log
from lingua_scheduler.loops.lines import Lines
from lingua_scheduler.loops.loop import Loop, refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from types import TracebackType
    from typing import Any

    from lingua_scheduler.core.letter import Letter, Parcel
    from lingua_scheduler.flows.collect import Letters
    from lingua_scheduler.store.engine import Engine

    HandOver = Callable[[Letter], Coroutine[Any, Any, None]]

#: So many letters are being handled at once, and no more are taken.
MAX_CARRIED: Final = 64
#: At the end it may take so long to settle what is handled.
_LAST_S: Final = 1.0

log = get_log(__name__)


class Postman(Loop):
    """Hands letters over side by side, those about the same one after the other, in the order of their inbox.

    `hand_over` gets the letters to this instance, and those that were taken over from one that is gone. It must bear to
    get the same letter twice. A letter for which it raises, or takes too long, is handed over again, after a pause that
    grows, and is a dead letter after `MAX_DELIVERIES`. If it raises `UnknownKind`, each pause is the longest: while
    instances are upgraded one after the other, another who knows it may come to read it. `ring` returns when there may
    be a letter behind the number that it is given.
    """

    def __init__(
        self,
        engine: Engine,
        instance_id: str,
        interval_ms: int,
        *,
        hand_over: HandOver,
        ring: Callable[[str], Awaitable[None]],
        pauses_ms: tuple[int, int] = (100, 10_000),
        buried: Callable[[Parcel, str], None] = lambda _parcel, _reason: None,
        patience_ms: int = 15_000,
    ) -> None:
        """`interval_ms`: how often it looks while nobody can ring. `pauses_ms`: the first and the longest.

        `buried` is told which letter is a dead letter now, and why. `patience_ms`: a letter that is not handled for so
        long has failed. Shorter than any `letter_lease_ms`.
        """
        super().__init__(interval_ms)
        self.instance_id = instance_id
        self._engine = engine
        self._hand_over = hand_over
        self._ring = ring
        self._buried = buried
        self._pauses_s = (pauses_ms[0] / 1000, pauses_ms[1] / 1000)
        self._patience_s = patience_ms / 1000
        #: Everything that is taken and not settled: it is on its way, or has its pause, or is about to be settled.
        self._held: set[str] = set()
        self._lines = Lines(self._carry)
        self._on_way = 0
        self._walks: set[Walk] = set()
        #: How many are handled, and not yet settled.
        self._settling = 0
        #: Set when something is not on its way any more, or is settled.
        self._moved = asyncio.Event()
        #: Whether all that is taken is held: not after a start, and not while an answer may be lost.
        self._knows_all = False
        self._known_up_to = ""
        self._stops = False

    @property
    def room(self) -> int:
        """How many more letters can be taken now."""
        return max(MAX_CARRIED - self._on_way, 0)

    async def turn(self) -> bool:
        """First what was taken before and is not settled; then what is new. If nothing is, wait for the bell."""
        while not self.room:
            self._moved.clear()
            await self._moved.wait()
        if not self._knows_all:
            return await self._learn()
        self._knows_all = False
        new = self._taken(await collect(self._engine, self.instance_id, self.instance_id, self.room))
        self._knows_all = True
        if not new.letters:
            await self._ring(new.last)
        return True

    async def _learn(self) -> bool:
        """A page of what was taken; after the last, all is known."""
        asked = collect_pending(self._engine, self.instance_id, self.instance_id, self._known_up_to, self.room)
        found = self._taken(await asked)
        self._known_up_to = found.letters[-1][0] if found.letters else ""
        self._knows_all = not found.letters
        return True

    def _taken(self, answer: Letters | Refusal) -> Letters:
        if isinstance(answer, Refusal):
            raise refused(answer)
        for parcel in parcels(self.instance_id, answer.letters):
            self.take(parcel)
        return answer

    def take(self, parcel: Parcel) -> None:
        """See to it that a letter which was taken out of any inbox is handled."""
        if parcel.id not in self._held:
            self._held.add(parcel.id)
            self._stand(parcel)

    def _stand(self, parcel: Parcel) -> None:
        self._on_way += 1
        self._lines.stand(parcel.letter.about, parcel)

    async def _carry(self, parcel: Parcel) -> None:
        try:
            await self._handle(parcel)
        finally:
            self._on_way -= 1
            self._moved.set()

    async def _handle(self, parcel: Parcel) -> None:
        try:
            await within(self._hand_over(parcel.letter), self._patience_s)
        except UnknownKind as error:
            number, most, reason = parcel.deliveries, MAX_DELIVERIES, str(error)
            log.warning("postman", kind=parcel.letter.kind, letter=parcel.id, number=number, most=most, reason=reason)
            self._failed(parcel, reason, self._pauses_s[1])
        except Exception as error:
            # Whatever is wrong with one letter, the others must not wait for it.
            number, most, detail = parcel.deliveries, MAX_DELIVERIES, "a letter was not handed over"
            log.exception("postman", kind=parcel.letter.kind, letter=parcel.id, number=number, most=most, detail=detail)
            self._failed(parcel, f"{type(error).__name__}: {error}", self._pause_s(parcel))
        else:
            self._walk(self._settle(parcel), parcel)

    def _failed(self, parcel: Parcel, reason: str, pause_s: float) -> None:
        if parcel.deliveries >= MAX_DELIVERIES:
            self._walk(self._settle(parcel, reason), parcel)
        else:
            self._walk(self._try_again(parcel, pause_s), parcel)

    async def _try_again(self, parcel: Parcel, pause_s: float) -> None:
        """After a pause; unless somebody has settled it since, or taken it over."""
        while True:
            await asyncio.sleep(pause_s)
            try:
                again = await collect_again(self._engine, parcel.instance, self.instance_id, parcel.number)
            except (DependencyDown, OutcomeUnknown):
                continue
            break
        if isinstance(again, Refusal):
            raise refused(again)
        if again.letters:
            self._stand(*parcels(parcel.instance, again.letters))
        else:
            self._held.discard(parcel.id)

    def _pause_s(self, parcel: Parcel) -> float:
        first, most = self._pauses_s
        return min(first * (1 << min(parcel.deliveries - 1, 16)), most)

    async def _settle(self, parcel: Parcel, reason: str = "") -> None:
        """Out of its inbox; with a reason, among the dead letters before that. Until the engine has heard of it."""
        self._settling += 1
        try:
            while True:
                try:
                    await self._settle_once(parcel, reason)
                except (DependencyDown, OutcomeUnknown):
                    if self._stops:
                        log.warning(
                            "settle", letter=parcel.id, detail="handled but not settled; it comes again elsewhere"
                        )
                        return
                    await asyncio.sleep(self._pauses_s[0])
                else:
                    return
        finally:
            self._held.discard(parcel.id)
            self._settling -= 1
            self._moved.set()

    async def _settle_once(self, parcel: Parcel, reason: str) -> None:
        if reason:
            buried = await bury(self._engine, parcel, reason)
            if isinstance(buried, Refusal):
                raise refused(buried)
            if buried.is_new:
                self._buried(parcel, reason)
            log.error("bury", kind=parcel.letter.kind, letter=parcel.id, reason=reason, detail="a dead letter now")
        await settle(self._engine, parcel.instance, parcel.number)

    def _walk(self, work: Coroutine[Any, None, object], parcel: Parcel) -> None:
        def over(error: BaseException | None) -> None:
            self._walks.discard(walk)
            if isinstance(error, Exception):
                self._held.discard(parcel.id)
                log.error("postman", letter=parcel.id, detail="it comes again when its lease is over", exc_info=error)

        walk = Walk(work, over)
        self._walks.add(walk)
        walk.begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What is handled is settled, if the engine is there; the rest lies in its inbox, for whoever takes it over."""
        await super().__aexit__(kind, error, trace)
        self._stops = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_S):
                while self._settling:
                    self._moved.clear()
                    await self._moved.wait()
        self._lines.cancel()
        for walk in list(self._walks):
            walk.cancel()
