"""Instances and their letters in plain dicts: what every flow about them must answer, and what it must leave behind."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Lying:
    """A letter in an inbox: who took it, how often, and whether it lay with him for longer than the lease."""

    reader: str = ""
    deliveries: int = 0
    has_lapsed: bool = False


@dataclass
class Town:
    """Everything that is kept. Letters are known by their numbers, which grow."""

    now_ms: int
    most: int
    beats: dict[str, int] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)
    inboxes: dict[str, dict[str, Lying]] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)

    def enlist(self, who: str) -> int:
        self.beats[who] = max(self.now_ms, self.beats[who] + 1) if who in self.beats else self.now_ms
        return self.beats[who]

    def appear(self, who: str, beat: int) -> str:
        if self.closed.get(who) == beat:
            return "CLOSED"
        self.inboxes.setdefault(who, {})
        answer = "was there" if who in self.there else "was gone"
        self.there.add(who)
        return answer

    def vanish(self, who: str) -> bool:
        was_there = who in self.there
        self.there.discard(who)
        return was_there

    def close(self, who: str, beat: int) -> str:
        if who in self.there or self.inboxes.get(who):
            return "OPEN"
        self.inboxes.pop(who, None)
        self.closed[who] = beat
        return "CLOSED"

    def strike(self, who: str, beat: int) -> bool:
        if self.beats.get(who) != beat:
            return False
        del self.beats[who]
        return True

    def post(self, whom: str) -> str:
        if whom not in self.there:
            return "INSTANCE_GONE"
        return "INBOX_FULL" if len(self.inboxes[whom]) >= self.most else ""

    def collect(self, whose: str, reader: str, limit: int) -> list[tuple[str, int]]:
        new = [number for number, lying in self.inboxes.get(whose, {}).items() if not lying.reader]
        return [self._take(whose, number, reader) for number in new[:limit]]

    def collect_pending(self, whose: str, reader: str, limit: int) -> list[tuple[str, int]]:
        his = [number for number, lying in self.inboxes.get(whose, {}).items() if lying.reader == reader]
        return [self._take(whose, number, reader) for number in his[:limit]]

    def take_over(self, owner: str, reader: str, limit: int) -> list[tuple[str, int]] | None:
        """None: the owner is there."""
        if owner == reader:
            return self._take_lapsed(owner, reader, limit)
        if owner in self.there:
            return None
        taken = self.collect_pending_of(owner, reader, limit)
        taken += self.collect(owner, reader, limit)
        return taken + self._take_lapsed(owner, reader, limit)

    def collect_pending_of(self, owner: str, reader: str, limit: int) -> list[tuple[str, int]]:
        his = [number for number, lying in self.inboxes.get(owner, {}).items() if lying.reader == owner]
        return [self._take(owner, number, reader) for number in his[:limit]]

    def _take_lapsed(self, owner: str, reader: str, limit: int) -> list[tuple[str, int]]:
        lapsed = [number for number, lying in self.inboxes.get(owner, {}).items() if lying.has_lapsed]
        return [self._take(owner, number, reader) for number in lapsed[:limit]]

    def _take(self, whose: str, number: str, reader: str) -> tuple[str, int]:
        lying = self.inboxes[whose][number]
        lying.reader, lying.has_lapsed = reader, False
        lying.deliveries += 1
        return number, lying.deliveries

    def settle(self, whose: str, number: str) -> bool:
        return self.inboxes.get(whose, {}).pop(number, None) is not None
