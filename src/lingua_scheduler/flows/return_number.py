"""return_number: an utterance was refused, and its number can be given again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_int
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.core.ticket import MAX_INDEX
from lingua_scheduler.flows.sessions import check_principal, check_session
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Returned(Answer, frozen=True, tag="RETURNED"):
    """Whoever asks for just this number may have it."""


_RETURN_NUMBER: Final = Face("flows/return_number", Returned, refuses=("INVALID_SESSION",))


async def return_number(engine: Engine, session_id: str, principal: str, utterance_index: int) -> Returned | Refusal:
    """Give back a number that `enter_session` gave, for an utterance that was refused."""
    try:
        tag = check_session(session_id)
        item = pack((check_principal(principal), check_int("utterance_index", utterance_index, 0, MAX_INDEX)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _RETURN_NUMBER(engine, tag, item)
    return refuse(answer.code) if isinstance(answer, No) else answer
