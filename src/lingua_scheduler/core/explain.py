"""Why a job went where it went: one structure, for a job after the fact and for a pair now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.job_state import WAITING_STATES
from lingua_scheduler.core.wanted import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingua_scheduler.core.records import Choice, JobRecord


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
    #: How long the job had been without a node.
    waited_ms: int
    reserved_at_ms: int
    #: How it ended: a cause of docs/job-states.md, `FINISHED`, or "" while it goes on.
    end: str
    ended_at_ms: int


class Explanation(msgspec.Struct, frozen=True):
    """A job's way so far. `waiting_since_ms` is 0 unless it is without a node now."""

    state: str
    reason: str
    attempts: list[Attempt]
    waiting_since_ms: int


def explain_record(job: JobRecord) -> Explanation:
    """What a job's record tells of its way."""
    attempts = list(_attempts(job))
    free_at = attempts[-1].ended_at_ms if attempts else job.created_at_ms
    waits = job.state in WAITING_STATES
    return Explanation(job.state, job.past.reason, attempts, free_at if waits else 0)


def _attempts(job: JobRecord) -> Iterator[Attempt]:
    free_at = job.created_at_ms
    for past in job.past.attempts:
        yield _attempt(past.attempt, past.node, past.choice, free_at, past.reserved_at_ms, past.cause, past.ended_at_ms)
        free_at = past.ended_at_ms
    noted = {past.attempt for past in job.past.attempts}
    if job.attempt and job.attempt not in noted and job.state not in WAITING_STATES:
        ended = "FINISHED" if job.state == "FINISHED" else ""
        yield _attempt(job.attempt, job.node, job.choice, free_at, job.reserved_at_ms, ended, job.ended_at_ms)


def _attempt(
    number: int, node_id: str, choice: Choice, free_at: int, reserved_at: int, end: str, ended_at: int
) -> Attempt:
    return Attempt(
        attempt_id=number,
        node_id=node_id,
        group=choice.group,
        candidates=choice.candidates,
        policy=Policy(choice.policy).name,
        reasons=choice.reasons,
        waited_ms=reserved_at - free_at,
        reserved_at_ms=reserved_at,
        end=end,
        ended_at_ms=ended_at,
    )
