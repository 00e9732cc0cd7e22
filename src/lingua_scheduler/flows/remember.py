"""remember: where a job of a session went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import cell_of, check_id, check_int, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.core.ticket import LAST_INDEX
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import session_tag

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Remembered(Answer, frozen=True, tag="REMEMBERED"):
    """It is written down, for a while."""


_REMEMBER: Final = Face("flows/remember", Remembered)


async def remember(
    engine: Engine,
    session_id: str,
    node_id: str,
    *,
    pool: str = "",
    bind_key: str = "",
    utterance_index: int = -1,
    job_id: str = "",
) -> Remembered | Refusal:
    """Write down that a job of this session went to this node, as a piece of that turn.

    Where that job goes later its record tells: whoever recalls the utterance looks there.
    """
    try:
        if job_id:
            cell_of(job_id)
        tag = session_tag(check_id("session_id", session_id))
        item = pack(
            (
                check_id("node_id", node_id),
                check_text("pool", pool, 128),
                check_id("bind_key", bind_key) if bind_key else "",
                check_int("utterance_index", utterance_index, -1, LAST_INDEX),
                job_id,
            )
        )
    except Invalid as invalid:
        return invalid.refusal
    answer = await _REMEMBER(engine, tag, item)
    assert isinstance(answer, Remembered)  # noqa: S101 - it refuses nothing
    return answer
