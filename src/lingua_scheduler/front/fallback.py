"""A job that named a node and went to another: it is told in the log, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.explain import explain_record
from lingua_scheduler.logs import get_log

if TYPE_CHECKING:
    from lingua_scheduler.core.explain import Attempt
    from lingua_scheduler.views.job import Job

_WISH: Final = "preferred "

log = get_log(__name__)


def tell_fallback(job: Job) -> None:
    """Say where the job went instead, and why: a word of docs/reasons.md, or how the node that it named lost it."""
    wish, attempts = job.ticket.wish, explain_record(job.record, job.ticket).attempts
    if not wish.named or not attempts:
        return
    first = attempts[0]
    if first.node_id != wish.named:
        _tell(job, first.node_id, _why(first, wish.bound))
    elif len(attempts) > 1:
        _tell(job, attempts[1].node_id, first.end)


def _tell(job: Job, node_id: str, why: str) -> None:
    ticket = job.ticket
    log.warning(
        "fallback",
        job_id=ticket.job,
        node_id=node_id,
        preferred=ticket.wish.named,
        reason=why,
        trace_id=ticket.trace,
    )


def _why(attempt: Attempt, bound: str) -> str:
    """What stood against the node when the choice was made, or when the wait for it began.

    The node of a job's turn comes before one that is preferred.
    """
    reasons: list[str] = [*attempt.reasons, *(attempt.wait.reasons if attempt.wait else ())]
    told = [reason.removeprefix(_WISH) for reason in reasons if reason.startswith(_WISH)]
    if told:
        return told[0]
    return "bound" if attempt.node_id == bound else "not known"
