"""The last phase: the client says no more, and gets what it is owed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.core.refusal import refuse
from lingua_scheduler.front.sessions.effects import Effect, Finish, Write
from lingua_scheduler.protocol.errors import error_message

if TYPE_CHECKING:
    from lingua_scheduler.core.cutting import Cutting
    from lingua_scheduler.front.sessions.ledger import Ledger


class Closing:
    """A session that only waits for its answers."""

    def __init__(self, ledger: Ledger, cutting: Cutting | None) -> None:
        """`cutting`: how far its stream had come; None: that is not known."""
        self.ledger = ledger
        self.cutting = cutting
        self._is_finishing = False

    def hear(self) -> list[Effect]:
        """Whatever is said now comes too late."""
        return [Write(error_message(refuse("SESSION_CLOSED"), self.ledger.about.trace_id))]

    def save(self) -> Cutting | None:
        """How far its stream had come."""
        return self.cutting

    @property
    def has_heard_all(self) -> bool:
        """Everything that was said has its number: whoever goes on from what is saved knows of it."""
        return self.ledger.coming_index == self.ledger.next_index

    @property
    def due_ms(self) -> int:
        """When time alone will change something."""
        return self.ledger.due_ms

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed."""
        return self.ledger.tick(now_ms)

    def finish(self) -> list[Effect]:
        """Once, when everything has been announced to a client that is there."""
        if self._is_finishing or self.ledger.away_since_ms is not None or not self.ledger.is_settled:
            return []
        self._is_finishing = True
        return [Finish()]

    def came_back(self) -> None:
        """The client lost its socket before it had read that it has everything: it is told again."""
        self._is_finishing = False
