"""take_seat: somebody shows a link, and has its seat for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_int
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.flows.seats import MAX_SEAT_MS, check_digest, check_place
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Seated(Answer, frozen=True, tag="SEATED"):
    """He has it: under this name, perhaps only to look, until then."""

    name: str
    reads_only: bool
    until_ms: int


_TAKE_SEAT: Final = Face("flows/take_seat", Seated, refuses=("LINK_GONE",))


async def take_seat(engine: Engine, place: str, digest: str, ttl_ms: int) -> Seated | Refusal:
    """Use the link whose digest is `place` up. From now on whoever shows the secret of `digest` has the seat."""
    try:
        tag = check_place(place)
        item = pack((check_digest("digest", digest), check_int("ttl_ms", ttl_ms, 1, MAX_SEAT_MS)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _TAKE_SEAT(engine, tag, item)
    return refuse(answer.code) if isinstance(answer, No) else answer
