"""settle: a letter was handled, or is a dead letter now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.flows.mail import check_number, check_slot
from lingua_scheduler.store.face import Answer, Face, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Settled(Answer, frozen=True, tag="SETTLED"):
    """It is out of the inbox; `was_there`: until now it was not."""

    was_there: bool


_SETTLE: Final = Face("flows/settle", Settled)


async def settle(engine: Engine, instance_id: str, number: str) -> Settled | Refusal:
    """Take a letter out of the inbox of an instance, for good."""
    try:
        tag = check_slot(instance_id)
        item = pack((check_number(number),))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _SETTLE(engine, tag, item)
    assert isinstance(answer, Settled)  # noqa: S101 - it refuses nothing
    return answer
