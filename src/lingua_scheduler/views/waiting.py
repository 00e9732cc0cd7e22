"""waiting: the place of a job that waits, and how long that may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.ids import cell_of
from lingua_scheduler.core.job_state import State
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class _Place(Answer, frozen=True, tag="PLACE"):
    place: int
    until_ms: int
    ahead: int
    jobs_per_ms: str


class HasNode(Answer, frozen=True, tag="PLACED"):
    """The job does not wait; this is its state."""

    state: State


class Place(msgspec.Struct, frozen=True):
    """A job waits as the `place`-th of its pair, by deadline, until then at most.

    `estimate_ms` is how long its turn may take to come, as fast as its nodes worked lately; None: nobody knows yet.
    """

    place: int
    until_ms: int
    estimate_ms: int | None


_WAITING: Final = Face[_Place | HasNode]("views/waiting", _Place, HasNode, refuses=("UNKNOWN_JOB",))


async def read_place(engine: Engine, job_id: str) -> Place | HasNode | Refusal:
    """Where a job stands that waits for a node."""
    try:
        cell = cell_of(job_id)
    except Invalid as invalid:
        return invalid.refusal
    answer = await _WAITING(engine, cell, pack((job_id,)))
    if isinstance(answer, No):
        return refuse(answer.code, job_id=job_id)
    if isinstance(answer, HasNode):
        return answer
    rate = float(answer.jobs_per_ms)
    return Place(answer.place, answer.until_ms, round(answer.ahead / rate) if rate else None)
