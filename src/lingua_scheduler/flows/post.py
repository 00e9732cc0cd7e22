"""post: a letter is put into the inbox of an instance that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.letter import check_letter
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.flows.mail import check_slot
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.core.letter import Letter
    from lingua_scheduler.store.engine import Engine


class Sent(Answer, frozen=True, tag="SENT"):
    """It lies in the inbox, under this number; somebody will handle it, whoever dies."""

    number: str


_POST: Final = Face("flows/post", Sent, refuses=("INSTANCE_GONE", "INBOX_FULL"))


async def post(engine: Engine, instance_id: str, letter: Letter) -> Sent | Refusal:
    """Send a letter to an instance. Sent again after `OutcomeUnknown` it may come twice, as any letter may."""
    try:
        tag = check_slot(instance_id)
        item = pack(check_letter(letter))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _POST(engine, tag, item)
    return refuse(answer.code, instance_id=instance_id) if isinstance(answer, No) else answer
