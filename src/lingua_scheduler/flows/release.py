"""release: the client has the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No
from lingua_scheduler.store.following import GoneOn, follow

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Released(Answer, frozen=True, tag="RELEASED"):
    """The job's text is erased; its record stays for a while."""

    state: State
    released_at_ms: int


_RELEASE: Final = Face[Released | GoneOn]("flows/release", Released, GoneOn, refuses=("UNKNOWN_JOB", "NOT_ENDED"))


async def release(engine: Engine, job_id: str) -> Released | Refusal:
    """Erase what was said and what came of it, now that the client has confirmed it."""
    try:
        found = await follow(_RELEASE, engine, job_id, 0)
    except Invalid as invalid:
        return invalid.refusal
    answer = found.answer
    assert not isinstance(answer, GoneOn)  # noqa: S101 - it was followed
    return refuse(answer.code, job_id=job_id) if isinstance(answer, No) else answer
