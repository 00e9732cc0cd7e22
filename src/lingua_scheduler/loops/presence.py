"""The presence keeper: says again and again that this instance is there, and at the end that it is not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, NameTaken, OutcomeUnknown
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.appear import Closed, Taken, appear
from lingua_scheduler.flows.enlist import enlist
from lingua_scheduler.flows.vanish import vanish
from lingua_scheduler.logs import get_log
from lingua_scheduler.loops.loop import Loop, refused
from lingua_scheduler.loops.undertaker import strike_out

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from lingua_scheduler.core.letter import Presence
    from lingua_scheduler.store.engine import Engine

#: While somebody else has the name, it is looked so often whether he still has.
_LOOK_S: Final = 0.2
#: At the end it may take so long to say goodbye. Whoever was not told finds out by himself.
_GOODBYE_S: Final = 1.0

log = get_log(__name__)


class PresenceKeeper(Loop):
    """Beats. `describe` tells what the instance says of itself at that moment.

    `returned` is called when it was taken for gone meanwhile, until it does not raise: others gave away what it held.
    `usurped` is called when another process is there under its name: while this one slept, its name was free.
    `left` is told at the end that letters are left in its inbox.
    """

    def __init__(
        self,
        engine: Engine,
        interval_ms: int,
        describe: Callable[[], Presence],
        returned: Callable[[], Awaitable[None]],
        *,
        usurped: Callable[[], None],
        left: Callable[[str], Awaitable[None]],
    ) -> None:
        super().__init__(interval_ms)
        self._engine = engine
        self._describe = describe
        self._returned = returned
        self._usurped = usurped
        self._left = left
        self._has_returned = False
        #: What was said last, and whether that was ever heard.
        self._said: Presence | None = None
        self._was_heard = False
        #: When the process started that had the name before, and is gone.
        self._gone_since_ms = 0

    async def begin(self, patience_s: float, is_gone: Callable[[Presence], bool]) -> None:
        """Be there. A name that is taken is waited for for so long, as whoever has it may be dead; then: `NameTaken`.

        `is_gone` says of whoever has it whether he is known to be.
        """
        clock = asyncio.get_running_loop().time
        until, is_told = clock() + patience_s, False
        while True:
            try:
                while await self.turn():
                    pass
            except NameTaken as taken:
                if is_gone(taken.other):
                    self._gone_since_ms = taken.other.started_at_ms
                    continue
                if clock() >= until:
                    raise
                if not is_told:
                    log.warning("presence", reason=taken, detail="waiting for its end", seconds=patience_s)
                    is_told = True
                await asyncio.sleep(_LOOK_S)
            else:
                return

    async def turn(self) -> bool:
        """One beat: first the directory, then the presence. Whoever was struck in between begins again."""
        presence = self._describe()
        beat = await self._enlist(presence.instance)
        self._said = presence
        appeared = await appear(self._engine, presence, beat, self._gone_since_ms)
        if isinstance(appeared, Refusal):
            raise refused(appeared)
        if isinstance(appeared, Taken):
            self._lose(NameTaken(appeared.presence))
            return False
        if isinstance(appeared, Closed):
            return True
        if self._was_heard and not appeared.was_there:
            log.error(
                "presence",
                instance_id=presence.instance,
                reason="it was not heard of in time, or the engine was emptied",
                detail="the presence had ended: meanwhile nobody wrote here, and others took over the letters",
            )
            self._has_returned = True
        self._was_heard = True
        if self._has_returned:
            await self._returned()
            self._has_returned = False
        return False

    def _lose(self, taken: NameTaken) -> None:
        """Whoever never had the name is refused; whoever had it must end, for its letters are another's now."""
        if not self._was_heard:
            raise taken
        log.error("presence", reason=taken, detail="this one ends")
        self._usurped()

    async def _enlist(self, instance_id: str) -> int:
        enlisted = await enlist(self._engine, instance_id)
        if isinstance(enlisted, Refusal):
            raise refused(enlisted)
        return enlisted.beat

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nobody writes any more; what still lies in the inbox goes to others."""
        await super().__aexit__(kind, error, trace)
        if self._said is None:
            return
        instance_id = self._said.instance
        try:
            async with asyncio.timeout(_GOODBYE_S):
                await vanish(self._engine, self._said)
                # The loop was stopped anywhere in a beat: which one stands in the directory is known only of a new one.
                if not await strike_out(self._engine, instance_id, await self._enlist(instance_id)):
                    await self._left(instance_id)
        except TimeoutError:
            log.warning(
                "vanish", instance_id=instance_id, detail=f"it ends, and could not say so within {_GOODBYE_S:g} s"
            )
        except (DependencyDown, OutcomeUnknown) as away:
            log.warning("vanish", instance_id=instance_id, reason=away, detail="it ends, and could not say so")
