"""host: a slot is taken for an attempt of a job of another cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_id, check_int
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.guests import check_deadline, check_guest, check_list, check_ticket
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.core.records import Ticket
    from lingua_scheduler.store.engine import Engine


class Hosted(Answer, frozen=True, tag="HOSTED"):
    """The node whose slot it has, and why it is this one."""

    node_id: str
    epoch: str
    acks: int
    chosen: int
    reasons: list[str]


class TurnedAway(Answer, frozen=True, tag="TURNED_AWAY"):
    """Nobody has room for it, or it is over: this attempt gets no slot here any more."""


_HOST: Final = Face[Hosted | TurnedAway]("flows/host", Hosted, TurnedAway)


async def host(
    engine: Engine,
    cell: str,
    job_id: str,
    attempt_id: int,
    deadline_at_ms: int,
    seed: int,
    had: Sequence[str],
    ticket: Ticket,
) -> Hosted | TurnedAway | Refusal:
    """Take a slot of a node of `cell` for this attempt, as `send_out` has it; told again, the same."""
    try:
        cell = check_cell(cell)
        _, attempt = check_guest(job_id, attempt_id)
        asked = check_deadline(deadline_at_ms), check_int("seed", seed, 0, 2**32 - 1)
        item = pack((*attempt, *asked, check_list("had", had, check_id), check_ticket(ticket)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _HOST(engine, cell, item)
    assert isinstance(answer, Hosted | TurnedAway)  # noqa: S101 - it refuses nothing
    return answer
