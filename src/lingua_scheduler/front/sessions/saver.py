"""Saving a session's state: one save at a time, and everybody who asks meanwhile is served by the next one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.logs import get_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.core.refusal import Refusal
    from lingua_scheduler.front.sessions.state import Saved

#: The session is another connection's by now, or, in an engine that had lost it, another's altogether.
_TAKEN: Final = ("SESSION_TAKEN", "FORBIDDEN")

log = get_log(__name__)


class SessionTaken(Exception):
    """Another connection has the session."""


class NotSaved(LinguaError):
    """The engine does not take the state, and nobody else has the session: a bug of ours."""


class Put(Protocol):
    """Brings a state to the engine."""

    async def __call__(self, saved: Saved, *, create: bool) -> Refusal | None: ...


class Saver:
    """Of one session. `create`: the engine does not know it yet, or not any more."""

    def __init__(self, state: Callable[[], Saved], put: Put, *, create: bool) -> None:
        self._state = state
        self._put = put
        self.create = create
        self._lock = asyncio.Lock()
        self._asked = self._done = 0
        self._failed: tuple[int, Exception] | None = None

    async def save(self) -> None:
        """Until a save that began after this call is done. What goes wrong with it is raised."""
        self._asked += 1
        mine = self._asked
        async with self._lock:
            if self._done >= mine:
                return
            if self._failed is not None and self._failed[0] >= mine:
                raise self._failed[1]
            upto = self._asked
            try:
                await self._save_once()
            except (LinguaError, SessionTaken) as error:
                self._failed = (upto, error)
                raise
            self._done = upto

    async def _save_once(self) -> None:
        create, self.create = self.create, False
        refusal = await self._put(self._state(), create=create)
        if refusal is not None and refusal.code == "INVALID_SESSION":
            # The engine has lost it, and this is who knows it.
            refusal = await self._put(self._state(), create=True)
        if refusal is None:
            return
        if refusal.code in _TAKEN:
            raise SessionTaken(refusal.detail)
        log.error("save_session", session_id=self._state().about.session_id, reason=refusal.detail)
        raise NotSaved(refusal.detail)
