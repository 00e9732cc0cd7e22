"""Utterances that stand in line for their number, in the order in which they were said."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.front.sessions.said import Said

if TYPE_CHECKING:
    from collections.abc import Iterator


class _InLine(msgspec.Struct):
    """Waits for its number, or, if it is refused, for its turn to be announced."""

    said: Said
    refusal: Refusal | None = None
    asked: bool = False


class Line:
    """One number is asked for at a time: for the first in line."""

    def __init__(self) -> None:
        self._line: deque[_InLine] = deque()

    def __len__(self) -> int:
        return len(self._line)

    @property
    def number(self) -> int:
        """How many are not refused."""
        return sum(one.refusal is None for one in self._line)

    @property
    def size(self) -> int:
        """How many bytes of audio that are."""
        return sum(len(one.said.audio) for one in self._line)

    def stand(self, said: Said, refusal: Refusal | None) -> None:
        """The last in line."""
        self._line.append(_InLine(said, refusal))

    def refused(self) -> Iterator[tuple[Said, Refusal]]:
        """Take those who stand first in line and are refused."""
        while self._line and self._line[0].refusal is not None:
            first = self._line.popleft()
            assert first.refusal is not None  # noqa: S101 - just seen
            yield first.said, first.refusal

    def to_ask(self) -> Said | None:
        """The first in line, if its number is to be asked for: once."""
        if not self._line or self._line[0].asked:
            return None
        self._line[0].asked = True
        return self._line[0].said

    def take(self) -> Said:
        """The first in line has its number."""
        return self._line.popleft().said

    def refuse(self, refusal: Refusal, *, everybody: bool) -> list[Said]:
        """The first in line may not go on, or nobody may: who hears that now."""
        told = []
        for one in self._line if everybody else [self._line[0]]:
            if one.refusal is None:
                one.refusal = refusal
                told.append(one.said)
        return told

    def clear(self) -> None:
        """Nobody waits any more."""
        self._line.clear()
