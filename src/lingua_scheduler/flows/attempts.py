"""What the flows about one attempt have in common: how they name it, and how they are refused."""

from __future__ import annotations

import functools
from typing import Final

from lingua_scheduler.core.ids import cell_of, check_id, check_int, check_text
from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.store.face import Answer, No

ATTEMPT_REFUSALS: Final = ("UNKNOWN_JOB", "STALE_ATTEMPT", "NODE_MISMATCH")

#: Three tries, and the moves that cost none: far below this.
MAX_ATTEMPT: Final = 1_000_000


class Moved(Answer, frozen=True, tag="MOVED"):
    """The message was taken; the job is in this state now."""

    state: State
    #: When the event was posted that tells of it, if whoever sent the message has taken that; else 0.
    taken_at_ms: int = 0
    #: And how much else that has put into the outbox: others were given a node, or another cell has a slot again.
    more: int = 0


class Delivered(Answer, frozen=True, tag="MOVED"):
    """Where the job is now. After a failed write: on its next node, if `state` is `RESERVED`."""

    state: State
    attempt_id: int
    node_id: str
    epoch: str
    acks: int


def check_attempt(
    job_id: object, attempt_id: object, node_id: object, epoch: object
) -> tuple[str, tuple[str, int, str, str]]:
    """The cell to ask, and the attempt as the scripts read it."""
    cell = cell_of(job_id)
    attempt = check_int("attempt_id", attempt_id, 1, MAX_ATTEMPT)
    node = (_known if type(node_id) is str and type(epoch) is str else _life)(node_id, epoch)
    return cell, (str(job_id), attempt, *node)


def _life(node_id: object, epoch: object) -> tuple[str, str]:
    return check_id("node_id", node_id), check_text("epoch", epoch, 64)


#: The same nodes speak again and again, each for a whole life.
_known: Final = functools.lru_cache(maxsize=4_096)(_life)


def refused(no: No, job_id: str, attempt_id: int, node_id: str) -> Refusal:
    """The refusal that a script's "no" means to whoever sent the message."""
    return refuse(no.code, job_id=job_id, attempt_id=attempt_id, node_id=node_id)
