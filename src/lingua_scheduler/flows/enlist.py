"""enlist: an instance stands in the directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.letter import check_instance
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Enlisted(Answer, frozen=True, tag="ENLISTED"):
    """It stands there with this beat, the engine's time or a little more."""

    beat: int


_ENLIST: Final = Face("flows/enlist", Enlisted)


async def enlist(engine: Engine, instance_id: str) -> Enlisted | Refusal:
    """Write an instance into the directory, before it appears."""
    try:
        item = pack((check_instance(instance_id),))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _ENLIST(engine, DIRECTORY, item)
    assert isinstance(answer, Enlisted)  # noqa: S101 - it refuses nothing
    return answer
