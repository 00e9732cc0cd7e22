"""What the demo counts while it runs, and what it says at the end."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from lingua_scheduler.core.job_state import ENDS


@dataclass(slots=True)
class Tally:
    """Counted on the callers' and the nodes' side: the engine's own numbers are compared with these."""

    submitted: int = 0
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    heard: Counter[str] = field(default_factory=Counter)
    retried: int = 0
    died: int = 0
    oversold: int = 0
    #: Of the last jobs only, so that a long demo does not grow.
    latencies_ms: deque[float] = field(default_factory=lambda: deque(maxlen=10_000))
    news: deque[str] = field(default_factory=lambda: deque(maxlen=6))

    @property
    def in_flight(self) -> int:
        """Jobs that were accepted and whose end nobody has heard of yet."""
        return self.accepted - sum(self.heard.values())

    def percentile_ms(self, share: float) -> float:
        """The latency below which this share of the last finished jobs lies."""
        ordered = sorted(self.latencies_ms)
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1) if ordered else 0.0

    def report(self, violations: list[str], counted: dict[str, int]) -> dict[str, object]:
        """One object whose numbers add up: accepted + refused = submitted, the ends = ended = accepted."""
        return {
            "submitted": self.submitted,
            "accepted": self.accepted,
            "refused": sum(self.refused.values()),
            "ended": sum(self.heard.values()),
            **{state.lower(): self.heard[state] for state in ENDS},
            "ended_in_engine": sum(counted.get(state, 0) for state in ENDS),
            "retried": self.retried,
            "nodes_died": self.died,
            "oversold": self.oversold,
            "p50_ms": self.percentile_ms(0.50),
            "p95_ms": self.percentile_ms(0.95),
            "audit_violations": len(violations),
        }
