"""The presence keeper: says again and again that this instance is there, and at the end that it is not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.appear import Closed, appear
from lingua_scheduler.flows.enlist import enlist
from lingua_scheduler.flows.vanish import vanish
from lingua_scheduler.loops.loop import Loop, refused
from lingua_scheduler.loops.undertaker import strike_out

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from lingua_scheduler.core.letter import Presence
    from lingua_scheduler.store.engine import Engine

log = logging.getLogger(__name__)


class PresenceKeeper(Loop):
    """Beats. `describe` tells what the instance says of itself at that moment.

    `returned` is called when it was taken for gone meanwhile, until it does not raise: others gave away what it held.
    """

    def __init__(
        self,
        engine: Engine,
        interval_ms: int,
        describe: Callable[[], Presence],
        returned: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(interval_ms)
        self._engine = engine
        self._describe = describe
        self._returned = returned
        self._has_returned = False
        #: What was said last, and whether that was ever heard.
        self._said: Presence | None = None
        self._was_heard = False

    async def turn(self) -> bool:
        """One beat: first the directory, then the presence. Whoever was struck in between begins again."""
        presence = self._describe()
        beat = await self._enlist(presence.instance)
        self._said = presence
        appeared = await appear(self._engine, presence, beat)
        if isinstance(appeared, Refusal):
            raise refused(appeared)
        if isinstance(appeared, Closed):
            return True
        if self._was_heard and not appeared.was_there:
            log.error(
                "the presence of instance %s had ended: it was not heard of in time, or the engine was emptied. "
                "Meanwhile nobody wrote to it, and others took over its letters",
                presence.instance,
            )
            self._has_returned = True
        self._was_heard = True
        if self._has_returned:
            await self._returned()
            self._has_returned = False
        return False

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
        try:
            await vanish(self._engine, self._said)
            # The loop was stopped anywhere in a beat: which one stands in the directory is known only of a new one.
            await strike_out(self._engine, self._said.instance, await self._enlist(self._said.instance))
        except (DependencyDown, OutcomeUnknown) as away:
            log.warning("instance %s ends, and could not say so: %s", self._said.instance, away)
