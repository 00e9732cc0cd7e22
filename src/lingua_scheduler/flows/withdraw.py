"""withdraw: a job without a node goes on to another cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import cell_of, check_cell, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.following import GoneOn

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

MAX_KEEP_MS: Final = 31 * 86_400_000


class Withdrawn(Answer, frozen=True, tag="WITHDRAWN"):
    """It is not here, nobody makes it here any more, and whoever looks for it is sent on: so often by now."""

    hop: int


class Stays(Answer, frozen=True, tag="STAYS"):
    """It has its node here, or has ended here."""


_WITHDRAW: Final = Face[Withdrawn | Stays | GoneOn]("flows/withdraw", Withdrawn, Stays, GoneOn)


async def withdraw(
    engine: Engine, job_id: str, hop: int, to: str, keep_ms: int
) -> Withdrawn | Stays | GoneOn | Refusal:
    """Send a job on from the cell that its id names, whether it waits there or was never made. `hop`: how often before.

    For `keep_ms` it is known where it went: as long as anybody may look for it by this id.
    """
    try:
        cell = cell_of(job_id)
        checked = (check_int("hop", hop, 0, 2**31), check_cell(to), check_int("keep_ms", keep_ms, 1, MAX_KEEP_MS))
        item = pack((job_id, *checked))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _WITHDRAW(engine, cell, item)
    assert isinstance(answer, Withdrawn | Stays | GoneOn)  # noqa: S101 - it refuses nothing
    return answer
