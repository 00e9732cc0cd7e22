"""mailbox: what waits for a node that comes to fetch its work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_cell, check_id
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No, pack
from lingua_scheduler.views.whereabouts import At, read_whereabouts

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class _Mailbox(Answer, frozen=True, tag="MAILBOX"):
    attempts: list[tuple[str, int]]
    guests: list[tuple[str, int]]


_MAILBOX: Final = Face("views/mailbox", _Mailbox, refuses=("UNKNOWN_NODE", "STALE_ATTEMPT"))
_HAS_A_SOCKET: Final = "node_id: {node_id} is on a socket, and its work is written there; to poll, register over HTTP."


async def read_mailbox(engine: Engine, cell: str, node_id: str) -> list[tuple[str, int]] | Refusal:
    """Job and attempt of everything that is DISPATCHED to the node, the oldest job id first; until it accepts them.

    A node that is on a socket has no mailbox.
    """
    try:
        cell = check_cell(cell)
        item = pack((check_id("node_id", node_id),))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _MAILBOX(engine, cell, item)
    if not isinstance(answer, No):
        return answer.attempts + [guest for guest in answer.guests if await _is_dispatched(engine, *guest, node_id)]
    if answer.code == "STALE_ATTEMPT":
        return Refusal(answer.code, _HAS_A_SOCKET.format(node_id=node_id))
    return refuse(answer.code, node_id=node_id)


async def _is_dispatched(engine: Engine, job_id: str, attempt_id: int, node_id: str) -> bool:
    """Whether a guest waits to be accepted, as its home has it."""
    at = await read_whereabouts(engine, job_id)
    return isinstance(at, At) and (at.state, at.attempt_id, at.node_id) == ("DISPATCHED", attempt_id, node_id)
