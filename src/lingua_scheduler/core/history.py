"""How the fleet was in the last hour: a point for each stretch of time, so that curves need nothing else installed."""

from __future__ import annotations

from typing import Final

from lingua_scheduler.core.records import Record

#: So long a stretch is, and so many of them are kept.
STRETCH_MS: Final = 10_000
STRETCHES: Final = 360


class Point(Record, frozen=True):
    """The fleet in one stretch of time, as it was last said; of the 95th percentile the slowest that was."""

    ready_nodes: int
    free_slots: int
    in_flight: int
    waiting: int
    finished_total: int
    failed_total: int
    dispatch_us: int
