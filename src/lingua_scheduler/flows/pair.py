"""pair: a code comes to stand for a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_code, check_id
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.face import Answer, Face, No, pack
from lingua_scheduler.store.keys import pairing_tag

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Paired(Answer, frozen=True, tag="PAIRED"):
    """The code stands for this node, for a while from now."""


class Taken(Answer, frozen=True, tag="TAKEN"):
    """The code stands for another node."""


_PAIR: Final = Face[Paired | Taken]("flows/pair", Paired, Taken)


async def pair(engine: Engine, cell: str, node_id: str, code: str) -> Paired | Taken | Refusal:
    """Let the code stand for the node. Whether there is such a node is the caller's to know."""
    try:
        tag = pairing_tag(check_code(code))
        item = pack((check_cell(cell), check_id("node_id", node_id)))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _PAIR(engine, tag, item)
    assert not isinstance(answer, No)  # noqa: S101 - it refuses nothing
    return answer
