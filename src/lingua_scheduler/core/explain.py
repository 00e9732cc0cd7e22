"""Why a job goes, went or would go where it does: one structure, whatever was asked.

For a pair it has the nodes and no attempts; for a job its attempts, its wait, and the nodes if they were asked for. All
reasons are words of `core/reasons.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.job_state import ENDS, WAITING_STATES
from lingua_scheduler.core.wanted import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingua_scheduler.core.records import JobRecord, PastAttempt, Ticket


class Verdict(msgspec.Struct, frozen=True):
    """Whether a node could take the job now: `reason` is "" or the first thing that stands against it."""

    node_id: str
    reason: str
    used: int
    max: int
    health: int
    #: It is taken only when no node above suspicion can.
    suspect: bool
    #: It had the job, has it, or has seen its utterance: it is taken only when no other can.
    seen: bool


class Wait(msgspec.Struct, frozen=True):
    """A time without a node. Of one that goes on, `until_ms` is when it ends at the latest."""

    since_ms: int
    until_ms: int
    #: Which wishes could not be met when it began. That nobody had room goes without saying.
    reasons: list[str]


class Attempt(msgspec.Struct, frozen=True):
    """One choice and what came of it."""

    attempt_id: int
    node_id: str
    #: The nodes of the same capability among which it was.
    group: int
    #: How many could have taken the job.
    candidates: int
    policy: str
    #: Which wishes could not be met (`preferred full`), and what was special (`waited`, `suspect`, `panic`).
    reasons: list[str]
    #: The wait before it; None if there was none.
    wait: Wait | None
    reserved_at_ms: int
    #: How it ended: a cause of docs/job-states.md, `FINISHED`, or "" while it goes on.
    end: str
    ended_at_ms: int
    #: How far it came, and when; 0: not so far, or so soon further that nobody said so.
    dispatched_at_ms: int = 0
    accepted_at_ms: int = 0
    started_at_ms: int = 0


class Explanation(msgspec.Struct, frozen=True):
    """The answer to every "why". Of a pair there is no job: its id and its state are "", and it had no attempts."""

    pair: str
    job_id: str = ""
    state: str = ""
    #: Why it ended.
    reason: str = ""
    attempts: list[Attempt] = []
    #: The wait in which it is, or in which it ended.
    waiting: Wait | None = None
    #: Some of the fleet, by name; None: nobody asked.
    nodes: list[Verdict] | None = None
    #: Where the next page of nodes begins; "": there is none.
    cursor: str = ""


def explain_record(job: JobRecord, ticket: Ticket) -> Explanation:
    """What a job's record tells of its way."""
    return Explanation(
        pair=ticket.pair,
        job_id=ticket.job,
        state=job.state,
        reason=job.past.reason,
        attempts=list(_attempts(job)),
        waiting=_waiting(job, ticket),
    )


def _waiting(job: JobRecord, ticket: Ticket) -> Wait | None:
    past = job.past.attempts
    since = past[-1].ended_at_ms if past else job.created_at_ms
    if job.state in WAITING_STATES:
        until = job.deadline_at_ms if job.attempt else job.created_at_ms + ticket.wait_ms
        return Wait(since, until, job.past.reasons)
    lost = past and (past[-1].attempt, past[-1].next_state) == (job.attempt, "RETRYING")
    if job.state in ENDS and (lost or not job.attempt):
        return Wait(since, job.ended_at_ms, job.past.reasons)
    return None


def last_attempt(job: JobRecord) -> str | None:
    """How the attempt ended on which there is no note yet: `FINISHED`, "" while it goes on; None: there is none."""
    if not job.attempt or job.state in WAITING_STATES or any(past.attempt == job.attempt for past in job.past.attempts):
        return None
    return "FINISHED" if job.state == "FINISHED" else ""


def _attempts(job: JobRecord) -> Iterator[Attempt]:
    free_at = job.created_at_ms
    for past in job.past.attempts:
        yield _attempt(past.attempt, past, free_at, past.cause)
        free_at = past.ended_at_ms
    end = last_attempt(job)
    if end is not None:
        yield _attempt(job.attempt, job, free_at, end)


def _attempt(number: int, record: PastAttempt | JobRecord, free_at: int, end: str) -> Attempt:
    """What a job's record says of its current attempt, or a note on one before."""
    choice = record.choice
    reasons, wait = choice.reasons, None
    if "waited" in reasons:
        # What comes before this word was so when the wait began, what comes after it when the wait was over.
        began = reasons.index("waited")
        reasons, wait = reasons[began:], Wait(free_at, record.reserved_at_ms, reasons[:began])
    return Attempt(
        attempt_id=number,
        node_id=record.node,
        group=choice.group,
        candidates=choice.candidates,
        policy=Policy(choice.policy).name,
        reasons=reasons,
        wait=wait,
        reserved_at_ms=record.reserved_at_ms,
        end=end,
        ended_at_ms=record.ended_at_ms,
        dispatched_at_ms=record.dispatched_at_ms,
        accepted_at_ms=record.accepted_at_ms,
        started_at_ms=record.started_at_ms,
    )
