"""note: something happened that people should see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.notice import check_notice
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, No
from lingua_scheduler.store.keys import FEED

if TYPE_CHECKING:
    from lingua_scheduler.core.notice import Notice
    from lingua_scheduler.store.engine import Engine


class Noted(Answer, frozen=True, tag="NOTED"):
    """It is in the feed, under this id."""

    id: str


class Known(Answer, frozen=True, tag="KNOWN"):
    """Somebody else has seen it, too, and has said so."""


_NOTE: Final = Face[Noted | Known]("flows/note", Noted, Known)


async def note(engine: Engine, notice: Notice) -> Noted | Known | Refusal:
    """Put a notice into the feed."""
    try:
        item = msgspec.msgpack.encode(check_notice(notice))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _NOTE(engine, FEED, item)
    assert not isinstance(answer, No)  # noqa: S101 - it refuses nothing
    return answer
