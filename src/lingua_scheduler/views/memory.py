"""memory: where the last jobs of a session went, as hints for the next one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_id, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.core.ticket import LAST_INDEX
from lingua_scheduler.core.wanted import MAX_NAMED, Hints
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import session_tag
from lingua_scheduler.views.whereabouts import At, read_whereabouts

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class _Memory(Answer, frozen=True, tag="MEMORY"):
    node: str
    pool: str
    bound: str
    seen: list[str]
    jobs: list[str]


_MEMORY: Final = Face("views/memory", _Memory)


async def recall(engine: Engine, session_id: str, *, bind_key: str = "", utterance_index: int = -1) -> Hints | Refusal:
    """What is remembered of a session, this turn of it and this utterance.

    An utterance was seen by the first node of each of its jobs, and by every other node that these jobs had until now.
    """
    try:
        tag = session_tag(check_id("session_id", session_id))
        turn = check_id("bind_key", bind_key) if bind_key else ""
        item = pack((turn, check_int("utterance_index", utterance_index, -1, LAST_INDEX)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _MEMORY(engine, tag, item)
    assert isinstance(answer, _Memory)  # noqa: S101 - it refuses nothing
    seen = answer.seen
    # Of an utterance that comes for the first time there is no job to look at: most cost nothing here.
    for job in await asyncio.gather(*(read_whereabouts(engine, job_id) for job_id in dict.fromkeys(answer.jobs))):
        if isinstance(job, At):
            seen += job.had
    return Hints(answer.bound, answer.node, answer.pool, tuple(dict.fromkeys(seen))[-MAX_NAMED:])
