"""unbury: a dead letter was replayed, or nobody wants it any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_text
from lingua_scheduler.core.letter import MAX_LETTER_ID_CHARS
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No, pack
from lingua_scheduler.store.keys import DEAD_LETTERS

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Unburied(Answer, frozen=True, tag="UNBURIED"):
    """It is gone."""


_UNBURY: Final = Face("flows/unbury", Unburied, refuses=("UNKNOWN_LETTER",))


async def unbury(engine: Engine, letter_id: str) -> Unburied | Refusal:
    """Take a letter out of the dead ones, for good."""
    try:
        item = pack((check_text("letter_id", letter_id, MAX_LETTER_ID_CHARS),))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _UNBURY(engine, DEAD_LETTERS, item)
    return refuse(answer.code, letter_id=letter_id) if isinstance(answer, No) else answer
