"""erase_audio: nobody needs the audio any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.audios import check_ref
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Erased(Answer, frozen=True, tag="ERASED"):
    """It is gone; `existed`: until now it was there."""

    existed: bool


_ERASE_AUDIO: Final = Face("flows/erase_audio", Erased)


async def erase_audio(engine: Engine, ref: str) -> Erased | Refusal:
    """Erase audio at once. What is not there any more is erased too."""
    try:
        tag = check_ref(ref)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _ERASE_AUDIO(engine, tag, pack(()))
    assert isinstance(answer, Erased)  # noqa: S101 - it refuses nothing
    return answer
