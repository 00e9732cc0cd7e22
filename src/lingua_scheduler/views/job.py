"""job: everything known of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.records import JobRecord, Ticket
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No
from lingua_scheduler.store.following import GoneOn, follow

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Job(Answer, frozen=True, tag="JOB"):
    """A job as it is now. Its text is "" once it is erased, or if there never was any."""

    record: JobRecord
    ticket: Ticket
    payload: str
    result: str


_JOB: Final = Face[Job | GoneOn]("views/job", Job, GoneOn, refuses=("UNKNOWN_JOB",))


async def read_job(engine: Engine, job_id: str) -> Job | Refusal:
    """Look at one job."""
    try:
        found = await follow(_JOB, engine, job_id, 0)
    except Invalid as invalid:
        return invalid.refusal
    answer = found.answer
    assert not isinstance(answer, GoneOn)  # noqa: S101 - it was followed
    return refuse(answer.code, job_id=job_id) if isinstance(answer, No) else answer
