"""deliver: the assignment was written to the node, or could not be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_bool
from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.attempts import ATTEMPT_REFUSALS, check_attempt, refused
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Delivered(Answer, frozen=True, tag="MOVED"):
    """Where the job is now. After a failed write: on its next node, if `state` is `RESERVED`."""

    state: State
    attempt_id: int
    node_id: str
    epoch: str
    acks: int


_DELIVER: Final = Face("flows/deliver", Delivered, refuses=ATTEMPT_REFUSALS)


async def deliver(
    engine: Engine, job_id: str, attempt_id: int, node_id: str, epoch: str = "", *, sent: bool = True
) -> Delivered | Refusal:
    """Say that the node was told of its attempt; `sent=False` undoes the reservation and moves the job on."""
    try:
        cell, attempt = check_attempt(job_id, attempt_id, node_id, epoch)
        item = pack((*attempt, check_bool("sent", sent)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _DELIVER(engine, cell, item)
    return refused(answer, job_id, attempt_id, node_id) if isinstance(answer, No) else answer
