"""bring_back: a job has no node in the other cell, or no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.guests import WITHOUT_RESULT, check_end, check_guest
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class BroughtBack(Answer, frozen=True, tag="BROUGHT_BACK"):
    """It waits here again, or has its next node here (`RESERVED`), or has ended."""

    state: State


class Stays(Answer, frozen=True, tag="STAYS"):
    """It has gone on already."""


_BRING_BACK: Final = Face[BroughtBack | Stays]("flows/bring_back", BroughtBack, Stays)


async def bring_back(
    engine: Engine, job_id: str, attempt_id: int, early: str = "", late: str = "", *, asks_on: bool = False
) -> BroughtBack | Stays | Refusal:
    """The cell that was asked has no node for this attempt. Or lost it: by `late` if the node had accepted.

    `asks_on`: another will be asked, so the job does not yet go back to a node that had it. Whoever has asked the last
    one, or finds that there is none, says the job's last attempt, and it goes back at once.
    """
    try:
        home, attempt = check_guest(job_id, attempt_id)
        causes = [check_end(name, value, WITHOUT_RESULT) for name, value in (("early", early), ("late", late))]
    except Invalid as invalid:
        return invalid.refusal
    answer = await _BRING_BACK(engine, home, pack((*attempt, *causes, asks_on)))
    assert isinstance(answer, BroughtBack | Stays)  # noqa: S101 - it refuses nothing
    return answer
