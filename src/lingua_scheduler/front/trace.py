"""The thread that runs through everything done for one request: W3C trace context."""

from __future__ import annotations

import random

import msgspec

from lingua_scheduler.core.traces import read_parent


class Trace(msgspec.Struct, frozen=True):
    """A trace id, and whether somebody records it."""

    id: str
    flags: str = "01"

    @classmethod
    def of(cls, parent: str | None) -> Trace:
        """The caller's, or a new one."""
        found = None if parent is None else read_parent(parent)
        return cls(found[0], found[2]) if found else cls(f"{random.getrandbits(128):032x}")

    @property
    def parent(self) -> str:
        """The `traceparent` of the answer: the same trace, our own part of it."""
        return f"00-{self.id}-{random.getrandbits(63) + 1:016x}-{self.flags}"
