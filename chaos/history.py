"""What every actor saw, as it saw it: one line for each event, appended at once, so that kill -9 loses none.

All actors are on one machine, so there is one clock for all of them, which nobody sets (CLOCK_MONOTONIC).
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_SUFFIX: Final = ".jsonl"


class Event(msgspec.Struct, omit_defaults=True):
    """Something that happened, and what it was about. `index` -1: about no utterance."""

    at_s: float
    actor: str
    what: str
    node: str = ""
    job: str = ""
    attempt: int = 0
    session: str = ""
    index: int = -1
    request: str = ""
    more: dict[str, Any] = {}


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Event).decode


class Pen:
    """Writes one actor's part of the history."""

    def __init__(self, folder: Path, actor: str) -> None:
        self.actor = actor
        self._fd = os.open(folder / f"{actor}{_SUFFIX}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(
        self,
        what: str,
        *,
        node: str = "",
        job: str = "",
        attempt: int = 0,
        session: str = "",
        index: int = -1,
        request: str = "",
        **more: Any,  # noqa: ANN401 - whatever tells the story
    ) -> None:
        """It happened now."""
        event = Event(time.monotonic(), self.actor, what, node, job, attempt, session, index, request, more)
        os.write(self._fd, _encode(event) + b"\n")

    def close(self) -> None:
        """Nothing more happens."""
        os.close(self._fd)


def read_history(folder: Path) -> list[Event]:
    """All parts in one, by time. A last line that is not whole is the half-written word of somebody who was killed."""
    events: list[Event] = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        lines = path.read_bytes().split(b"\n")
        events += [_decode(line) for line in lines[:-1]]
    return in_order(events)


def in_order(events: Iterable[Event]) -> list[Event]:
    """By time; what one actor wrote stays in its order."""
    return sorted(events, key=lambda event: event.at_s)
