"""How a "no" travels: one shape on HTTP and on WebSockets, and what a socket is closed with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import OutcomeUnknown
from lingua_scheduler.core.refusal import CODES, Breakdown, Refusal, refuse
from lingua_scheduler.protocol.fields import Message

if TYPE_CHECKING:
    from lingua_scheduler.core.errors import LinguaError

#: So many messages in a row that cannot be read, and the socket is closed with 4400.
MAX_BAD_IN_A_ROW: Final = 3

#: Codes that have another name on WebSockets.
ON_SOCKETS: Final[dict[str, str]] = {"ALL_CANDIDATES_FULL_OR_FAILED": "NO_AVAILABLE_NODE"}

#: Codes that are no refusals: how a job ended, and what a node says of a job that it could not do.
RESULT_CODES: Final[dict[str, str]] = {
    "JOB_TIMEOUT": "the job's deadline passed",
    "JOB_FAILED": "the job's tries are spent",
    "MODEL_NOT_AVAILABLE": "the node has not got the model; it is marked, and the job goes on elsewhere",
    "MODEL_LOAD_FAILED": "the node could not load the model",
    "NODE_OVERLOADED": "the node has no room after all; this costs no try",
}

#: What the end of a job is called in results, and in the `missing_result` of its utterance.
END_CODES: Final = {"FAILED": "JOB_FAILED", "EXPIRED": "JOB_TIMEOUT"}
_MISSING: Final = {
    "FAILED": "job_failed",
    "EXPIRED": "job_timeout",
    "CANCELLED": "cancelled",
    "ALL_CANDIDATES_FULL_OR_FAILED": "no_available_node",
    "PREFERRED_NODE_UNAVAILABLE": "no_available_node",
    "NO_CAPABLE_NODE": "no_capable_node",
    "PREFERRED_NODE_NOT_CAPABLE": "no_capable_node",
}


class RefusalBody(Message, frozen=True, kw_only=True):
    """Every refusal on HTTP."""

    error: str
    detail: str
    retryable: bool
    retry_after_ms: int | None = None
    trace_id: str | None = None
    breakdown: Breakdown | None = None
    #: Of `OUTCOME_UNKNOWN`: the id to send it again with.
    request_id: str | None = None


class ErrorMessage(RefusalBody, frozen=True, kw_only=True, tag_field="type", tag="error"):
    """The same on a WebSocket, with the names that the legacy clients read."""

    code: str
    message: str
    details: Breakdown | None = None


def refusal_body(
    refusal: Refusal, trace_id: str | None = None, *, retry_after_ms: int | None = None, request_id: str | None = None
) -> RefusalBody:
    """A refusal as an HTTP answer. `retry_after_ms` where it is known better than the code knows it."""
    return RefusalBody(
        error=refusal.code,
        detail=refusal.detail,
        retryable=refusal.retryable,
        retry_after_ms=refusal.retry_after_ms if retry_after_ms is None else retry_after_ms,
        trace_id=trace_id,
        breakdown=refusal.breakdown,
        request_id=request_id,
    )


def error_message(
    refusal: Refusal, trace_id: str | None = None, *, retry_after_ms: int | None = None, request_id: str | None = None
) -> ErrorMessage:
    """A refusal as a WebSocket message."""
    code = ON_SOCKETS.get(refusal.code, refusal.code)
    return ErrorMessage(
        error=code,
        detail=refusal.detail,
        retryable=refusal.retryable,
        retry_after_ms=refusal.retry_after_ms if retry_after_ms is None else retry_after_ms,
        trace_id=trace_id,
        breakdown=refusal.breakdown,
        request_id=request_id,
        code=code,
        message=refusal.detail,
        details=refusal.breakdown,
    )


def retry_after(body: RefusalBody) -> str | None:
    """The `Retry-After` header that goes with an answer: whole seconds, never too early."""
    return None if body.retry_after_ms is None else str(math.ceil(body.retry_after_ms / 1000))


def refusal_of(error: LinguaError) -> Refusal:
    """Broken infrastructure, as whoever asked is told. What broke exactly is for the log."""
    if isinstance(error, OutcomeUnknown) and not error.request_id:
        return Refusal(error.code, "It may or may not have happened; send it again, a repeat does no harm.")
    return refuse(error.code if error.code in CODES else "INTERNAL")


def missing_reason(end: str) -> str:
    """Why an utterance has no result: by the state in which its job ended, or the code with which it was refused."""
    return _MISSING.get(end, end.lower())


class CloseCode(IntEnum):
    """What a socket is closed with."""

    DONE = 1000
    GOING_AWAY = 1001
    NOT_JSON = 1007
    POLICY = 1008
    TOO_BIG = 1009
    INTERNAL = 1011
    RESTART = 1012
    OVERLOADED = 1013
    BAD_MESSAGES = 4400
    UNAUTHENTICATED = 4401
    FORBIDDEN = 4403
    UNKNOWN_SESSION = 4404
    TIMEOUT = 4408
    REPLACED = 4409
    RATE_LIMITED = 4429
    ENGINE_DOWN = 4503


@dataclass(frozen=True, slots=True)
class Close:
    """What a close code means, and the code of the `error` that goes out before it; "": none does."""

    meaning: str
    error: str = ""


CLOSES: Final[dict[CloseCode, Close]] = {
    CloseCode.DONE: Close("done"),
    CloseCode.GOING_AWAY: Close("going away"),
    CloseCode.NOT_JSON: Close("a message that is not UTF-8 or not JSON", "INVALID_MESSAGE"),
    CloseCode.POLICY: Close("against the rules of this door", "FORBIDDEN"),
    CloseCode.TOO_BIG: Close("a message that is too big", "PAYLOAD_TOO_LARGE"),
    CloseCode.INTERNAL: Close("something broke here", "INTERNAL"),
    CloseCode.RESTART: Close(
        "this instance restarts; connect again, after a moment of your own choice", "SHUTTING_DOWN"
    ),
    CloseCode.OVERLOADED: Close("overloaded; connect again later", "RATE_LIMITED"),
    CloseCode.BAD_MESSAGES: Close("too many messages in a row that could not be read", "INVALID_MESSAGE"),
    CloseCode.UNAUTHENTICATED: Close("not authenticated", "UNAUTHENTICATED"),
    CloseCode.FORBIDDEN: Close("forbidden", "FORBIDDEN"),
    CloseCode.UNKNOWN_SESSION: Close("there is no such session, or not any more", "INVALID_SESSION"),
    CloseCode.TIMEOUT: Close("idle, or not registered in time", "SESSION_CLOSED"),
    CloseCode.REPLACED: Close("replaced by a newer connection", "SESSION_CLOSED"),
    CloseCode.RATE_LIMITED: Close("too many messages", "RATE_LIMITED"),
    CloseCode.ENGINE_DOWN: Close("the state engine cannot be reached", "SCHEDULER_DEPENDENCY_DOWN"),
}


def close_code_of(refusal: Refusal) -> CloseCode:
    """What a socket is closed with whose peer is not let in."""
    return CloseCode.UNAUTHENTICATED if refusal.code == "UNAUTHENTICATED" else CloseCode.FORBIDDEN


def farewell(
    code: CloseCode, detail: str = "", trace_id: str | None = None, after_ms: int | None = None
) -> ErrorMessage | None:
    """The `error` that goes out before this close; None: none does. `after_ms`: when to come again, if it is known."""
    error = CLOSES[code].error
    if not error:
        return None
    return error_message(Refusal(error, detail or CODES[error].detail, after_ms=after_ms), trace_id)
