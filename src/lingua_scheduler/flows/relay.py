"""relay: take what happened out of a cell's outbox, and confirm what was handed over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_int
from lingua_scheduler.core.records import Event
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.store.engine import Engine

RELAY_LIMIT: Final = 100


class Taken(Answer, frozen=True, tag="TAKEN"):
    """Entries that are this relay's to hand over, until its lease on them is over."""

    events: list[Event]


_RELAY: Final = Face("flows/relay", Taken)


def _item(limit: object, events: object) -> bytes:
    wrong = Invalid("handed_over must be entries that a relay took")
    if not isinstance(events, list | tuple) or not all(isinstance(event, Event) for event in events):
        raise wrong
    try:
        return pack((check_int("limit", limit, 0, 10_000), events))
    except (TypeError, UnicodeEncodeError, OverflowError):
        raise wrong from None


async def relay(
    engine: Engine, cell: str, handed_over: Sequence[Event] = (), limit: int = RELAY_LIMIT
) -> Taken | Refusal:
    """Delete the entries that were handed over and take the next ones. What is never confirmed comes back."""
    try:
        cell = check_cell(cell)
        item = _item(limit, handed_over)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _RELAY(engine, cell, item)
    assert isinstance(answer, Taken)  # noqa: S101 - it refuses nothing
    return answer
