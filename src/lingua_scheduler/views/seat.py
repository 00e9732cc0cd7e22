"""seat: who has a seat, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.core.seat import Seat, is_place
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import seat_tag

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class _Seat(Answer, frozen=True, tag="SEAT"):
    seat: list[Seat]


_SEAT: Final = Face("views/seat", _Seat)


async def read_seat(engine: Engine, place: str) -> Seat | Refusal | None:
    """The seat that the link of this digest made; None: there is none, or not any more."""
    if not is_place(place):
        return Invalid("place must be a digest").refusal
    answer = await _SEAT(engine, seat_tag(place), pack(()))
    assert isinstance(answer, _Seat)  # noqa: S101 - it refuses nothing
    return answer.seat[0] if answer.seat else None
