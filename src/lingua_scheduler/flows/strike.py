"""strike: an instance whose inbox is closed leaves the directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.letter import check_instance
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.mail import check_beat
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Struck(Answer, frozen=True, tag="STRUCK"):
    """`was_there`: it stood there with this beat, and does not any more."""

    was_there: bool


_STRIKE: Final = Face("flows/strike", Struck)


async def strike(engine: Engine, instance_id: str, beat: int) -> Struck | Refusal:
    """Take an instance out of the directory that has not beaten since."""
    try:
        item = pack((check_instance(instance_id), check_beat(beat)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _STRIKE(engine, DIRECTORY, item)
    assert isinstance(answer, Struck)  # noqa: S101 - it refuses nothing
    return answer
