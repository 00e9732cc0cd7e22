"""undeliver: the assignment could not be written to the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_bool
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.attempts import ATTEMPT_REFUSALS, Delivered, check_attempt, refused
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.face import Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)


_UNDELIVER: Final = Face("flows/undeliver", Delivered, refuses=ATTEMPT_REFUSALS)


async def undeliver(
    engine: Engine, job_id: str, attempt_id: int, node_id: str, epoch: str = "", *, unsure: bool = False
) -> Delivered | Refusal:
    """Say that the node was not told: the reservation is undone, and the job moves on if nobody else got through.

    `unsure`: somebody who is gone may have told it. If it may come back the job stays with it: it will say so then.
    """
    try:
        cell, attempt = check_attempt(job_id, attempt_id, node_id, epoch)
        doubt = check_bool("unsure", unsure)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _UNDELIVER(engine, cell, pack((*attempt, doubt)))
    if log.is_debug:
        log.debug("undeliver", job_id=job_id, attempt=attempt_id, node_id=node_id, answer=answer)
    return refused(answer, job_id, attempt_id, node_id) if isinstance(answer, No) else answer
