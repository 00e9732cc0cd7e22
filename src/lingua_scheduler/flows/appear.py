"""appear: an instance is there, for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.letter import Presence
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.mail import check_beat, check_slot
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Appeared(Answer, frozen=True, tag="APPEARED"):
    """Others can write to it. `was_there`: until now they could, too."""

    was_there: bool


class Closed(Answer, frozen=True, tag="CLOSED"):
    """Its inbox was closed since it enlisted: it must enlist again."""


_APPEAR: Final = Face[Appeared | Closed]("flows/appear", Appeared, Closed)


async def appear(engine: Engine, presence: Presence, beat: int) -> Appeared | Closed | Refusal:
    """Beat once, with the beat that `enlist` gave."""
    try:
        if not isinstance(presence, Presence):
            raise Invalid("presence must be one")  # noqa: TRY301 - as the checks do
        tag = check_slot(presence.instance)
        item = pack((check_beat(beat),))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _APPEAR(engine, tag, item, pack(presence))
    assert not isinstance(answer, No)  # noqa: S101 - it refuses nothing
    return answer
