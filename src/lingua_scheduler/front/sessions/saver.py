"""Saving a session's state: one save at a time, and everybody who asks meanwhile is served by the next one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from lingua_scheduler.core.errors import DependencyDown, LinguaError
from lingua_scheduler.logs import get_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.core.refusal import Refusal
    from lingua_scheduler.front.sessions.state import Heard, Saved

#: The session is another connection's by now, or, in an engine that had lost it, another's altogether.
_TAKEN: Final = ("SESSION_TAKEN", "FORBIDDEN")

#: What is not there any more is written again.
_LOST: Final = ("INVALID_SESSION", "UNKNOWN_AUDIO")

log = get_log(__name__)


class SessionTaken(Exception):
    """Another connection has the session."""


class NotSaved(LinguaError):
    """The engine does not take the state, and nobody else has the session: a bug of ours."""


class Change(msgspec.Struct, frozen=True):
    """What has changed of the audio of a session: since `front` it is, from `start` on, this and no more.

    Without any from 0 on there is none; without any from later on it is as it was, and must be there.
    """

    start: int
    audio: bytes
    front: int = 0


_NOTHING: Final = Change(0, b"")


class State(Protocol):
    """What is to be saved. `is_bare`: its audio cannot be kept."""

    def __call__(self, *, is_bare: bool = False) -> Saved: ...


class Put(Protocol):
    """Brings a state to the engine, and what has changed of its audio; None: there was none, and is none."""

    async def __call__(self, saved: Saved, change: Change | None, *, create: bool) -> Refusal | None: ...


class _Kept(msgspec.Struct, frozen=True):
    """How much of its audio the engine has."""

    front: int = 0
    size: int = 0

    def change_to(self, heard: Heard) -> Change | None:
        start = self.size if heard.front == self.front else 0
        return None if heard.size == self.size == 0 else Change(start, heard.since(start), heard.front)


class Saver:
    """Of one session. `create`: the engine does not know it yet, or not any more."""

    def __init__(self, state: State, heard: Callable[[], Heard], put: Put, *, create: bool) -> None:
        self._state = state
        self._heard = heard
        self._put = put
        self.create = create
        #: None: that is not known, and all of it is to be written.
        self._kept = _Kept() if create else None
        self._lock = asyncio.Lock()
        self._asked = self._done = 0
        self._failed: tuple[int, Exception] | None = None
        self._is_bare = False

    def lost(self) -> None:
        """The engine has nothing of it any more."""
        self.create, self._kept = True, None

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
        refusal = await self._bring(create=create)
        if refusal is not None and refusal.code in _LOST:
            # The engine has lost it, and this is who knows it.
            refusal = await self._bring(create=True)
        if refusal is None:
            return
        if refusal.code in _TAKEN:
            raise SessionTaken(refusal.detail)
        log.error("save_session", session_id=self._state().about.session_id, reason=refusal.detail)
        raise NotSaved(refusal.detail)

    async def _bring(self, *, create: bool) -> Refusal | None:
        """One that is broken off may have been written."""
        saved, heard = self._state(), self._heard()
        kept, self._kept = self._kept, None
        change = Change(0, heard.since(0), heard.front) if kept is None else kept.change_to(heard)
        # What is heard meanwhile is not written by this.
        written = _Kept(heard.front, heard.size)
        try:
            refusal = await self._put(saved, change, create=create)
        except DependencyDown as down:
            if down.reason != "OOM" or change is None or not change.audio:
                raise
            # An engine without memory takes no audio. The rest it takes, and whoever goes on asks for the audio again.
            written = _Kept()
            self._say_bare(saved)
            refusal = await self._put(self._state(is_bare=True), _NOTHING, create=create)
        else:
            self._is_bare = self._is_bare and not written.size
        if refusal is None:
            self._kept = written
        return refusal

    def _say_bare(self, saved: Saved) -> None:
        """Once, until it takes audio again."""
        if not self._is_bare:
            about, detail = saved.about, "if this instance is killed, the client has to say it again"
            reason = "the engine has no memory for what is being said"
            log.warning(
                "keep_heard", session_id=about.session_id, trace_id=about.trace_id, reason=reason, detail=detail
            )
        self._is_bare = True
