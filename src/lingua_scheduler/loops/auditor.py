"""The auditor: looks now and then whether what must hold holds, and says so aloud if it does not."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.logs import get_log
from lingua_scheduler.loops.loop import Loop, refused
from lingua_scheduler.views.audit import audit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingua_scheduler.core.audit import Violation
    from lingua_scheduler.store.engine import Engine

#: So many are written into the log; more say nothing new.
_SHOWN: Final = 5
#: What the pages of a cell are judged by.
INVARIANTS: Final = ("S1", "S2", "S3", "S4")

log = get_log(__name__)


class Auditor(Loop):
    """S1 to S4 of every cell, in pages. What is wrong in two looks, one shortly after the other, is wrong.

    Between two pages of a look things go on: what was seen on neither page, or on both, is not wrong for that.
    """

    def __init__(self, engine: Engine, cells: Callable[[], Sequence[str]], interval_ms: int, again_ms: int) -> None:
        super().__init__(interval_ms)
        self._engine = engine
        self._cells = cells
        self._again_s = again_ms / 1000
        #: How many violations of each were found by the last look; None: nobody has looked yet.
        self.found: Counter[str] | None = None

    async def turn(self) -> bool:
        """One look at everything."""
        wrong = [violation for cell in self._cells() for violation in await self._wrong(cell)]
        self.found = Counter(dict.fromkeys(INVARIANTS, 0))
        self.found.update(violation.invariant for violation in wrong)
        for violation in wrong[:_SHOWN]:
            log.error("audit", invariant=violation.invariant, subject=violation.subject, reason=violation.detail)
        if len(wrong) > _SHOWN:
            log.error("audit", number=len(wrong) - _SHOWN, detail="more violations were found")
        return False

    async def _wrong(self, cell: str) -> list[Violation]:
        suspected = await self._look(cell)
        if not suspected:
            return []
        await asyncio.sleep(self._again_s)
        about = {(violation.invariant, violation.subject) for violation in suspected}
        return [violation for violation in await self._look(cell) if (violation.invariant, violation.subject) in about]

    async def _look(self, cell: str) -> list[Violation]:
        found = await audit(self._engine, cell)
        if isinstance(found, Refusal):
            raise refused(found)
        return found
