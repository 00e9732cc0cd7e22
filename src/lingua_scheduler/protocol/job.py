"""Jobs as they are shown: the answers to `GET /v1/job/{job_id}` and `GET /v1/jobs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from lingua_scheduler.core.explain import last_attempt
from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.protocol.errors import END_CODES
from lingua_scheduler.protocol.fields import Message

if TYPE_CHECKING:
    from lingua_scheduler.core.records import JobRecord, Ticket


class AttemptAnswer(Message, frozen=True, kw_only=True):
    """One attempt and its end: a cause of docs/job-states.md, `FINISHED`, or "" while it goes on."""

    attempt_id: int
    reserved_at_ms: int
    end: str
    ended_at_ms: int | None = None
    node_id: str | None = None
    #: The cell of the node, if the job was a guest there.
    guest_in: str | None = None


class Timings(Message, frozen=True, kw_only=True):
    """When what happened. Left out: it did not, or not to this attempt; or what follows from it was said at once."""

    created_at_ms: int
    deadline_at_ms: int
    reserved_at_ms: int | None = None
    #: There if the node has not acknowledged in the next moment, or never does.
    dispatched_at_ms: int | None = None
    accepted_at_ms: int | None = None
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    released_at_ms: int | None = None


class JobAnswer(Message, frozen=True, kw_only=True):
    """Everything known of a job. `result` is null until there is one, and when it is erased."""

    job_id: str
    session_id: str
    utterance_index: int
    src_lang: str
    tgt_lang: str
    state: str
    attempt_id: int
    attempts: list[AttemptAnswer]
    timings: Timings
    result: Any
    trace_id: str
    node_id: str | None = None
    #: How it ended, if not well: `JOB_FAILED` or `JOB_TIMEOUT`, and why.
    error: str | None = None
    reason: str | None = None


class JobSummary(Message, frozen=True, kw_only=True):
    """A job at a glance. `attempts`: how many it had, with the one that goes on."""

    job_id: str
    session_id: str
    utterance_index: int
    src_lang: str
    tgt_lang: str
    state: str
    attempts: int
    created_at_ms: int
    ended_at_ms: int | None = None
    node_id: str | None = None
    #: As in `JobAnswer`; of one that has not ended, why its last attempt did.
    error: str | None = None
    reason: str | None = None


class JobsAnswer(Message, frozen=True, kw_only=True):
    """A page of jobs. Without a cursor there are no more; with one there may be, also if none is on it."""

    jobs: list[JobSummary]
    cursor: str | None = None


def job_summary(job: JobRecord, ticket: Ticket) -> JobSummary:
    """A job at a glance."""
    src, _, tgt = ticket.pair.partition(":")
    past = job.past.attempts
    cause = past[-1].cause if past and job.state not in ENDS else ""
    return JobSummary(
        job_id=ticket.job,
        session_id=ticket.session,
        utterance_index=ticket.utterance,
        src_lang=src,
        tgt_lang=tgt,
        state=job.state,
        attempts=len(past) + (last_attempt(job) is not None),
        created_at_ms=job.created_at_ms,
        ended_at_ms=job.ended_at_ms or None,
        node_id=job.node or None,
        error=END_CODES.get(job.state),
        reason=job.past.reason or cause or None,
    )


def job_answer(job: JobRecord, ticket: Ticket, result: str = "", *, internals: bool = True) -> JobAnswer:
    """A job as it is shown; without `internals` as its own session may see it: not on which nodes."""
    src, _, tgt = ticket.pair.partition(":")
    return JobAnswer(
        job_id=ticket.job,
        session_id=ticket.session,
        utterance_index=ticket.utterance,
        src_lang=src,
        tgt_lang=tgt,
        state=job.state,
        attempt_id=job.attempt,
        attempts=_attempts(job, internals=internals),
        timings=_timings(job),
        result=msgspec.Raw(result.encode()) if result else None,
        trace_id=ticket.trace,
        node_id=job.node or None if internals else None,
        error=END_CODES.get(job.state),
        reason=job.past.reason or None,
    )


def _attempts(job: JobRecord, *, internals: bool) -> list[AttemptAnswer]:
    found = [
        (past.attempt, past.reserved_at_ms, past.cause, past.ended_at_ms, past.node, past.cell)
        for past in job.past.attempts
    ]
    end = last_attempt(job)
    if end is not None:
        found.append((job.attempt, job.reserved_at_ms, end, job.ended_at_ms, job.node, job.cell))
    return [
        AttemptAnswer(
            attempt_id=number,
            reserved_at_ms=reserved_at,
            end=end,
            ended_at_ms=ended_at or None,
            node_id=node_id if internals else None,
            guest_in=cell or None if internals else None,
        )
        for number, reserved_at, end, ended_at, node_id, cell in found
    ]


def _timings(job: JobRecord) -> Timings:
    return Timings(
        created_at_ms=job.created_at_ms,
        deadline_at_ms=job.deadline_at_ms,
        reserved_at_ms=job.reserved_at_ms or None,
        dispatched_at_ms=job.dispatched_at_ms or None,
        accepted_at_ms=job.accepted_at_ms or None,
        started_at_ms=job.started_at_ms or None,
        ended_at_ms=job.ended_at_ms or None,
        released_at_ms=job.past.released_at_ms or None,
    )
