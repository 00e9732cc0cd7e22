"""send_out: a job that waits for its next attempt asks another cell for a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import cell_of, check_cell
from lingua_scheduler.core.records import Ticket
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class SentOut(Answer, frozen=True, tag="SENT_OUT"):
    """What the other cell is asked for: this attempt, which no other will be; by nodes that did not have the job."""

    attempt_id: int
    deadline_at_ms: int
    seed: int
    had: list[str]
    ticket: Ticket


class Stays(Answer, frozen=True, tag="STAYS"):
    """It does not wait for another attempt, or asks already."""


_SEND_OUT: Final = Face[SentOut | Stays]("flows/send_out", SentOut, Stays)


async def send_out(engine: Engine, job_id: str, to: str) -> SentOut | Stays | Refusal:
    """Write down, in the job's own cell, that the cell `to` is asked for its next attempt."""
    try:
        cell = cell_of(job_id)
        item = pack((job_id, check_cell(to)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _SEND_OUT(engine, cell, item)
    assert isinstance(answer, SentOut | Stays)  # noqa: S101 - it refuses nothing
    return answer
