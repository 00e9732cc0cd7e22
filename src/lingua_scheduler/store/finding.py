"""What a check of the engine found: how bad it is, what it is, where, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum


class Level(IntEnum):
    """How bad it is; the worst one counts."""

    OK = 0
    #: Something small is missing, and may be meant so.
    HINT = 1
    WARNING = 2
    UNFIT = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `said` is what `where` is or does; `fix` is a command or a setting."""

    check: str
    level: Level
    said: str
    where: str = ""
    fix: str = ""

    def __str__(self) -> str:
        """One sentence, the fix at its end."""
        between = ": " if self.level is Level.UNFIT else "; "
        return f"{self.where} {self.said}{between}{self.fix}" if self.fix else f"{self.where} {self.said}"

    def at(self, where: str) -> Finding:
        """The same of this server."""
        return replace(self, where=where)
