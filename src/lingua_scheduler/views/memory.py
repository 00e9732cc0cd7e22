"""memory: where the last jobs of a session went, as hints for the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_id, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.core.wanted import Hints
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import session_tag

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class _Memory(Answer, frozen=True, tag="MEMORY"):
    node: str
    pool: str
    bound: str
    seen: list[str]


_MEMORY: Final = Face("views/memory", _Memory)


async def recall(engine: Engine, session_id: str, *, bind_key: str = "", utterance_index: int = -1) -> Hints | Refusal:
    """What is remembered of a session, this turn of it and this utterance."""
    try:
        tag = session_tag(check_id("session_id", session_id))
        turn = check_id("bind_key", bind_key) if bind_key else ""
        item = pack((turn, check_int("utterance_index", utterance_index, -1, 2**53)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _MEMORY(engine, tag, item)
    assert isinstance(answer, _Memory)  # noqa: S101 - it refuses nothing
    return Hints(answer.bound, answer.node, answer.pool, tuple(answer.seen))
