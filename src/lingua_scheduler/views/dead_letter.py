"""dead_letter: one that nobody could make use of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_text
from lingua_scheduler.core.letter import MAX_LETTER_ID_CHARS, DeadLetter
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No, pack
from lingua_scheduler.store.keys import DEAD_LETTERS

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class _DeadLetter(Answer, frozen=True, tag="DEAD_LETTER"):
    dead: DeadLetter


_DEAD_LETTER: Final = Face("views/dead_letter", _DeadLetter, refuses=("UNKNOWN_LETTER",))


async def read_dead_letter(engine: Engine, letter_id: str) -> DeadLetter | Refusal:
    """Look one up."""
    try:
        item = pack((check_text("letter_id", letter_id, MAX_LETTER_ID_CHARS),))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _DEAD_LETTER(engine, DEAD_LETTERS, item)
    return refuse(answer.code, letter_id=letter_id) if isinstance(answer, No) else answer.dead
