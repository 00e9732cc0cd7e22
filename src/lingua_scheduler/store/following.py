"""A job that went on from cell to cell is asked for where it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.ids import cell_of, in_cell
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

A = TypeVar("A", bound="Answer")

#: Nobody goes on as often as this while somebody looks for him.
_MOST_HOPS: Final = 1_000


class GoneOn(Answer, frozen=True, tag="GONE_ON"):
    """The job is not here any more: it was sent on to this cell, and had gone on so often by then."""

    cell: str
    hop: int


class Found(NamedTuple, Generic[A]):
    """A job where it is: its id there, how often it went on, and the answer, which is never `GoneOn`."""

    job_id: str
    hop: int
    answer: A | No


async def follow(face: Face[A], engine: Engine, job_id: str, hop: int, *said: object) -> Found[A]:
    """Ask for a job where it is.

    `hop` is how often it had gone on when it was in the cell that its id names. `Invalid` if that names none.
    """
    cell = cell_of(job_id)
    while hop < _MOST_HOPS:
        answer = await face(engine, cell, pack((job_id, hop, *said)))
        if not isinstance(answer, GoneOn):
            return Found(job_id, hop, answer)
        cell, hop = answer.cell, answer.hop
        job_id = in_cell(job_id, cell)
    raise DependencyDown("BEHIND", f"job {job_id} goes on from cell to cell, and nobody finds it")
