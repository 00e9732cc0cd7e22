"""What is raised to an app, or a node. Every error says whether the same may succeed later, and when.

ClientError
├── Refused        the scheduler said no, with this code
├── NoResult       an utterance has ended without a result
├── SessionLost    the session is gone, and with it what was still open in it
└── Unreachable    nobody answered for as long as it was tried
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import LinguaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingua_scheduler.protocol.errors import RefusalBody


#: What to do about a "no" that will be the same the next time.
HINTS: Final = {
    "UNAUTHENTICATED": "give a token as token=",
    "NOT_FOUND": "there is no Lingua scheduler at this address",
}


class ClientError(LinguaError):
    """The root of them. `retry_after` is in seconds; None: nothing is known of it."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        trace_id: str | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.retryable = retryable
        self.retry_after = retry_after
        self.trace_id = trace_id


class Refused(ClientError):
    """The scheduler said no."""


class NoResult(ClientError):
    """An utterance has ended, but not in a result. `reason` is the word of its `missing_result`."""

    def __init__(
        self,
        reason: str,
        code: str,
        detail: str,
        *,
        retryable: bool,
        retry_after: float | None,
        trace_id: str | None = None,
    ) -> None:
        super().__init__(code, detail, retryable=retryable, retry_after=retry_after, trace_id=trace_id)
        self.reason = reason


class SessionLost(ClientError):
    """The session was away for too long, or another connection has taken it."""


class Unreachable(ClientError):
    """No connection could be made, or none that was any use."""

    def __init__(self, detail: str) -> None:
        super().__init__("UNREACHABLE", detail, retryable=True)


def refused_by(body: RefusalBody) -> Refused:
    """A refusal of the scheduler, to be raised."""
    return Refused(
        body.error,
        body.detail,
        retryable=body.retryable,
        retry_after=seconds(body.retry_after_ms),
        trace_id=body.trace_id,
    )


def hinted(refused: Refused, hints: Mapping[str, str] = HINTS) -> Refused:
    """The same, with what to do about it."""
    hint = hints.get(refused.code)
    if hint is None or refused.retryable:
        return refused
    return Refused(
        refused.code, f"{refused.detail} ({hint})", retry_after=refused.retry_after, trace_id=refused.trace_id
    )


def seconds(ms: int | None) -> float | None:
    """Milliseconds, as people in Python wait."""
    return None if ms is None else ms / 1000
