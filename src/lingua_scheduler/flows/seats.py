"""What the flows of a seat have in common: where it is, and how long anything about it may be."""

from __future__ import annotations

from typing import Final

from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.core.seat import is_place
from lingua_scheduler.store.keys import seat_tag

MAX_NAME_CHARS: Final = 128
MAX_SEAT_MS: Final = 30 * 86_400_000


def check_place(value: object) -> str:
    """The slot of a seat."""
    return seat_tag(check_digest("place", value))


def check_digest(name: str, value: object) -> str:
    """A digest, as it is kept."""
    if not is_place(value):
        raise Invalid(f"{name} must be a digest")
    return str(value)
