"""dead_letters: what nobody could make use of, in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_int, check_text
from lingua_scheduler.core.letter import MAX_LETTER_ID_CHARS, DeadLetter
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DEAD_LETTERS

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class DeadLetters(Answer, frozen=True, tag="DEAD_LETTERS"):
    """A page, by id, which is by the time of posting; `total` is all there are."""

    page: list[tuple[str, DeadLetter]]
    total: int


_DEAD_LETTERS: Final = Face("views/dead_letters", DeadLetters)


async def read_dead_letters(engine: Engine, after: str = "", limit: int = 200) -> DeadLetters | Refusal:
    """The dead letters behind the id `after`; "": from the first on."""
    try:
        item = pack((check_text("cursor", after, MAX_LETTER_ID_CHARS), check_int("limit", limit, 1, 1_000)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _DEAD_LETTERS(engine, DEAD_LETTERS, item)
    assert isinstance(answer, DeadLetters)  # noqa: S101 - it refuses nothing
    return answer
