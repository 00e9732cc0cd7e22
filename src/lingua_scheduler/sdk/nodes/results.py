"""From what a handler returned, or raised, to the one message that ends its attempt."""

from __future__ import annotations

import base64
import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.protocol.codec import Undecodable, encode
from lingua_scheduler.protocol.failures import MAX_REST_MS
from lingua_scheduler.protocol.fields import cut
from lingua_scheduler.protocol.node import JobError as ErrorWords
from lingua_scheduler.protocol.node import JobNack, JobResult, read_from_node
from lingua_scheduler.sdk.nodes.job import JobError

if TYPE_CHECKING:
    from lingua_scheduler.protocol.node import JobAssign
    from lingua_scheduler.sdk.nodes.attempts import Answer

#: What a handler may return. At least one of the first three.
CONTENT: Final = ("text_asr", "text_translated", "tts_audio")
MORE: Final = (
    "tts_format",
    "extra",
    "asr_quality_level",
    "reason_codes",
    "quality_score",
    "rerun_count",
    "segments_meta",
)
#: A result that is larger would close the socket.
MAX_RESULT_BYTES: Final = 4 * 1024 * 1024
_MAX_SHOWN: Final = 300
_MAX_DETAILS: Final = 16 * 1024
_LIKE_THIS: Final = 'return {"text_asr": "…", "text_translated": "…", "tts_audio": b"…"}, or some of these'


class Rubbish(JobError):
    """What came back from a handler is no result; it says what one is."""

    def __init__(self, what: str) -> None:
        super().__init__("INVALID_RESULT", f"the handler {what}; {_LIKE_THIS}")


def result_of(message: JobAssign, node_id: str | None, returned: object, took_ms: int) -> JobResult:
    """The message for what a handler returned; `Rubbish` if that is no result."""
    said = _checked(returned)
    speech = said.pop("tts_audio", None)
    if speech is not None:
        said["tts_audio"] = base64.b64encode(speech).decode()
        said.setdefault("tts_format", "wav" if bytes(speech[:4]) == b"RIFF" else "pcm16")
    try:
        raw = encode({"type": "job_result", "success": True} | _ended(message, node_id, took_ms) | said)
    except (TypeError, ValueError, RecursionError) as error:
        raise Rubbish(f"returned something that JSON cannot say ({_cut(str(error))})") from None
    if len(raw) > MAX_RESULT_BYTES:
        raise Rubbish(f"returned {len(raw)} bytes, and {MAX_RESULT_BYTES} fit into a message")
    return _read(raw)


def _read(raw: bytes) -> JobResult:
    """The message as the scheduler will read it: what it would refuse is told here, where it can be mended."""
    try:
        result = read_from_node(raw)
    except Undecodable as undecodable:
        raise Rubbish(f"returned something that does not fit ({_cut(str(undecodable))})") from None
    if not isinstance(result, JobResult):
        raise TypeError(f"a result became {type(result).__name__}")
    return result


def _cut(text: str) -> str:
    """Text for an error: not for ever so long, and such that it can be written."""
    return cut(text, _MAX_SHOWN).encode("utf-8", "replace").decode()


def _checked(returned: object) -> dict[str, Any]:
    """What of it is said. None is the same as left out."""
    if not isinstance(returned, Mapping):
        raise Rubbish(f"returned {'nothing' if returned is None else type(returned).__name__}")
    unknown = [name for name in returned if name not in CONTENT + MORE]
    if unknown:
        name = str(unknown[0])
        near = difflib.get_close_matches(name, CONTENT + MORE, 1)
        hint = f"did you mean {near[0]!r}?" if near else "what is your own goes into 'extra'"
        raise Rubbish(f"returned {cut(name, 40)!r}, which is not part of a result ({hint})")
    said = {name: value for name, value in returned.items() if value is not None}
    if not any(name in said for name in CONTENT):
        raise Rubbish("returned none of " + ", ".join(CONTENT))
    for name in ("text_asr", "text_translated", "tts_format"):
        if not isinstance(said.get(name, ""), str):
            raise Rubbish(f"returned {name} as {type(said[name]).__name__}, not str")
    speech = said.get("tts_audio", b"")
    if not isinstance(speech, bytes | bytearray | memoryview):
        raise Rubbish(f"returned tts_audio as {type(speech).__name__}, not bytes")
    return said


def failure_of(message: JobAssign, node_id: str | None, error: BaseException, took_ms: int = 0) -> Answer:
    """The message for what a handler raised."""
    named = error if isinstance(error, JobError) else _named(error)
    details = _details(named)
    if named.retry_after_ms is not None:
        rest_ms = min(max(0, named.retry_after_ms), MAX_REST_MS)
        return JobNack(**about(message, node_id), reason=_cut(str(named)), retry_after_ms=rest_ms, details=details)
    words = ErrorWords(code=_cut(named.code), message=_cut(named.message), details=details)
    return JobResult(**_ended(message, node_id, took_ms), success=False, error=words)


def _named(error: BaseException) -> JobError:
    said = str(error)
    return JobError("HANDLER_FAILED", f"{type(error).__name__}: {said}" if said else type(error).__name__)


def _details(error: JobError) -> dict[str, Any] | None:
    """Only what can be written and read: an error about an error would help nobody."""
    ours = {} if error.retryable else {"retryable": False}
    details = dict(error.details or {}) | ours
    try:
        raw = encode({"type": "node_error", "code": "", "details": details})
        read_from_node(raw)
    except (TypeError, ValueError, RecursionError):
        return ours or None
    return (details if len(raw) <= _MAX_DETAILS else ours) or None


def about(message: JobAssign, node_id: str | None) -> dict[str, Any]:
    """By what every word about an attempt names it."""
    return {
        "job_id": message.job_id,
        "attempt_id": message.attempt_id,
        "node_id": node_id,
        "session_id": message.session_id,
        "trace_id": message.trace_id,
    }


def _ended(message: JobAssign, node_id: str | None, took_ms: int) -> dict[str, Any]:
    """The same for its result."""
    return about(message, node_id) | {
        "utterance_index": message.utterance_index,
        "group_id": message.group_id,
        "part_index": message.part_index,
        "processing_time_ms": took_ms,
    }
