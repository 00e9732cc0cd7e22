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


class Taken(Answer, frozen=True, tag="TAKEN"):
    """Another process is there under its name, and says this of itself."""

    presence: Presence


_APPEAR: Final = Face[Appeared | Closed | Taken]("flows/appear", Appeared, Closed, Taken)


async def appear(
    engine: Engine, presence: Presence, beat: int, gone_since_ms: int = 0
) -> Appeared | Closed | Taken | Refusal:
    """Beat once, with the beat that `enlist` gave.

    `gone_since_ms`: when the process started that had the name before, and is known to be gone.
    """
    try:
        if not isinstance(presence, Presence):
            raise Invalid("presence must be one")  # noqa: TRY301 - as the checks do
        tag = check_slot(presence.instance)
        item = pack((check_beat(beat), check_beat(gone_since_ms)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _APPEAR(engine, tag, item, pack(presence))
    assert not isinstance(answer, No)  # noqa: S101 - it refuses nothing
    return answer
