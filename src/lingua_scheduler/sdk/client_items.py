"""What an app is handed: what was understood so far, what an utterance means, or that nobody will say."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.refusal import CODES
from lingua_scheduler.protocol.errors import RESULT_CODES, missing_reason
from lingua_scheduler.protocol.session import TranslationResult
from lingua_scheduler.sdk.client_errors import NoResult, seconds

if TYPE_CHECKING:
    from lingua_scheduler.protocol.errors import ErrorMessage
    from lingua_scheduler.protocol.session import (
        AsrPartial,
        MissingResult,
        NetworkTimings,
        ServiceTimings,
    )

#: Why something is missing that may well succeed when it is said again.
_AGAIN: Final = frozenset({"gap_timeout", "lost", "forgotten", "no_available_node"})
#: Reasons that are no code in small letters.
_CODE_OF: Final = {"job_failed": "JOB_FAILED", "job_timeout": "JOB_TIMEOUT", "cancelled": "CANCELLED"}


@dataclass(frozen=True, slots=True)
class Partial:
    """What was understood so far. Each one replaces the one before; some may be left out."""

    utterance_index: int
    text: str
    is_final: bool
    trace_id: str


@dataclass(frozen=True, slots=True)
class Result:
    """What an utterance means."""

    utterance_index: int
    text_asr: str
    text_translated: str
    #: The translation as speech, in `tts_format`; empty if nobody asked for it.
    tts_audio: bytes
    tts_format: str
    job_id: str
    trace_id: str
    service_timings: ServiceTimings | None = None
    network_timings: NetworkTimings | None = None
    #: Whatever else the node said.
    extra: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """There will be no result for this utterance, and why. `retry_after` is in seconds."""

    utterance_index: int
    reason: str
    code: str
    detail: str
    retryable: bool
    retry_after: float | None
    trace_id: str

    def error(self) -> NoResult:
        """The same, to be raised."""
        return NoResult(
            self.reason,
            self.code,
            self.detail,
            retryable=self.retryable,
            retry_after=self.retry_after,
            trace_id=self.trace_id,
        )


Item = Partial | Result | Missing


def partial_of(message: AsrPartial) -> Partial:
    """As the app sees it."""
    return Partial(message.utterance_index, message.text, message.is_final, message.trace_id)


#: What a result must have to be one. The rest is the node's word, which may be anything.
_NEEDED: Final = ["type", *(field.name for field in msgspec.structs.fields(TranslationResult) if field.required)]


def bare_result(data: str | bytes) -> TranslationResult | None:
    """A result without what cannot be read of it; None: it is none."""
    try:
        said = msgspec.json.decode(data, type=dict[str, Any])
        return msgspec.convert({name: said[name] for name in _NEEDED}, TranslationResult)
    except (msgspec.DecodeError, UnicodeError, KeyError):
        return None


def result_of(message: TranslationResult) -> Result:
    """As the app sees it. Speech that is not base64 is no speech."""
    try:
        speech = base64.b64decode(message.tts_audio, validate=True)
    except (binascii.Error, ValueError):
        speech = b""
    return Result(
        utterance_index=message.utterance_index,
        text_asr=message.text_asr,
        text_translated=message.text_translated,
        tts_audio=speech,
        tts_format=message.tts_format,
        job_id=message.job_id,
        trace_id=message.trace_id,
        service_timings=message.service_timings,
        network_timings=message.network_timings,
        extra=message.extra,
    )


def reason_of(error: ErrorMessage) -> str:
    """The reason that the `missing_result` of whatever this refused will have."""
    return missing_reason(error.error)


def missing_of(message: MissingResult, cause: ErrorMessage | None) -> Missing:
    """As the app sees it. `cause`: the `error` that announced it, if there was one."""
    reason = message.reason
    if cause is not None:
        return Missing(
            message.utterance_index,
            reason,
            cause.error,
            cause.detail,
            cause.retryable,
            seconds(cause.retry_after_ms),
            message.trace_id,
        )
    code = _CODE_OF.get(reason, reason.upper())
    known = CODES.get(code)
    detail = RESULT_CODES.get(code, f"there is no result: {reason}")
    retryable = reason in _AGAIN or (known is not None and known.retryable)
    return Missing(message.utterance_index, reason, code, detail, retryable, None, message.trace_id)
