"""instance: what an instance says of itself, and how full its inbox is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from lingua_scheduler.core.letter import Presence, check_instance
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import instance_tag

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class InstanceView(Answer, frozen=True, tag="INSTANCE"):
    """`presence` is False if it is not there. Of the letters in its inbox so many were taken and are not settled.

    `left_ms`: for how long its presence lasts if it says nothing more.
    """

    presence: Presence | Literal[False]
    letters: int
    taken: int
    left_ms: int


_INSTANCE: Final = Face("views/instance", InstanceView)


async def read_instance(engine: Engine, instance_id: str) -> InstanceView | Refusal:
    """Look at one instance, whether or not it is there."""
    try:
        tag = instance_tag(check_instance(instance_id))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _INSTANCE(engine, tag, pack(()))
    assert isinstance(answer, InstanceView)  # noqa: S101 - it refuses nothing
    return answer
