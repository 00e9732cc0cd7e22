"""leave_seat: whoever has a seat gives it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.seats import check_digest, check_place
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Unseated(Answer, frozen=True, tag="UNSEATED"):
    """He has it no more; `was_there`: until now he had."""

    was_there: bool


_LEAVE_SEAT: Final = Face("flows/leave_seat", Unseated)


async def leave_seat(engine: Engine, place: str, digest: str) -> Unseated | Refusal:
    """Give a seat up that has the secret of this digest."""
    try:
        tag = check_place(place)
        item = pack((check_digest("digest", digest),))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _LEAVE_SEAT(engine, tag, item)
    assert isinstance(answer, Unseated)  # noqa: S101 - it refuses nothing
    return answer
