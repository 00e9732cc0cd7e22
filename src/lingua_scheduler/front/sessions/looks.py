"""When the jobs that a session waits for are looked at, in case nobody tells how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingua_scheduler.front.sessions.rules import SessionRules
    from lingua_scheduler.front.sessions.state import Sent

#: So many jobs are looked at at once.
_MAX_LOOKS: Final = 64


class Looks:
    """What is being placed here is not looked at: whoever places it says how that went."""

    def __init__(self, rules: SessionRules) -> None:
        self._rules = rules
        #: Nobody here knows whether they were placed: until when their jobs may still turn up.
        self._doubtful: dict[int, int] = {}

    def doubt(self, index: int, now_ms: int) -> None:
        """Its job may turn up for a while."""
        self._doubtful[index] = now_ms + self._rules.doubt_ms

    def is_doubtful(self, index: int) -> bool:
        """Whether nobody here knows if it was placed."""
        return index in self._doubtful

    def believe(self, index: int) -> None:
        """Its job turned up, or is being placed here, or nobody waits for it any more."""
        self._doubtful.pop(index, None)

    def are_for(self, index: int, known: Sent) -> bool:
        """Whether it is looked at at all."""
        return known.is_placed or index in self._doubtful

    def may_turn_up(self, index: int, now_ms: int) -> bool:
        """Whether a job that is not there may still come to be."""
        return now_ms < self._doubtful.get(index, 0)

    def at_ms(self, index: int, known: Sent, blocking: int | None) -> int | None:
        """When its job is to be looked at next: closely, if others wait for it, or nobody knows whether it exists."""
        if not self.are_for(index, known):
            return None
        closely = index == blocking or index in self._doubtful
        return known.looked_ms + (self._rules.look_closely_ms if closely else self._rules.look_ms)

    def due(self, awaited: Iterable[tuple[int, Sent]], blocking: int | None, now_ms: int) -> list[int]:
        """Which are to be looked at now."""
        dues = [(index, self.at_ms(index, known, blocking)) for index, known in awaited]
        return [index for index, at_ms in dues if at_ms is not None and at_ms <= now_ms][:_MAX_LOOKS]
