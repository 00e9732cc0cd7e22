"""vanish: an instance ends, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.letter import Presence
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.mail import check_slot
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Vanished(Answer, frozen=True, tag="VANISHED"):
    """It is not there; `was_there`: until now it was."""

    was_there: bool


_VANISH: Final = Face("flows/vanish", Vanished)


async def vanish(engine: Engine, presence: Presence) -> Vanished | Refusal:
    """End a presence that is still as it was said last."""
    try:
        if not isinstance(presence, Presence):
            raise Invalid("presence must be one")  # noqa: TRY301 - as the checks do
        tag = check_slot(presence.instance)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _VANISH(engine, tag, pack(presence))
    assert isinstance(answer, Vanished)  # noqa: S101 - it refuses nothing
    return answer
