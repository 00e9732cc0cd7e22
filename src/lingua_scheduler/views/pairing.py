"""pairing: the node that a code stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_code
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No, pack
from lingua_scheduler.store.keys import pairing_tag

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Pairing(Answer, frozen=True, tag="PAIRING"):
    """A session that comes with the code takes this node and no other: `preferred_node_id` and `strict`."""

    cell: str
    node_id: str


_PAIRING: Final = Face("views/pairing", Pairing, refuses=("INVALID_PAIRING_CODE",))


async def read_pairing(engine: Engine, code: str) -> Pairing | Refusal:
    """Look a code up. It may be used as often as its time allows."""
    try:
        tag = pairing_tag(check_code(code))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _PAIRING(engine, tag, pack(()))
    return refuse(answer.code) if isinstance(answer, No) else answer
