"""close_inbox: an instance is gone, and no letter lies in its inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.mail import check_beat, check_slot
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Closed(Answer, frozen=True, tag="CLOSED"):
    """There is no inbox any more: whoever stands in the directory with this beat may be struck."""


class Open(Answer, frozen=True, tag="OPEN"):
    """The instance is there, or a letter is."""


_CLOSE_INBOX: Final = Face[Closed | Open]("flows/close_inbox", Closed, Open)


async def close_inbox(engine: Engine, instance_id: str, beat: int) -> Closed | Open | Refusal:
    """Close the inbox of an instance that stands in the directory with this beat."""
    try:
        tag = check_slot(instance_id)
        item = pack((check_beat(beat),))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _CLOSE_INBOX(engine, tag, item)
    assert not isinstance(answer, No)  # noqa: S101 - it refuses nothing
    return answer
