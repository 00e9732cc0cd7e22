"""What a client may show while it waits: `ui_event`s, partials, and when to slow down. All of it may be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from lingua_scheduler.front.sessions.effects import Effect, Write
from lingua_scheduler.protocol.errors import ON_SOCKETS
from lingua_scheduler.protocol.session import AsrPartial, Backpressure, UiEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingua_scheduler.core.refusal import Refusal

Shown = Literal[
    "INPUT_STARTED",
    "INPUT_ENDED",
    "ASR_PARTIAL",
    "ASR_FINAL",
    "DISPATCHED",
    "NODE_ACCEPTED",
    "NMT_DONE",
    "TTS_PLAY_STARTED",
    "TTS_PLAY_ENDED",
    "ERROR",
]
Action = Literal["BUSY", "PAUSE", "SLOW_DOWN"]

#: Every node that could take it is taken.
_FULL: Final = ("ALL_CANDIDATES_FULL_OR_FAILED", "PREFERRED_NODE_UNAVAILABLE")
#: How long a client should wait when its pair is saturated.
_BUSY_MS: Final = 1_000
#: So many utterances are known by their trace.
_MAX_KNOWN: Final = 256


class _Known(msgspec.Struct):
    trace_id: str
    began_ms: int


class Hints:
    """Remembers when each utterance began, and when the client was last told to slow down."""

    def __init__(self, session_id: str, backpressure_ms: int) -> None:
        self._session_id = session_id
        self._backpressure_ms = backpressure_ms
        self._known: dict[int, _Known] = {}
        self._pressed_ms: dict[Action, int] = {}

    def began(self, index: int, trace_id: str, began_ms: int) -> None:
        """An utterance has its number."""
        self._known[index] = _Known(trace_id, began_ms)
        if len(self._known) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def forget(self, indexes: Iterable[int]) -> None:
        """The client has these; what it plays last may still be one of them."""
        for index in indexes:
            if len(self._known) > 1:
                self._known.pop(index, None)

    def find(self, trace_id: str | None) -> int:
        """The utterance that a client means by its trace; else the last."""
        found = [index for index, known in self._known.items() if known.trace_id == trace_id]
        return found[-1] if found else max(self._known, default=0)

    def show(
        self, event: Shown, index: int, now_ms: int, *, job_id: str = "", error: str = "", trace_id: str = ""
    ) -> Write:
        """Something to show."""
        known = self._known.get(index)
        message = UiEvent(
            trace_id=known.trace_id if known else trace_id,
            session_id=self._session_id,
            job_id=job_id,
            utterance_index=index,
            event=event,
            status="error" if error else "ok",
            elapsed_ms=max(0, now_ms - known.began_ms) if known else None,
            error_code=error or None,
        )
        return Write(message, may_drop=True)

    def error(self, index: int, code: str, now_ms: int, *, job_id: str = "") -> Write:
        """Something went wrong with an utterance."""
        return self.show("ERROR", index, now_ms, job_id=job_id, error=ON_SOCKETS.get(code, code))

    def partial(self, index: int, job_id: str, text: str, *, is_final: bool, now_ms: int) -> list[Effect]:
        """What was understood so far."""
        known = self._known.get(index)
        message = AsrPartial(
            session_id=self._session_id,
            utterance_index=index,
            job_id=job_id,
            text=text,
            is_final=is_final,
            trace_id=known.trace_id if known else "",
        )
        shown = self.show("ASR_FINAL" if is_final else "ASR_PARTIAL", index, now_ms, job_id=job_id)
        return [Write(message, may_drop=True), shown]

    def busy(self, now_ms: int) -> list[Effect]:
        """A job must wait for its node: the pair is saturated."""
        return self.press("BUSY", _BUSY_MS, "Every node that could take it is busy; it waits.", now_ms)

    def pressed(self, refusal: Refusal, now_ms: int) -> list[Effect]:
        """A refusal that would not have been if the client were slower."""
        if refusal.code in _FULL:
            return self.press("BUSY", _BUSY_MS, refusal.detail, now_ms)
        if refusal.code == "RATE_LIMITED":
            return self.press("SLOW_DOWN", refusal.retry_after_ms or _BUSY_MS, refusal.detail, now_ms)
        return []

    def press(self, action: Action, resume_after_ms: int, why: str, now_ms: int) -> list[Effect]:
        """Ask the client to slow down, but not again and again."""
        if now_ms < self._pressed_ms.get(action, -self._backpressure_ms) + self._backpressure_ms:
            return []
        self._pressed_ms[action] = now_ms
        return [Write(Backpressure(action=action, resume_after_ms=resume_after_ms, message=why))]
