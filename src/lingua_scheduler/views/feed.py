"""feed: what happened to the fleet, as people are told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_int, check_text
from lingua_scheduler.core.notice import MAX_KEPT, Notice
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, No, pack
from lingua_scheduler.store.keys import FEED

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

_is_id: Final = re.compile(r"[0-9]{1,18}-[0-9]{1,18}").fullmatch
_MAX_ID_CHARS: Final = 40


class _Feed(Answer, frozen=True, tag="FEED"):
    notices: list[tuple[str, Notice]]


_FEED: Final = Face("views/feed", _Feed)


def _after(value: object) -> str:
    if check_text("after", value, _MAX_ID_CHARS) and not _is_id(str(value)):
        raise Invalid("after must be the id of an event")
    return str(value)


async def read_feed(engine: Engine, after: str = "", limit: int = 100) -> list[tuple[str, Notice]] | Refusal:
    """The notices that came after this one, at most so many; without one the last. Each with its id, oldest first."""
    try:
        item = pack((_after(after), check_int("limit", limit, 1, MAX_KEPT)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _FEED(engine, FEED, item)
    assert not isinstance(answer, No)  # noqa: S101 - it refuses nothing
    return answer.notices
