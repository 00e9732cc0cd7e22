"""node: everything known of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.health import health
from lingua_scheduler.core.ids import check_cell, check_id
from lingua_scheduler.core.records import NodeRecord, Profile
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Node(Answer, frozen=True, tag="NODE"):
    """A node as it is now: what it says, how we judge it, and what holds its slots (0: not fenced)."""

    record: NodeRecord
    profile: Profile
    pairs: list[str]
    leases: list[tuple[str, int]]
    #: Those of its leases whose jobs are at home in another cell.
    guests: list[str]

    @property
    def health(self) -> int:
        """How well it does, from 0 to 100."""
        return health(self.record)

    @property
    def fenced(self) -> list[tuple[str, int]]:
        """Attempts that it must stop, and has not said of that it did."""
        return [_attempt(lease) for lease, fenced_at_ms in self.leases if fenced_at_ms]

    @property
    def held(self) -> list[tuple[str, int]]:
        """Attempts that are its own."""
        return [_attempt(lease) for lease, fenced_at_ms in self.leases if not fenced_at_ms]


def _attempt(lease: str) -> tuple[str, int]:
    _, job_id, attempt = lease.split(":")
    return job_id, int(attempt)


_NODE: Final = Face("views/node", Node, refuses=("UNKNOWN_NODE",))


async def read_node(engine: Engine, cell: str, node_id: str) -> Node | Refusal:
    """Look at one node."""
    try:
        cell = check_cell(cell)
        item = pack((check_id("node_id", node_id),))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _NODE(engine, cell, item)
    return refuse(answer.code, node_id=node_id) if isinstance(answer, No) else answer
