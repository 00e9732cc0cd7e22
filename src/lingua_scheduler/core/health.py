"""How well a node does: what makes it suspect, and one number for how healthy it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.records import Standing

if TYPE_CHECKING:
    from lingua_scheduler.core.records import NodeRecord

#: A node is suspect when it failed so many of its last jobs. Three in a row are three of the last five.
WINDOW: Final = 5
FAILURES: Final = 3

#: So often gone and back within a window, and a node is damped. How often it was gone is one number, with a digit for
#: each part of the window; so many in one part are as many as more.
FLAPS: Final = 3
FLAP_PARTS: Final = 10
FLAP_BASE: Final = 32

#: What a perfect node has, and what it loses for each failure among its last jobs, for being full, and for slow acks.
PERFECT: Final = 100
FOR_A_FAILURE: Final = 12
FOR_FULL: Final = 20
FOR_SLOW_ACKS: Final = 20
SLOW_ACK_MS: Final = 50


def failures(record: NodeRecord) -> int:
    """How many of its last jobs a node failed."""
    return record.recent.bit_count()


def is_suspect(record: NodeRecord) -> bool:
    """Whether it is under suspicion."""
    return failures(record) >= FAILURES


def is_doubted(standing: Standing, *, suspect: bool) -> bool:
    """Whether a node is under suspicion and is given jobs all the same: now, when it has a slot, or when it has rested.

    How it stands does not tell: while it may be tried with a job, it is `available`.
    """
    return suspect and standing <= Standing.resting


def health(record: NodeRecord) -> int:
    """From 0 to 100. Among equally loaded nodes the healthier is chosen by `least_loaded`."""
    load = FOR_FULL * min(record.used, record.max) // record.max
    slowness = min(FOR_SLOW_ACKS, record.ack_ms // SLOW_ACK_MS)
    return PERFECT - FOR_A_FAILURE * failures(record) - load - slowness
