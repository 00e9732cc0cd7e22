"""bury: nobody could make use of a letter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_int
from lingua_scheduler.core.letter import MAX_REASON_CHARS, Parcel, check_instance, check_letter
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.mail import check_number
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DEAD_LETTERS

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Buried(Answer, frozen=True, tag="BURIED"):
    """It is among the dead letters; `is_new`: until now it was not."""

    is_new: bool


_BURY: Final = Face("flows/bury", Buried)


async def bury(engine: Engine, parcel: Parcel, reason: str) -> Buried | Refusal:
    """Keep a letter that failed, and why. It is still in its inbox: whoever buried it settles it next."""
    try:
        item = _item(parcel, reason)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _BURY(engine, DEAD_LETTERS, item)
    assert isinstance(answer, Buried)  # noqa: S101 - it refuses nothing
    return answer


def _item(parcel: object, reason: object) -> bytes:
    if not isinstance(parcel, Parcel) or type(reason) is not str:
        raise Invalid("a parcel is buried, with a reason in words")
    check_instance(parcel.instance)
    check_number(parcel.number)
    deliveries = check_int("deliveries", parcel.deliveries, 0, 2**31)
    # Whatever was raised: what cannot be written is not worth losing a letter for.
    told = reason.encode(errors="replace").decode()[:MAX_REASON_CHARS]
    return pack((parcel.id, (parcel.instance, told, deliveries, check_letter(parcel.letter))))
