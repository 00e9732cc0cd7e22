"""lodge: a job has its node in another cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_int, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.attempts import check_attempt
from lingua_scheduler.flows.guests import check_list
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.store.engine import Engine

MAX_REASON_CHARS: Final = 256


class Lodged(Answer, frozen=True, tag="LODGED"):
    """It is reserved there, and the outbox has it carried to its node."""


class NotAsked(Answer, frozen=True, tag="NOT_ASKED"):
    """It asks for this attempt no more; whoever took that back has the slot let go."""


_LODGE: Final = Face[Lodged | NotAsked]("flows/lodge", Lodged, NotAsked)


async def lodge(
    engine: Engine,
    job_id: str,
    attempt_id: int,
    node_id: str,
    epoch: str,
    acks: int,
    chosen: int,
    reasons: Sequence[str],
) -> Lodged | NotAsked | Refusal:
    """Reserve the attempt on the node that another cell has hosted it on, if just this one is still asked for."""
    try:
        home, attempt = check_attempt(job_id, attempt_id, node_id, epoch)
        numbers = check_int("acks", acks, 0, 1), check_int("chosen", chosen, 0, 2**53)
        item = pack((*attempt, *numbers, check_list("reasons", reasons, _reason)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _LODGE(engine, home, item)
    assert isinstance(answer, Lodged | NotAsked)  # noqa: S101 - it refuses nothing
    return answer


def _reason(name: str, value: object) -> str:
    return check_text(name, value, MAX_REASON_CHARS)
