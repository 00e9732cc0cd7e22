"""offer_seat: a link comes to stand for a seat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_bool, check_int, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.seats import MAX_NAME_CHARS, MAX_SEAT_MS, check_place
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Offered(Answer, frozen=True, tag="OFFERED"):
    """Whoever shows the link in time has the seat."""


_OFFER_SEAT: Final = Face("flows/offer_seat", Offered)


async def offer_seat(engine: Engine, place: str, name: str, *, reads_only: bool, ttl_ms: int) -> Offered | Refusal:
    """Offer a seat to whoever shows the link whose digest is `place`."""
    try:
        tag = check_place(place)
        words = check_text("name", name, MAX_NAME_CHARS), check_bool("reads_only", reads_only)
        item = pack((*words, check_int("ttl_ms", ttl_ms, 1, MAX_SEAT_MS)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _OFFER_SEAT(engine, tag, item)
    assert isinstance(answer, Offered)  # noqa: S101 - it refuses nothing
    return answer
