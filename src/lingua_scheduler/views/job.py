"""job: everything known of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import cell_of
from lingua_scheduler.core.records import JobRecord, Ticket
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Job(Answer, frozen=True, tag="JOB"):
    """A job as it is now. Its text is "" once it is erased, or if there never was any."""

    record: JobRecord
    ticket: Ticket
    payload: str
    result: str


_JOB: Final = Face("views/job", Job, refuses=("UNKNOWN_JOB",))


async def read_job(engine: Engine, job_id: str) -> Job | Refusal:
    """Look at one job."""
    try:
        cell = cell_of(job_id)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _JOB(engine, cell, pack((job_id,)))
    return refuse(answer.code, job_id=job_id) if isinstance(answer, No) else answer
