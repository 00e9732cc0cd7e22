"""take_over: the letters of an instance that is gone become another's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.letter import check_instance
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.mail import Told, check_limit, check_slot
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Inherited(Answer, frozen=True, tag="LETTERS"):
    """The owner is gone, or it is his own inbox; these are the reader's now."""

    letters: list[Told]


class Alive(Answer, frozen=True, tag="ALIVE"):
    """The owner is there, and reads his letters himself."""


_TAKE_OVER: Final = Face[Inherited | Alive]("flows/take_over", Inherited, Alive)


async def take_over(engine: Engine, owner: str, reader: str, limit: int) -> Inherited | Alive | Refusal:
    """Take letters of an instance that is gone: its own at once, others' when their lease is over."""
    try:
        tag = check_slot(owner)
        item = pack((owner, check_instance(reader), check_limit(limit)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _TAKE_OVER(engine, tag, item)
    assert not isinstance(answer, No)  # noqa: S101 - it refuses nothing
    return answer
