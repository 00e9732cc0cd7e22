"""Utterances on their way: in line for their number, in the order in which they were said, and then to a node."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.front.sessions.said import Said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingua_scheduler.front.sessions.rules import SessionRules


class _InLine(msgspec.Struct):
    """Waits for its number, or, if it is refused, for its turn to be announced."""

    said: Said
    refusal: Refusal | None = None
    asked: bool = False


class Line:
    """One number is asked for at a time: for the first in line."""

    def __init__(self, rules: SessionRules) -> None:
        self._rules = rules
        self._line: deque[_InLine] = deque()
        #: What has its number and is being placed, and how many bytes of audio that are.
        self.unplaced: dict[int, int] = {}
        self.unplaced_bytes = 0
        #: Pieces of a stream that have their number and are not known to have their job.
        self.placing: dict[int, Said] = {}
        #: How many pieces have left, or were not let in.
        self.left = 0

    def __len__(self) -> int:
        return len(self._line)

    def room_for(self, size: int) -> Refusal | None:
        """Why no more audio may be on its way just now."""
        number = len(self.unplaced) + sum(one.refusal is None for one in self._line)
        size += self.unplaced_bytes + sum(len(one.said.audio) for one in self._line)
        if number < self._rules.max_unplaced and size <= self._rules.max_unplaced_bytes:
            return None
        return Refusal("RATE_LIMITED", "Too many utterances are on their way; wait until some have their node.")

    def goes(self, index: int, said: Said) -> None:
        """One that has its number is being placed."""
        self.unplaced[index] = len(said.audio)
        self.unplaced_bytes += len(said.audio)
        if said.turn_id is not None:
            self.placing[index] = said

    def went(self, index: int) -> None:
        """It is not being placed any more, or nobody waits for that."""
        self.unplaced_bytes -= self.unplaced.pop(index, 0)
        self.left += self.placing.pop(index, None) is not None

    def stand(self, said: Said, refusal: Refusal | None) -> None:
        """The last in line."""
        self.left += refusal is not None
        self._line.append(_InLine(said, refusal))

    def pieces(self) -> list[Said]:
        """Those of a stream that wait for their number."""
        return [one.said for one in self._line if one.refusal is None and one.said.turn_id is not None]

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

    @property
    def first(self) -> Said | None:
        """Who is next."""
        return self._line[0].said if self._line else None

    def take(self) -> Said:
        """The first in line has its number."""
        return self._line.popleft().said

    def refuse(self, refusal: Refusal, *, everybody: bool) -> list[Said]:
        """The first in line may not go on, or nobody may: who hears that now."""
        told = []
        for one in self._line if everybody else [self._line[0]]:
            if one.refusal is None:
                one.refusal = refusal
                self.left += 1
                told.append(one.said)
        return told

    def clear(self) -> None:
        """Nobody waits any more."""
        self._line.clear()
