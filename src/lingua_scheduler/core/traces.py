"""W3C trace context, and which span of a trace a job is.

The span of a job has an id that follows from the job's: so every instance, and every node that is told of the job,
knows it without being told, and nothing more has to be kept. Whether a trace is recorded follows from its id, too.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_TRACE: Final = re.compile(r"(?!0{32})[0-9a-f]{32}").fullmatch


def read_parent(text: str | None) -> tuple[str, str, str] | None:
    """Trace, span and flags of a `traceparent`; None: it is none."""
    found = _PARENT.fullmatch(text) if text is not None else None
    return (found[1], found[2], found[3]) if found else None


def trace_in(text: str | None) -> str | None:
    """The trace that a `traceparent` names."""
    found = read_parent(text)
    return found[0] if found else None


def trace_number(trace_id: str) -> int:
    """A trace id as a number. One that somebody made up in another form stands for a number of its own."""
    return int(trace_id, 16) if _TRACE(trace_id) else _number(trace_id, 16)


def span_number(job_id: str) -> int:
    """The span of a job."""
    return _number(job_id, 8)


def _number(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1


def parent_of(trace_id: str, job_id: str) -> str:
    """The `traceparent` of whoever works for a job."""
    return f"00-{trace_number(trace_id):032x}-{span_number(job_id):016x}-01"
