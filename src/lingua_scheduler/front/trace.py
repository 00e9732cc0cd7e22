"""The thread that runs through everything done for one request: W3C trace context."""

from __future__ import annotations

import random
import re
from typing import Final

import msgspec

_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(?:-.*)?")


class Trace(msgspec.Struct, frozen=True):
    """A trace id, and whether somebody records it."""

    id: str
    flags: str = "01"

    @classmethod
    def of(cls, parent: str | None) -> Trace:
        """The caller's, or a new one."""
        found = _PARENT.fullmatch(parent) if parent is not None else None
        return cls(found[1], found[2]) if found else cls(f"{random.getrandbits(128):032x}")

    @property
    def parent(self) -> str:
        """The `traceparent` of the answer: the same trace, our own part of it."""
        return f"00-{self.id}-{random.getrandbits(63) + 1:016x}-{self.flags}"
